"""Lines of a JSONL file that may still be written, or may not be what it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class NoJSON(ValueError):
    """A line that cannot be parsed; the last one of a file may be half written."""


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, line ends included, with their numbers from 1."""
    with path.open("rb") as file:  # as bytes: a text file also breaks lines where JSON does not
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def json_object(line: bytes) -> dict[str, Any]:
    """The object on a line.

    Raises:
        NoJSON: for a line that cannot be parsed.
        ValueError: for one that holds something else. The messages say what, and leave place and fix to the caller.
    """
    try:
        row = json.loads(line.decode("utf-8"))
    except ValueError as error:
        raise NoJSON(f"no JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"no JSON object, but {type(row).__name__}")
    return row

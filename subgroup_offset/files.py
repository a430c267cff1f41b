"""Files that are written whole or not at all, and lines of JSON that may be half written or not what they should be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class NoJSON(ValueError):
    """A line that cannot be parsed; the last one of a file may be half written."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` when the block ends without an error.

    The directory is made where it is missing. What a crash leaves is the file as it was before, never half of one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as draft:
        draft.write_bytes(text.encode("utf-8"))


def json_line(row: Mapping[str, Any], default: Callable[[Any], Any] | None = None) -> bytes:
    """A row as one line of JSON, line end included.

    Half a surrogate pair, as half a token decodes to, has no UTF-8: it becomes the escape by which JSON has it.
    """
    return (json.dumps(row, ensure_ascii=False, default=default) + "\n").encode("utf-8", "backslashreplace")


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

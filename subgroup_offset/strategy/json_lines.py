"""Records in JSONL files that may be half written, or hold lines of another kind: read, counted, and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from subgroup_offset.files import NoJSON, json_object, numbered_lines

T = TypeVar("T")


class RecordError(ValueError):
    """A log that cannot be read; the message names the file, the line and what is wrong with it."""


@dataclass
class Unusable:
    """What of records or rollouts could not be used, counted by what it is, with the place of the first of each."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, place: str) -> None:
        """Count one more."""
        self.counts[what] += 1
        self.first.setdefault(what, place)

    def texts(self) -> list[str]:
        """In words; empty if there was none."""
        return [f"{what}: {count}, the first {self.first[what]}" for what, count in self.counts.items()]


def by_step(directory: Path) -> dict[int, Path]:
    """The directory's ``{step}.jsonl``, in the order of the steps; empty where there is none."""
    return dict(sorted((int(file.stem), file) for file in directory.glob("*.jsonl") if file.stem.isdecimal()))


def read_lines(
    path: Path,
    parse: Callable[[Mapping[str, Any], Unusable, str], T],
    kind: str,
    unusable: Unusable | None,
    marks: Collection[bytes] | None = None,
) -> Iterator[T]:
    """What ``parse`` makes of every line of a JSONL file.

    Args:
        path: the file.
        parse: gets an object, where to count odd values, and its place; raises for what is nothing of its kind.
        kind: what a line should be, for the message.
        unusable: other lines are left out and counted here; None: the first one raises.
        marks: only lines that hold one of these bytes are parsed; None for all.

    Raises:
        RecordError: naming file and line.
    """
    noted = Unusable() if unusable is None else unusable
    for number, line in numbered_lines(path):
        if marks is not None and not any(mark in line for mark in marks):
            continue
        place = f"{path}:{number}"
        try:
            found = parse(json_object(line), noted, place)
        except KeyError as error:
            why = f"the key {error} is missing"
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, NoJSON) and not line.endswith(b"\n"):
                noted.add("a half-written last line", place)
                return
            why = str(error)
        else:
            yield found
            continue
        message = f"{place}: no {kind} ({why})"
        if unusable is None:
            raise RecordError(f"{message}.")
        noted.add("lines that cannot be read", message)

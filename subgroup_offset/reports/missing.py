"""What a report could not find, and what would produce it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class ReportError(ValueError):
    """A report that cannot be written at all; the message names the path, what is missing and the fix."""


@dataclass(frozen=True)
class Missing:
    """Something that is not there, or that was left out because it could not be used."""

    #: The run's name.
    run: str
    what: str
    #: What would produce it.
    fix: str


@dataclass(frozen=True)
class MissingGroup:
    """The same thing missing from several runs."""

    runs: tuple[str, ...]
    what: str
    fix: str


def grouped(items: Iterable[Missing]) -> list[MissingGroup]:
    """Entries with the same text as one, in the order in which they first appear, each run once."""
    runs: dict[tuple[str, str], dict[str, None]] = {}
    for item in items:
        runs.setdefault((item.what, item.fix), {})[item.run] = None
    return [MissingGroup(tuple(names), what, fix) for (what, fix), names in runs.items()]

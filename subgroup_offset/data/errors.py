"""What is wrong with a source: as a whole, or with single rows, which are collected before anything fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from subgroup_offset.text import shortened

_SHOWN = 20  # of the lines of a message; the rest is counted
_WIDTH = 120


class DataError(ValueError):
    """Data that cannot be used; the message says where, what, and what to do."""


class BadCell(ValueError):
    """One value that cannot be used; the message goes on after the value: what it is, and what to do."""


def written(value: Any) -> str:
    """A value as Python writes it, cut to a line's length."""
    return shortened(repr(value), _WIDTH)


def listed(head: str, lines: Sequence[str]) -> str:
    """A message of some lines under a first one, and how many more there are."""
    more = [f"... and {len(lines) - _SHOWN} more."] * (len(lines) > _SHOWN)
    return "\n  ".join([head, *lines[:_SHOWN], *more])


def raise_if_any(errors: Sequence[str]) -> None:
    """Raise :class:`DataError` with what was collected, one line a row."""
    if errors:
        rows = f"{len(errors)} row{'s' * (len(errors) > 1)}"
        raise DataError(listed(f"{rows} cannot be used; nothing was written.", errors))

"""What is wrong with a source: as a whole, or with single rows, which are collected before anything fails."""

from __future__ import annotations

from typing import Any

SHOWN = 20  #: Row errors, and conflicts, that a message lists; the rest is counted.
_VALUE_WIDTH = 120


class DataError(ValueError):
    """Data that cannot be used; the message says where, what, and what to do."""


class BadCell(ValueError):
    """One value that cannot be used."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def require_utf8(text: str) -> None:
    """Raise :class:`BadCell` for half of a surrogate pair, which JSON can hold and no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        fix = "Write the character whole, or remove it."
        raise BadCell("has half of a surrogate pair, which is no character", fix) from None


class RowErrors:
    """Collects errors of rows; keeps the first :data:`SHOWN` and counts all."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: list[str] = []

    def add(self, where: str, row_id: str | None, column: str, value: Any, error: BadCell) -> None:
        """Note one value.

        Args:
            where: file and row.
            row_id: the row's own id, where it has one.
            column: the value's column.
            value: as it was read.
            error: what is wrong with it.
        """
        self.count += 1
        if len(self._lines) < SHOWN:
            name = f", id {row_id}" if row_id is not None else ""
            self._lines.append(f"  {where}{name}: {column}={shortened(value)} {error.what}. {error.fix}")

    def raise_if_any(self) -> None:
        """Raise :class:`DataError` with all that was collected, if anything was."""
        if self.count:
            head = f"{self.count} row{'s' * (self.count > 1)} cannot be used; nothing was written."
            raise DataError("\n".join([head, *listed(self._lines, self.count)]))


def listed(lines: list[str], count: int) -> list[str]:
    """The first :data:`SHOWN` of ``lines``, and how many of ``count`` are not among them."""
    shown = lines[:SHOWN]
    return [*shown, f"  ... and {count - len(shown)} more."] if count > len(shown) else shown


def shortened(value: Any) -> str:
    """A value as Python writes it, cut to a line's length."""
    text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 3]}..."

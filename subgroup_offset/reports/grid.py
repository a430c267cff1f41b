"""Tables, figures and prose as data, for HTML and Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Emphasis = Literal["", "best", "second"]
Arrow = Literal["", "up", "down"]
NOTHING = "–"  #: Stands where there is no value.


@dataclass(frozen=True)
class Cell:
    """One cell."""

    text: str
    emphasis: Emphasis = ""
    #: Up or down from what the row is compared with.
    arrow: Arrow = ""
    #: Smaller, behind the text: an error or a count.
    small: str = ""
    #: Text of a config or a path, not a number.
    code: bool = False


@dataclass(frozen=True)
class Row:
    """A row; its first cell is its heading."""

    cells: tuple[Cell, ...]
    #: ``heading`` spans all columns with one cell; ``reference`` is set in italics, as the paper's GRPO row.
    kind: Literal["", "heading", "reference", "anchor"] = ""


@dataclass(frozen=True)
class Head:
    """A column heading over ``span`` columns."""

    text: str
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A table with one or two rows of headings."""

    caption: str
    heads: tuple[tuple[Head, ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    #: Columns of text are set to the left.
    text: bool = False

    @property
    def width(self) -> int:
        """How many columns."""
        return sum(head.span for head in self.heads[-1])


@dataclass(frozen=True)
class Series:
    """A line of a figure."""

    label: str
    #: Number of its colour and dash; below 0: grey.
    style: int
    x: Sequence[float]
    y: Sequence[float]
    #: A band around it, None without.
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    #: Set faintly behind: what was smoothed.
    faint: tuple[Sequence[float], Sequence[float]] | None = None
    #: Error bars, as distances.
    error: Sequence[float] | None = None
    markers: bool = False


@dataclass(frozen=True)
class Panel:
    """One coordinate system."""

    title: str
    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    log2: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side, or one below the other on a narrow screen, with one legend."""

    id: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Label and style of each line, once."""
        return list(dict.fromkeys((s.label, s.style) for panel in self.panels for s in panel.series))


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Listing:
    """A bulleted list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Papers:
    """What the paper says, set apart from the results."""

    title: str
    blocks: tuple[Table | Prose | Listing, ...]


@dataclass(frozen=True)
class Folded:
    """Shown on demand."""

    title: str
    blocks: tuple[Table | Prose | Listing, ...]


@dataclass(frozen=True)
class Browser:
    """Where the subgroup browser goes; its data is in the document."""


Block = Table | Figure | Prose | Listing | Papers | Folded | Browser


@dataclass(frozen=True)
class Chapter:
    """A part of the report with a heading."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    #: One paragraph under the title.
    summary: str
    chapters: tuple[Chapter, ...]
    #: Of the subgroup browser; None where there is nothing to browse.
    browser: dict | None = None


def cells(*texts: str) -> tuple[Cell, ...]:
    """Plain cells."""
    return tuple(Cell(text) for text in texts)


def arrow(value: float | None, reference: float | None) -> Arrow:
    """Up, down, or none where the two are equal as they are shown or one is not known.

    Args:
        value: as it is shown, rounded.
        reference: likewise.
    """
    if value is None or reference is None or value == reference:
        return ""
    return "up" if value > reference else "down"


def ranks(column: Sequence[float | None]) -> list[Emphasis]:
    """Best and second best of a column, the greater the better; equal values share a place. None has none.

    A column of one value, or of equal ones, has no best.
    """
    known = sorted({value for value in column if value is not None}, reverse=True)
    if len(known) < 2:
        return [""] * len(column)
    return ["best" if v == known[0] else "second" if v == known[1] else "" for v in column]

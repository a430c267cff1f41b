"""What a report is made of, for the page and for Markdown alike: tables as DataFrames, figures, paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

import pandas as pd

Mark = Literal["", "best", "second", "aside", "code"]
NOTHING = "–"  #: Stands where there is no value.


@dataclass(frozen=True)
class Cell:
    """A cell that is more than its text."""

    text: str
    #: ``best`` and ``second`` of a column; ``aside``: outside of the comparison, as the paper's GRPO row; ``code``.
    mark: Mark = ""
    #: ``up`` or ``down`` from what the row is compared with.
    arrow: Literal["", "up", "down"] = ""
    #: Smaller, behind the text: an error or a count.
    small: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    Attributes:
        caption: above it.
        frame: cells are texts, :class:`Cell`, or None for nothing. The first column has the names of the rows; the
            index has their sections. Columns may have two levels.
        notes: below it.
        text: its columns are of text, and set to the left.
    """

    caption: str
    frame: pd.DataFrame
    notes: Sequence[str] = ()
    text: bool = False

    @property
    def columns(self) -> list[tuple[str, ...]]:
        """The heading of each column, after what it stands below where there are two rows of headings."""
        return [column if isinstance(column, tuple) else (column,) for column in self.frame.columns]

    @property
    def heads(self) -> list[list[tuple[str, int]]]:
        """Rows of headings, each with how many columns it is over; the last has one for each column."""
        above = [(name, len(list(same))) for name, same in groupby(self.columns, key=lambda column: column[0])]
        return [*([above] if self.frame.columns.nlevels > 1 else []), [(column[-1], 1) for column in self.columns]]

    @property
    def lines(self) -> Iterator[tuple[str, list[Cell]]]:
        """Each row, after the heading of its section where that begins with it, else an empty one."""
        before = ""
        for section, *values in self.frame.itertuples(name=None):
            yield section if section != before else "", [_cell(value) for value in values]
            before = section


class Series(NamedTuple):
    """A line of a figure."""

    label: str
    #: Number of its colour and dash.
    style: int
    #: Over x, without gaps.
    y: pd.Series
    #: A band around it, None without.
    low: pd.Series | None = None
    high: pd.Series | None = None
    #: Set faintly behind: what was smoothed.
    faint: pd.Series | None = None
    #: Error bars, as distances.
    error: pd.Series | None = None
    markers: bool = False


class Panel(NamedTuple):
    """One coordinate system."""

    title: str
    xlabel: str
    ylabel: str
    series: Sequence[Series]
    log2: bool = False

    @property
    def description(self) -> str:
        """For those who do not see it."""
        return f"{self.title} over {self.xlabel}. Lines: {'; '.join(series.label for series in self.series)}."


@dataclass(frozen=True)
class Figure:
    """Panels side by side, or one below the other on a narrow screen, with one legend."""

    id: str
    caption: str
    panels: Sequence[Panel]

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Label and style of each line, once."""
        return list(dict.fromkeys((s.label, s.style) for panel in self.panels for s in panel.series))

    @property
    def file(self) -> str:
        """Name of its picture."""
        return f"report_{self.id}.png"


@dataclass(frozen=True)
class Box:
    """Blocks under a heading: folded away, or what the paper says, set apart from the results."""

    title: str
    blocks: Sequence[Table | str | list[str]]
    paper: bool = False


class Browser:
    """Where the subgroup browser goes; its data is in the document."""


#: A text is a paragraph, a list a bulleted one.
Block = Table | Figure | Box | Browser | str | list[str]


class Chapter(NamedTuple):
    """A part of the report with a heading."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    #: One paragraph under the title.
    summary: str
    chapters: Sequence[Chapter]
    #: Of the subgroup browser; None where there is nothing to browse.
    browser: dict[str, Any] | None = None


def table(
    caption: str,
    columns: Sequence[str] | Sequence[tuple[str, str]],
    rows: Iterable[tuple[str, Sequence[Any]]],
    notes: Sequence[str] = (),
    text: bool = False,
) -> Table:
    """A table from rows, each with its section."""
    rows = list(rows)
    named = pd.MultiIndex.from_tuples(columns) if columns and isinstance(columns[0], tuple) else list(columns)
    index = pd.Index([section for section, _ in rows], dtype=object)
    frame = pd.DataFrame([list(cells) for _, cells in rows], index=index, columns=named, dtype=object)
    return Table(caption, frame, notes, text)


def ranks(values: pd.DataFrame) -> pd.DataFrame:
    """``best`` and ``second`` of each column, the greater the better; equal values share a place.

    A column of one value, or of equal ones, has no best.
    """
    places = values.rank(method="dense", ascending=False).where(values.notna() & (values.nunique() > 1).to_numpy())
    return places.map(lambda place: {1.0: "best", 2.0: "second"}.get(place, "")).astype(object)


def score(value: float, digits: int, mark: Mark = "", reference: float = float("nan"), small: str = "") -> Cell | None:
    """A value with its arrow from a reference, both as they are shown, rounded; None for NaN."""
    change: Literal["", "up", "down"] = "up" if value > reference else "down" if value < reference else ""
    text = number(value, digits)
    return text and Cell(text, mark, change, small)


def number(value: float, digits: int, form: str = "{}") -> str | None:
    """A value with so many decimals; None for NaN."""
    return None if pd.isna(value) else form.format(f"{value:,.{digits}f}")


def _cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(NOTHING if value is None or (isinstance(value, float) and pd.isna(value)) else str(value))

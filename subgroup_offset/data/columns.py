"""Which column of a source holds the problem, the answer and the id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from subgroup_offset.data.errors import BadCell, DataError

# In order of preference, in any case; a dot goes into a struct. "solution" is last: it often holds a whole derivation.
PROBLEM = ("problem", "question", "prompt")
ANSWER = (
    "answer",
    "final_answer",
    "expected_answer",
    "ground_truth",
    "reward_model.ground_truth",
    "label",
    "target",
    "solution",
)
ID = ("id", "unique_id", "problem_id", "problem_idx", "extra_info.id", "extra_info.index")


@dataclass(frozen=True)
class Columns:
    """Columns to read; ``ids`` may be several, of which a row's first with a value counts, or none."""

    problem: str
    answer: str
    ids: tuple[str, ...]
    #: The top-level columns that these are in, without repeats.
    roots: tuple[str, ...]


def choose_columns(
    where: str, columns: Sequence[str], problem: str | None = None, answer: str | None = None
) -> Columns:
    """Find the columns of one file.

    Args:
        where: the file, for messages.
        columns: its top-level columns.
        problem: the user's choice, exact; None: the usual names are tried.
        answer: the same.

    Raises:
        DataError: if there is none; the message lists the columns.
    """
    chosen = (
        _required(where, columns, PROBLEM, problem, "problem"),
        _required(where, columns, ANSWER, answer, "answer"),
    )
    ids = tuple(found for name in ID if (found := _find(columns, name)))
    return Columns(*chosen, ids, tuple(dict.fromkeys(_root(columns, name) for name in (*chosen, *ids))))


def cell(row: Mapping[str, Any], name: str) -> Any:
    """A row's value, inside a struct if the name says so.

    Raises:
        BadCell: if the row has no such column.
    """
    value: Any = row
    for part in [name] if name in row else name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadCell("is not there", "Add it to the row, or remove the row.")
        value = value[part]
    return value


def row_id(row: Mapping[str, Any], columns: Columns) -> str | None:
    """The row's id as text, or None."""
    for name in columns.ids:
        try:
            value = cell(row, name)
        except BadCell:
            continue
        if isinstance(value, str | int | float) and value == value and str(value).strip():
            return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    return None


def _required(where: str, columns: Sequence[str], names: Sequence[str], wanted: str | None, what: str) -> str:
    listing = ", ".join(columns)
    if wanted is not None:
        if _root(columns, wanted) in columns:
            return wanted
        raise DataError(f"{where} has no column {wanted!r} (--{what}-column): its columns are {listing}.")
    found = next((column for name in names if (column := _find(columns, name))), None)
    if found is None:
        raise DataError(
            f"{where} has no column that usually holds the {what} ({', '.join(names)}): name it with "
            f"--{what}-column. Its columns are {listing}."
        )
    return found


def _root(columns: Sequence[str], name: str) -> str:
    return name if name in columns else name.partition(".")[0]


def _find(columns: Sequence[str], name: str) -> str | None:
    """The column of that name, its case aside; an exact match comes first."""
    head, dot, rest = name.partition(".")
    column = head if head in columns else next((c for c in columns if c.casefold() == head), None)
    return column and f"{column}{dot}{rest}"

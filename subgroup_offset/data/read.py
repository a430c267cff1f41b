"""Rows of parquet, JSON lines, JSON and CSV files, and the columns in them that hold problem, answer and id.

Rows come as they were written. ``datasets.load_dataset`` would guess a type for each column, and so make 1.5 of the
answer "1.50", a float of a long integer and a time of a date, and drop half of a surrogate pair.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from subgroup_offset.data.errors import DataError, written
from subgroup_offset.data.locate import SUFFIXES
from subgroup_offset.files import json_object, numbered_lines
from subgroup_offset.text import flat

# In order of preference, in any case; a dot goes into a struct. "solution" is last: it often holds a whole derivation.
_PROBLEM = ("problem", "question", "prompt")
_ANSWER = (
    *("answer", "final_answer", "expected_answer", "ground_truth", "reward_model.ground_truth"),
    *("label", "target", "solution"),
)
_ID = ("id", "unique_id", "problem_id", "problem_idx", "extra_info.id", "extra_info.index")


class Columns(NamedTuple):
    """Columns to read; ``ids`` may be several, of which a row's first with a value counts, or none."""

    problem: str
    answer: str
    ids: tuple[str, ...]


class Row(NamedTuple):
    """What is read of a row, as it was written."""

    where: str  #: file and row (of JSON lines the line), and the id where there is one
    id: str | None
    problem: Any
    answer: Any
    columns: Columns


def read_rows(files: Mapping[str, Path], problem: str | None, answer: str | None, errors: list[str]) -> Iterator[Row]:
    """All rows of some files in order.

    ``files`` have the names that messages call them by; ``problem`` and ``answer`` are columns that the user chose,
    exact, or None for the usual names; ``errors`` takes a line for every row that is none.

    Raises:
        DataError: for a file that cannot be read, is empty, or has no such columns.
    """
    for label, path in files.items():
        columns, number = None, 0
        for number, content in _contents(label, path):
            where = f"{label}, row {number}"
            try:
                row = _cells(content)
            except ValueError as error:
                errors.append(f"{where}: {written(content)} is {error}. Correct or remove it.")
                continue
            columns = columns or choose_columns(label, list(row), problem, answer)
            cells = row | dict(flat(row))
            id_ = next(filter(None, (_id(cells.get(name)) for name in columns.ids)), None)
            where += f", id {id_}" if id_ else ""
            yield Row(where, id_, cells.get(columns.problem), cells.get(columns.answer), columns)
        if not number:
            raise DataError(f"{label} holds no rows.")


def choose_columns(label: str, columns: Sequence[str], problem: str | None, answer: str | None) -> Columns:
    """The columns to read of one file, whose top-level ``columns`` are given.

    Raises:
        DataError: if there is none; the message lists them.
    """
    chosen = []
    for what, names, wanted in (("problem", _PROBLEM, problem), ("answer", _ANSWER, answer)):
        if wanted is not None:
            found = wanted if wanted in columns or wanted.partition(".")[0] in columns else None
            problem_with = f"has no column {wanted!r} (--{what}-column):"
        else:
            found = next((column for name in names if (column := _find(columns, name))), None)
            problem_with = f"has no column that usually holds the {what} ({', '.join(names)}): name --{what}-column;"
        if found is None:
            raise DataError(f"{label} {problem_with} its columns are {', '.join(map(str, columns))}.")
        chosen.append(found)
    return Columns(*chosen, tuple(found for name in _ID if (found := _find(columns, name))))


def _find(columns: Sequence[str], name: str) -> str | None:
    """The column of that name, its case aside; an exact match comes first."""
    head, dot, rest = name.partition(".")
    column = head if head in columns else next((c for c in columns if c.casefold() == head), None)
    return column and f"{column}{dot}{rest}"


def _id(value: Any) -> str | None:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value) if value == value else None
    return str(value).strip() or None if isinstance(value, str | int) else None


def _cells(content: Any) -> dict[str, Any]:
    """The cells of a row as a file has it; ``ValueError`` if that is no row."""
    cells = json_object(content.removeprefix(codecs.BOM_UTF8)) if isinstance(content, bytes) else content
    if not isinstance(cells, dict):
        raise ValueError(f"no JSON object, but {type(cells).__name__}")
    if None in cells:  # so the csv module keeps what is beyond the header
        raise ValueError("longer than the header: quote commas inside cells")
    return cells


def _contents(label: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Each row with its number: a mapping, a line of JSON, or what else there is."""
    kind = Path(label).suffix.lower()
    try:
        if kind == ".parquet":
            import pyarrow.parquet as pq

            batches = pq.ParquetFile(path).iter_batches(4096)
            yield from enumerate((cells for batch in batches for cells in batch.to_pylist()), start=1)
        elif kind == ".csv":
            csv.field_size_limit(2**31 - 1)
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                header = list(reader.fieldnames or ())
                if repeated := {column for column in header if header.count(column) > 1}:
                    raise DataError(f"{label} has two columns {repeated.pop()!r}: rename one.")
                yield from enumerate(reader, start=1)
        elif kind == ".json" and (data := path.read_bytes().removeprefix(codecs.BOM_UTF8)).lstrip().startswith(b"["):
            yield from enumerate(json.loads(data), start=1)
        elif kind in (".json", ".jsonl"):
            yield from numbered_lines(path)
        else:
            raise DataError(f"{label} is of no kind that can be read: give one of {', '.join(SUFFIXES)}.")
    except DataError:
        raise
    except Exception as error:  # each format's library has errors of its own
        raise DataError(f"{label} cannot be read as {kind[1:]}: {error}") from error

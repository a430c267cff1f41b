"""Read generations from a JSONL file, one object a line, and write them again with their grades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.grading import reference_problem
from subgroup_offset.files import json_line, json_object, numbered_lines, whole_file

#: Names of the two columns, the first that is there counts; verl's dumps have ``output`` and ``gts``.
RESPONSE_COLUMNS = ("output", "response")
REFERENCE_COLUMNS = ("gts", "answer", "reference")


class RowError(ValueError):
    """A row that cannot be graded; the message names the file, the line and the fix."""


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers, from 1, and rows; blank lines are passed over.

    Raises:
        RowError: for a file that is not there and for a line that is no JSON object.
    """
    if not path.is_file():
        raise RowError(f"{path} is not a file: give a JSONL file of generations.")
    for number, line in numbered_lines(path):
        try:
            yield number, json_object(line)
        except ValueError as error:
            raise RowError(f"{path}, line {number}: {error}. Remove or mend the line.") from error


def read_samples(path: Path, response: str | None, reference: str | None) -> Iterator[tuple[int, str, str]]:
    """Line number, response and reference of each row.

    Args:
        path: a JSONL file.
        response: the response's column; None: the first of :data:`RESPONSE_COLUMNS` that the first row has.
        reference: the reference's column, likewise of :data:`REFERENCE_COLUMNS`.

    Raises:
        RowError: for a row without them, with a response that is no text, or with a reference that is no answer.
    """
    for number, row in read_rows(path):
        where = f"{path}, line {number}"
        response = response or _column(row, RESPONSE_COLUMNS, "response", where)
        reference = reference or _column(row, REFERENCE_COLUMNS, "reference", where)
        for column in (response, reference):
            if column not in row:
                raise RowError(f"{where}: there is no column {column!r}; the row has {', '.join(row) or 'none'}.")
        text, answer = row[response], row[reference]
        if not isinstance(text, str):
            raise RowError(f"{where}: {response}={text!r} is no text: give the model's response.")
        if not isinstance(answer, str | int | float) or isinstance(answer, bool):
            raise RowError(f"{where}: {reference}={answer!r} is no answer: give a text or a number.")
        if (problem := reference_problem(str(answer))) is not None:
            raise RowError(f"{where}: {reference}={answer!r} {problem}")
        yield number, text, str(answer)


def write_graded(source: Path, target: Path, grades: Sequence[Mapping[str, Any]]) -> int:
    """Write the rows of ``source`` with their grades' columns added, and return in how many these replace others.

    Raises:
        RowError: if the source no longer has as many rows as grades.
    """
    replaced = 0
    with whole_file(target) as draft, draft.open("wb") as file:
        rows = [row for _, row in read_rows(source)]
        if len(rows) != len(grades):
            raise RowError(
                f"{source}: it had {len(grades)} rows when they were graded, now {len(rows)}. Grade it again."
            )
        for row, grade in zip(rows, grades, strict=True):
            replaced += not row.keys().isdisjoint(grade)
            file.write(json_line(row | grade))
    return replaced


def _column(row: Mapping[str, Any], known: Sequence[str], what: str, where: str) -> str:
    column = next((name for name in known if name in row), None)
    if column is None:
        raise RowError(
            f"{where}: no column {' or '.join(known)}; the row has {', '.join(row) or 'none'}. "
            f"Say which one holds the {what}: --{what}-column NAME."
        )
    return column

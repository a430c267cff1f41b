"""Rows of JSONL files: of generations to grade, of an evaluation's samples, and of graded ones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.grading import reference_problem
from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.files import NoJSON, json_line, json_object, numbered_lines, whole_file

logger = logging.getLogger(__name__)

#: Names of the two columns, the first that is there counts; verl's dumps have ``output`` and ``gts``.
RESPONSE_COLUMNS = ("output", "response")
REFERENCE_COLUMNS = ("gts", "answer", "reference")


def read_rows(path: Path, columns: Collection[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers, from 1, and rows, which may have more than these columns; blank lines are passed over.

    A last line without its end that is no JSON is still being written, or what a stop has left: it is left out with a
    warning.

    Raises:
        EvaluationError: for a file that is not there, a line that is no JSON object, or one that lacks a column.
    """
    if not path.is_file():
        raise EvaluationError(f"{path} is not a file: give a JSONL file.")
    for number, line in numbered_lines(path):
        try:
            row = json_object(line)
        except ValueError as error:
            if isinstance(error, NoJSON) and not line.endswith(b"\n"):
                logger.warning("%s, line %d is unfinished and left out.", path, number)
                continue
            raise EvaluationError(f"{path}, line {number}: {error}: remove or mend the line.") from error
        if absent := [name for name in columns if name not in row]:
            have = ", ".join(row) or "none"
            message = f"no {absent[0]!r}: every line needs {', '.join(columns)} (it has {have})."
            raise EvaluationError(f"{path}, line {number}: {message}")
        yield number, row


def read_responses(path: Path, response: str | None, reference: str | None) -> Iterator[tuple[int, str, str]]:
    """Line number, response and reference of each row.

    Args:
        path: a JSONL file.
        response: the response's column; None: the first of :data:`RESPONSE_COLUMNS` that the first row has.
        reference: the reference's column, likewise of :data:`REFERENCE_COLUMNS`.

    Raises:
        EvaluationError: for a row without them, with a response that is no text, or with a reference that is no answer.
    """
    for number, row in read_rows(path):
        where = f"{path}, line {number}"
        response = response or _column(row, RESPONSE_COLUMNS, "response", where)
        reference = reference or _column(row, REFERENCE_COLUMNS, "reference", where)
        if absent := {response, reference} - row.keys():
            have = ", ".join(row) or "none"
            raise EvaluationError(f"{where}: there is no column {absent.pop()!r}; the row has {have}.")
        text, answer = row[response], row[reference]
        if not isinstance(text, str):
            raise EvaluationError(f"{where}: {response}={text!r} is no text: give the model's response.")
        if not isinstance(answer, str | int | float) or isinstance(answer, bool):
            raise EvaluationError(f"{where}: {reference}={answer!r} is no answer: give a text or a number.")
        if (problem := reference_problem(str(answer))) is not None:
            raise EvaluationError(f"{where}: {reference}={answer!r} {problem}")
        yield number, text, str(answer)


def write_graded(source: Path, target: Path, grades: Sequence[Mapping[str, Any]]) -> int:
    """Write the rows of ``source`` with their grades' columns added, and return in how many these replace others.

    Raises:
        EvaluationError: if the source no longer has as many rows as grades.
    """
    replaced = 0
    with whole_file(target) as draft, draft.open("wb") as file:
        rows = [row for _, row in read_rows(source)]
        if len(rows) != len(grades):
            raise EvaluationError(
                f"{source}: it had {len(grades)} rows when they were graded, now {len(rows)}. Grade it again."
            )
        for row, grade in zip(rows, grades, strict=True):
            replaced += not row.keys().isdisjoint(grade)
            file.write(json_line(row | grade))
    return replaced


def _column(row: Mapping[str, Any], known: Sequence[str], what: str, where: str) -> str:
    column = next((name for name in known if name in row), None)
    if column is None:
        raise EvaluationError(
            f"{where}: no column {' or '.join(known)}; the row has {', '.join(row) or 'none'}. "
            f"Say which one holds the {what}: --{what}-column NAME."
        )
    return column

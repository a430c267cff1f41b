"""Read generations from a JSONL file, one object a line, and write them again with their grades."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.grading import reference_problem
from subgroup_offset.files import json_object, numbered_lines

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


def read_samples(
    path: Path, response: str | None = None, reference: str | None = None
) -> Iterator[tuple[int, str, str]]:
    """Line number, response and reference of each row.

    Args:
        path: a JSONL file.
        response: the response's column; None: the first of :data:`RESPONSE_COLUMNS` that the first row has.
        reference: the reference's column, likewise of :data:`REFERENCE_COLUMNS`.

    Raises:
        RowError: for a row without them, with a response that is no text, or with a reference that is no answer.
    """
    fine: set[str] = set()
    for number, row in read_rows(path):
        where = f"{path}, line {number}"
        response = response or _column(row, RESPONSE_COLUMNS, "response", where)
        reference = reference or _column(row, REFERENCE_COLUMNS, "reference", where)
        for column in (response, reference):
            if column not in row:
                raise RowError(f"{where}: there is no column {column!r}; the row has {', '.join(row) or 'none'}.")
        text = row[response]
        if not isinstance(text, str):
            raise RowError(f"{where}: {response}={text!r} is no text: give the model's response.")
        answer = _answer(row[reference], f"{where}: {reference}")
        if answer not in fine:
            if (problem := reference_problem(answer)) is not None:
                raise RowError(f"{where}: {reference}={answer!r} {problem}")
            fine.add(answer)
        yield number, text, answer


def write_graded(source: Path, target: Path, grades: Sequence[Mapping[str, Any]]) -> int:
    """Write the rows of ``source`` with their grades' columns added.

    Returns:
        How many rows had one of these columns, which is replaced.

    Raises:
        RowError: if the source no longer has as many rows as grades.
    """
    unfinished, replaced, written = target.with_name(f"{target.name}.unfinished"), 0, 0
    with unfinished.open("wb") as file:
        for number, row in read_rows(source):
            if written == len(grades):
                raise RowError(f"{source}, line {number}: the file has grown while it was graded. Grade it again.")
            replaced += not row.keys().isdisjoint(grades[written])
            file.write(_encoded(row | grades[written]))
            written += 1
    if written < len(grades):
        raise RowError(f"{source}: the file has lost rows while it was graded. Grade it again.")
    os.replace(unfinished, target)
    return replaced


def _column(row: Mapping[str, Any], known: Sequence[str], what: str, where: str) -> str:
    column = next((name for name in known if name in row), None)
    if column is None:
        raise RowError(
            f"{where}: no column {' or '.join(known)}; the row has {', '.join(row) or 'none'}. "
            f"Say which one holds the {what}: --{what}-column NAME."
        )
    return column


def _answer(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise RowError(f"{where}={value!r} is no answer: give a text or a number.")


def _encoded(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return (json.dumps(row) + "\n").encode("utf-8")

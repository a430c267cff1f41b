"""From rows to unique problems: every cell read and checked, duplicates removed, contradictions told."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from subgroup_offset.data.answers import MARK
from subgroup_offset.data.columns import Columns, cell, row_id
from subgroup_offset.data.errors import BadCell, RowErrors, shortened
from subgroup_offset.data.files import Row
from subgroup_offset.data.prompts import prompt_text, unwrap, wrap
from subgroup_offset.data.sources import Benchmark


@dataclass(frozen=True)
class Problem:
    """One problem, ready to be written."""

    id: str
    prompt: str  #: in its instructions
    answer: str
    where: str  #: file and row of its first occurrence, for messages


@dataclass(frozen=True)
class Conflict:
    """A problem whose rows give different answers."""

    problem: str
    #: Each answer with the first row that gives it.
    answers: dict[str, str]


@dataclass
class Collected:
    """What the rows of a source came to."""

    problems: list[Problem] = field(default_factory=list)
    rows: int = 0
    duplicates: int = 0  #: rows that repeat a problem, with the same answer or another one
    conflicts: list[Conflict] = field(default_factory=list)
    #: Rows (repeats aside) whose answer is written another way than in the source, and the first of them.
    rewritten: int = 0
    rewritten_example: tuple[str, str, str] | None = None
    #: Problems that came in other instructions than those they are written in.
    reworded: int = 0
    #: Whether the source's ids name more than one problem each, so that problems are numbered instead.
    ids_repeat: bool = False


def normalised(problem: str) -> str:
    """What two copies of a problem have in common: Unicode's composed form, with every run of white space one space.

    Nothing else is evened out: case, punctuation and signs such as "²" can be what tells two problems apart.
    """
    return " ".join(unicodedata.normalize("NFC", problem).split())


def collect(
    rows: Iterable[tuple[Row, Columns]], benchmark: Benchmark, split: str, instruction: str, errors: RowErrors
) -> Collected:
    """Read all rows.

    Of rows with the same :func:`normalised` problem and the same answer the first is kept. Where they give different
    answers none is: which is right cannot be told from the data, a wrong ground truth rewards wrong solutions, and a
    problem less is the smaller loss.

    Args:
        rows: in order, each with the columns of its file.
        benchmark: has the rule for answers.
        split: part of the ids of problems that have none.
        instruction: what problems are wrapped in. A text that is in this wrapper already is kept exactly.
        errors: takes what is wrong with rows; a bad row goes into nothing but ``rows``.
    """
    result = Collected()
    seen: set[tuple[Any, Any]] = set()  # as they were read: most duplicates are exact, and this is quick
    found: dict[str, Problem] = {}
    answers: dict[str, dict[str, str]] = {}
    named: dict[str, str | None] = {}
    for position, (row, columns) in enumerate(rows):
        result.rows += 1
        read = _read(row, columns, benchmark, errors, seen)
        if read is None:
            continue
        if isinstance(read, _Repeat):
            result.duplicates += 1
            continue
        key = normalised(read.problem)
        if read.spelling != read.answer:
            result.rewritten += 1
            result.rewritten_example = result.rewritten_example or (row.where, shortened(read.spelling), read.answer)
        answers.setdefault(key, {}).setdefault(read.answer, row.where)
        if key in found:
            result.duplicates += 1
            continue
        kept = read.around == instruction
        result.reworded += read.around is not None and not kept
        prompt = read.text if kept else wrap(read.problem, instruction)
        named[key] = row_id(row.cells, columns)
        found[key] = Problem(f"{benchmark.stem(split)}-{position}", prompt, read.answer, row.where)
    contradictory = {key for key, given in answers.items() if len(given) > 1}
    result.conflicts = [Conflict(key, answers[key]) for key in found if key in contradictory]
    kept_keys = [key for key in found if key not in contradictory]
    ids = _ids([(named[key], found[key].id) for key in kept_keys], benchmark.stem(split))
    result.ids_repeat = ids is None
    result.problems = [found[key] for key in kept_keys]
    if ids is not None:
        result.problems = [replace(problem, id=id_) for problem, id_ in zip(result.problems, ids, strict=True)]
    return result


@dataclass(frozen=True)
class _Read:
    text: str
    problem: str
    around: str | None
    answer: str
    spelling: str


class _Repeat:
    """The row says word for word what an earlier one did."""


def _read(
    row: Row, columns: Columns, benchmark: Benchmark, errors: RowErrors, seen: set[tuple[Any, Any]]
) -> _Read | _Repeat | None:
    """A row's problem and answer; None if either is bad, which is then in ``errors``."""
    if row.error:
        errors.add(row.where, None, *next(iter(row.cells.items())), row.error)
        return None
    raw: dict[str, Any] = {}
    column = columns.problem
    try:
        raw[column] = cell(row.cells, column)
        text = prompt_text(raw[column])
        column = columns.answer
        raw[column] = cell(row.cells, column)
        key = (text, repr(raw[column]))
        if key in seen:
            return _Repeat()
        answer = benchmark.answer(raw[column])
        column = columns.problem
        problem, around = unwrap(text)
    except BadCell as error:
        errors.add(row.where, row_id(row.cells, columns), column, raw.get(column), error)
        return None
    seen.add(key)
    spelling = str(raw[columns.answer]).rpartition(MARK)[2].strip()
    return _Read(text, problem, around, answer, spelling)


def _ids(names: list[tuple[str | None, str]], stem: str) -> list[str] | None:
    """Ids of the source, or the second of each pair where there is none; None if they are not unique.

    A bare number would be the same in every benchmark: it gets the stem.
    """
    ids = [f"{stem}-{name}" if name and name.isdecimal() else name or default for name, default in names]
    return ids if len(set(ids)) == len(ids) else None

"""From rows to unique problems, and from problems to verl's rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subgroup_offset.data.answers import MARK
from subgroup_offset.data.errors import BadCell, written
from subgroup_offset.data.prompts import prompt_text, unwrap, wrap
from subgroup_offset.data.read import Columns, Row
from subgroup_offset.data.sources import Benchmark


@dataclass(frozen=True)
class SourceProblem:
    """One problem, ready to be written."""

    id: str
    prompt: str  #: in its instructions
    answer: str
    where: str  #: file and row of its first occurrence, for messages


@dataclass
class Collected:
    """What the rows of a source came to."""

    problems: list[SourceProblem]
    columns: Columns | None  #: of the first row
    rows: int
    duplicates: int  #: rows that repeat a problem, with the same answer or another one
    #: Problems whose rows give different answers: each answer with the first row that gives it.
    conflicts: dict[str, dict[str, str]]
    notes: list[str]  #: what else was changed, a line each


def normalised(problem: str) -> str:
    """What two copies of a problem have in common: Unicode's composed form, with every run of white space one space.

    Nothing else is evened out: case, punctuation and signs such as "²" can be what tells two problems apart.
    """
    return " ".join(unicodedata.normalize("NFC", problem).split())


def collect(rows: Iterable[Row], benchmark: Benchmark, split: str, instruction: str, errors: list[str]) -> Collected:
    """Check all rows and keep each problem once.

    Of rows with the same :func:`normalised` problem and the same answer the first is kept. Where they give different
    answers none is: which is right cannot be told from the data, a wrong ground truth rewards wrong solutions, and a
    problem less is the smaller loss.

    A text that is in the wrapper of ``instruction`` already is kept exactly. ``errors`` takes a line for every row that
    cannot be used; such a row goes into nothing but ``rows``.
    """
    stem = benchmark.stem(split)
    found: dict[str, SourceProblem] = {}
    answers: dict[str, dict[str, str]] = {}
    ids: dict[str, str] = {}
    rewritten: list[str] = []
    columns, count, usable, reworded = None, 0, 0, 0
    for count, row in enumerate(rows, start=1):
        columns = columns or row.columns
        read = _checked(row, row.columns.problem, row.problem, _problem, errors)
        answer = read and _checked(row, row.columns.answer, row.answer, benchmark.answer, errors)
        if answer is None:
            continue
        usable += 1
        text, problem, around = read
        key = normalised(problem)
        answers.setdefault(key, {}).setdefault(answer, row.where)
        if key in found:
            continue
        spelling = str(row.answer).rpartition(MARK)[2].strip()
        if spelling != answer:
            rewritten.append(f"{row.where}: {written(spelling)} -> {answer!r}")
        reworded += around not in (None, instruction)
        prompt = text if around == instruction else wrap(problem, instruction)
        found[key] = SourceProblem(f"{stem}-{count - 1}", prompt, answer, row.where)
        if row.id is not None:  # a bare number would be the same in every benchmark
            ids[key] = f"{stem}-{row.id}" if row.id.isdecimal() else row.id
    conflicts = {key: given for key, given in answers.items() if len(given) > 1}
    problems = {key: problem for key, problem in found.items() if key not in conflicts}
    named = [replace(problem, id=ids.get(key, problem.id)) for key, problem in problems.items()]
    notes = []
    if rewritten:
        notes.append(f"answers     {len(rewritten)} written in plain form, first {rewritten[0]}")
    if reworded:
        notes.append(f"prompts     {reworded} had other instructions, which were replaced")
    if len({problem.id for problem in named}) < len(named):
        notes.append("ids         of the source name more than one problem each: numbered instead")
        named = list(problems.values())
    return Collected(named, columns, count, usable - len(found), conflicts, notes)


def check_scores(problems: Iterable[SourceProblem], data_source: str, errors: list[str]) -> None:
    """Score a right solution of every problem with verl's ``default_compute_score``; what fails goes to ``errors``.

    A ground truth that verl cannot read would make every solution wrong.
    """
    from verl.utils.reward_score import default_compute_score

    mark = MARK if data_source == "openai/gsm8k" else "Answer:"
    for problem in problems:
        score = default_compute_score(data_source, f"{mark} {problem.answer}", problem.answer)
        if not (score["acc"] if isinstance(score, dict) else score == 1):
            errors.append(
                f"{problem.where}: ground truth={written(problem.answer)} is not accepted by verl's reward in a right "
                "solution. Give the final answer alone, on one line of at most 280 characters."
            )


def verl_rows(
    problems: Sequence[SourceProblem], data_source: str, benchmark: str, split: str, replicas: int = 1
) -> list[dict[str, Any]]:
    """The rows of a file.

    All problems come once before any comes again, so that the first ``len(problems) * r`` rows (verl's
    ``data.val_max_samples``) are r whole replicas. ``extra_info.index`` counts rows, ``id`` names the problem.

    ``data_source`` is what verl chooses the reward by, and names validation metrics after.
    """
    repeated = [(replica, problem) for replica in range(replicas) for problem in problems]
    place = {"benchmark": benchmark, "split": split}
    return [
        {
            "data_source": data_source,
            "prompt": [{"role": "user", "content": problem.prompt}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"index": index, **place, "id": problem.id, "replica": replica},
        }
        for index, (replica, problem) in enumerate(repeated)
    ]


def _problem(cell: Any) -> tuple[str, str, str | None]:
    text = prompt_text(cell)
    return text, *unwrap(text)


def _checked(row: Row, column: str, value: Any, rule: Callable[[Any], Any], errors: list[str]) -> Any:
    """What the rule makes of a cell; None if it cannot be used, which is then in ``errors``."""
    try:
        return rule(value)
    except BadCell as error:
        errors.append(f"{row.where}: {column}={written(value)} {error}")
        return None

"""Scores of a run: of its evaluation, or verl's own validation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL, Replicas, SamplesError, complete_replicas, read_samples
from subgroup_offset.evaluation.summary import summary_table
from subgroup_offset.reports.groups import Group
from subgroup_offset.reports.runs import Run

# `val-core/<data source>/<variable>/<metric>`; the source may hold slashes.
_VALIDATION = re.compile(r"val-core/(?P<source>.+)/(?P<variable>[^/]+)/(?P<metric>mean@\d+|(?:maj|best)@\d+/mean)")


@dataclass(frozen=True, order=True)
class Column:
    """What a score is of."""

    benchmark: str
    metric: str
    #: Shown in percent with one decimal; otherwise (rewards) as it is, with three.
    percent: bool = True

    def rounded(self, value: float) -> float:
        """As it is shown: what arrows and ranks compare."""
        return round(100 * value, 1) if self.percent else round(value, 3)

    def text(self, value: float) -> str:
        """As it is shown."""
        return f"{self.rounded(value):.1f}" if self.percent else f"{self.rounded(value):.3f}"

    def text_of_error(self, value: float) -> str:
        """A distance in the unit of the value."""
        return f"±{100 * value:.1f}" if self.percent else f"±{value:.3f}"


@dataclass(frozen=True)
class Scores:
    """The scores of one run."""

    values: dict[Column, float]
    #: Of an evaluation: what they come from, and :func:`summary_table` of it.
    replicas: Replicas | None = None
    summary: pd.DataFrame | None = None
    #: Of a validation: the step.
    step: int | None = None


@dataclass(frozen=True)
class Pooled:
    """A score over the seeds of a group."""

    mean: float
    #: Standard error of the mean over seeds; None with one.
    error: float | None
    seeds: int


@dataclass
class ScoreBook:
    """The scores of all runs that have some, of one kind."""

    #: ``evaluation`` or ``validation``.
    kind: str
    by_run: dict[str, Scores] = field(default_factory=dict)

    def of(self, run: Run) -> Scores | None:
        """A run's, or None."""
        return self.by_run.get(run.name)

    def columns(self, runs: Iterable[Run]) -> list[Column]:
        """All columns of these runs, benchmarks sorted, the mean over them last, pass@1 before pass@16."""
        found = {column for run in runs if (scores := self.of(run)) for column in scores.values}
        return sorted(found, key=_place)

    def pooled(self, group: Group, column: Column) -> Pooled | None:
        """The mean over the runs of a group that have this score."""
        values = [scores.values[column] for run in group.runs if (scores := self.of(run)) and column in scores.values]
        if not values:
            return None
        error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
        return Pooled(float(np.mean(values)), error, len(values))


def evaluations(runs: Sequence[Run]) -> ScoreBook:
    """The evaluations of all runs that have one; what cannot be used is noted as missing.

    The mean over benchmarks is there for runs with all benchmarks that any of these runs has, if there are several.
    """
    book = ScoreBook("evaluation")
    for run in runs:
        if run.evaluation and (scores := _evaluation(run)) is not None:
            book.by_run[run.name] = scores
    if book.by_run:
        _without_partial_means(book, runs)
    return book


def validations(runs: Sequence[Run]) -> ScoreBook:
    """The last validation that verl logged for each run."""
    book = ScoreBook("validation")
    for run in runs:
        history = validation_history(run)
        if history:
            step, values = history[-1]
            book.by_run[run.name] = Scores(values, step=step)
    return book


def validation_history(run: Run) -> list[tuple[int, dict[Column, float]]]:
    """verl's ``val-core`` metrics of each step that has some.

    ``acc`` is in percent, any other variable (``reward``) as it is. ``best@N`` is verl's bootstrap of the best of N
    drawn with replacement, which is not pass@N (see :mod:`subgroup_offset.evaluation.passk`).
    """
    history = []
    for logged in run.steps:
        values = {}
        for key, value in logged.metrics.items():
            if match := _VALIDATION.fullmatch(key):
                metric = f"{match['variable']} {match['metric'].removesuffix('/mean')}"
                values[Column(match["source"], metric, match["variable"] == "acc")] = value
        if values:
            history.append((logged.step, values))
    return history


def _evaluation(run: Run) -> Scores | None:
    fix = "One table of graded samples, evaluation/graded.jsonl; it alone is read where it is there."
    frames = []
    for path in run.evaluation:
        try:
            frames.append(read_samples(path))
        except (OSError, ValueError) as error:
            run.lacks(f"A usable evaluation in {path.name}: {error}", fix)
    if not frames:
        return None
    try:
        # Benchmarks may have a file each; a sample that two files hold is refused as a repetition.
        replicas = complete_replicas(pd.concat(frames, ignore_index=True))
    except SamplesError as error:
        run.lacks(f"A usable evaluation in {', '.join(path.name for path in run.evaluation)}: {error}", fix)
        return None
    _note_incomplete(run, replicas)
    summary = summary_table(replicas)
    values = {Column(row.benchmark, row.metric): row.value for row in summary.itertuples() if not math.isnan(row.value)}
    return Scores(values, replicas, summary)


def _without_partial_means(book: ScoreBook, runs: Sequence[Run]) -> None:
    """Take the mean over benchmarks away where there is one benchmark, and from runs that do not have them all."""
    have = {run.name: _benchmarks(scores) for run in runs if (scores := book.of(run))}
    everything = set().union(*have.values())
    for run in runs:
        if run.name not in have:
            continue
        scores = book.by_run[run.name]
        absent = sorted(everything - have[run.name])
        if absent:
            run.lacks(
                f"Benchmarks {', '.join(absent)} of the evaluation, and so the mean over benchmarks.", "The rest."
            )
        if absent or len(everything) == 1:
            values = {column: value for column, value in scores.values.items() if column.benchmark != OVERALL}
            summary = scores.summary[scores.summary["benchmark"] != OVERALL]
            book.by_run[run.name] = replace(scores, values=values, summary=summary)


def _benchmarks(scores: Scores) -> set[str]:
    return {column.benchmark for column in scores.values} - {OVERALL}


def _note_incomplete(run: Run, replicas: Replicas) -> None:
    counts = replicas.counts.sum()
    if counts["missing_replicas"] or counts["missing_problems"]:
        run.lacks(
            f"{counts['missing_replicas']} replicas of the evaluation (of those begun, {counts['unused_samples']} "
            f"samples are not used; {counts['missing_problems']} problems have none).",
            "The rest of the evaluation; until then numbers are of the complete replicas and may be off.",
        )
    if counts["ungraded"]:
        run.lacks(
            f"Verdicts of {counts['ungraded']} of {counts['samples']} samples, which count as wrong.",
            "Grade them again with a longer --time-limit.",
        )


def _place(column: Column) -> tuple:
    digits = re.search(r"\d+", column.metric)
    return (
        column.benchmark == OVERALL,
        column.benchmark,
        "best" in column.metric,
        int(digits[0]) if digits else 0,
        column.metric,
    )

"""Scores of runs: of their evaluations, or verl's own validation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL, Replicas, SamplesError, complete_replicas, read_samples
from subgroup_offset.evaluation.settings import FILE_NAME
from subgroup_offset.evaluation.summary import summary_table
from subgroup_offset.reports.groups import Group, ModelRuns
from subgroup_offset.reports.locate import EVALUATION
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import Difference, Settings, differences
from subgroup_offset.text import flat

# `val-core/<data source>/<variable>/<metric>`; the source may hold slashes.
_VALIDATION = re.compile(r"val-core/(?P<source>.+)/(?P<variable>[^/]+)/(?P<metric>mean@\d+|(?:maj|best)@\d+/mean)")
_ONE_TABLE = "One table of graded samples, evaluation/graded.jsonl; it alone is read where it is there."
Column = tuple[str, str]  #: benchmark and metric


@dataclass
class Scores:
    """Scores of one kind, in the unit in which they are shown: see :func:`digits`."""

    #: ``evaluation`` or ``validation``.
    kind: str
    #: A row a run that has some, a column a benchmark and metric.
    values: pd.DataFrame
    #: Of validations: the step of each run's.
    steps: dict[str, int] = field(default_factory=dict)
    #: Of evaluations: what each run's come from, and :func:`summary_table` of it.
    replicas: dict[str, Replicas] = field(default_factory=dict)
    summaries: dict[str, pd.DataFrame] = field(default_factory=dict)

    def of(self, runs: Sequence[Run]) -> pd.DataFrame:
        """Those of some runs without empty columns: benchmarks sorted, their mean last, pass@1 before pass@16."""
        found = self.values.loc[[run.name for run in runs if run.name in self.values.index]].dropna(axis=1, how="all")
        return found[sorted(found.columns, key=_place)]

    def pooled(self, groups: Sequence[Group]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Mean, standard error of it and number of values over the runs of each group, a row a group."""
        place = {run.name: i for i, group in enumerate(groups) for run in group.runs}
        found = self.of([run for group in groups for run in group.runs])
        by_group = found.groupby(pd.Index([place[name] for name in found.index], dtype=int))
        means, errors, counts = (
            frame.reindex(range(len(groups))) for frame in (by_group.mean(), by_group.sem(), by_group.count())
        )
        return means.round({column: digits(column[1]) for column in means}), errors, counts


def digits(metric: str) -> int:
    """Decimals: shares of right answers are percentages with one, anything else (rewards) is as it is, with three."""
    return 1 if metric.startswith(("pass@", "acc ")) else 3


def evaluations(models: Sequence[ModelRuns]) -> Scores:
    """The evaluations of all runs that have one; what cannot be used is noted as missing.

    The mean over benchmarks is there for runs with all benchmarks that any run of the model has, if there are several.
    """
    replicas = {run.name: found for model in models for run in model.runs if (found := _replicas(run)) is not None}
    summaries = {name: summary_table(found) for name, found in replicas.items()}
    for model in models:
        _drop_partial_means(summaries, model.runs)
    rows = {name: 100 * s.set_index(["benchmark", "metric"])["value"].dropna() for name, s in summaries.items()}
    return Scores("evaluation", _frame(rows), {}, replicas, summaries)


def validations(models: Sequence[ModelRuns]) -> Scores:
    """The last validation that verl logged for each run."""
    histories = {run.name: history for model in models for run in model.runs if len(history := validations_of(run))}
    last = {name: history.iloc[-1].dropna() for name, history in histories.items()}
    return Scores("validation", _frame(last), {name: int(history.index[-1]) for name, history in histories.items()})


def validations_of(run: Run) -> pd.DataFrame:
    """verl's ``val-core`` metrics: a row for each step that has some, a column a benchmark and metric.

    ``best@N`` is verl's bootstrap of the best of N drawn with replacement, which is not pass@N (see
    :mod:`subgroup_offset.evaluation.passk`).
    """
    found = {}
    for key in run.steps:
        if match := _VALIDATION.fullmatch(key):
            metric = f"{match['variable']} {match['metric'].removesuffix('/mean')}"
            found[match["source"], metric] = run.steps[key] * (100 if digits(metric) == 1 else 1)
    return pd.DataFrame(found, index=run.steps.index).dropna(how="all")


def evaluation_differences(runs: Sequence[Run]) -> tuple[list[Run], list[Difference]]:
    """The runs whose evaluation has a record, and in what these differ, paths inside of the runs aside."""
    found = [(run, settings) for run in runs if (settings := _evaluation_settings(run)) is not None]
    compared = differences([settings for _, settings in found])
    return [run for run, _ in found], [difference for difference in compared if difference.kind != "output"]


def _evaluation_settings(run: Run) -> Settings | None:
    """What a run's evaluation is samples of; None where there is no record of it, or none to read.

    Without the sizes and times of the checkpoint's files: what was evaluated differs between runs, not how.
    """
    if not run.evaluation:
        return None
    try:
        record = json.loads((run.directory / EVALUATION / FILE_NAME).read_text("utf-8"))
        values = {key: value for key, value in flat(record["settings"]) if not key.startswith("files.")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Settings(values, values, run.directory)


def _replicas(run: Run) -> Replicas | None:
    frames = []
    for path in run.evaluation:
        try:
            frames.append(read_samples(path))
        except (OSError, ValueError) as error:
            run.lacks(f"A usable evaluation in {path.name}: {error}", _ONE_TABLE)
    if not frames:
        return None
    try:
        # Benchmarks may have a file each; a sample that two files hold is refused as a repetition.
        replicas = complete_replicas(pd.concat(frames, ignore_index=True))
    except SamplesError as error:
        run.lacks(f"A usable evaluation in {', '.join(path.name for path in run.evaluation)}: {error}", _ONE_TABLE)
        return None
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
    return replicas


def _drop_partial_means(summaries: dict[str, pd.DataFrame], runs: Sequence[Run]) -> None:
    """Take the mean over benchmarks away where there is one benchmark, and from runs that do not have them all."""
    have = {run: _benchmarks(summaries[run.name]) for run in runs if run.name in summaries}
    everything = set().union(*have.values())
    for run, benchmarks in have.items():
        if absent := sorted(everything - benchmarks):
            names = ", ".join(absent)
            run.lacks(f"Benchmarks {names} of the evaluation, and so the mean over benchmarks.", "The rest.")
        if absent or len(everything) == 1:
            summary = summaries[run.name]
            summaries[run.name] = summary[summary["benchmark"] != OVERALL]


def _benchmarks(summary: pd.DataFrame) -> set[str]:
    return set(summary["benchmark"][summary["value"].notna()]) - {OVERALL}


def _frame(rows: dict[str, pd.Series]) -> pd.DataFrame:
    frame = pd.DataFrame.from_dict({name: dict(row) for name, row in rows.items()}, orient="index", dtype=float)
    frame.columns = pd.MultiIndex.from_tuples(list(frame.columns), names=["benchmark", "metric"])
    return frame


def _place(column: Column) -> tuple:
    benchmark, metric = column
    found = re.search(r"\d+", metric)
    return benchmark == OVERALL, benchmark, "best" in metric, int(found[0]) if found else 0, metric

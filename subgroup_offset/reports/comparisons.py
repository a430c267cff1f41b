"""Evaluated runs in detail: beside their anchors with intervals and tests, in full, and over k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL, SamplesError
from subgroup_offset.evaluation.summary import comparison_table, pass_at_k_table
from subgroup_offset.reports.blocks import Figure, Panel, Series, Table, number, table
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.score_tables import MEAN, benchmark_name
from subgroup_offset.reports.scores import Scores

_NOTE = (
    "Differences in points. Intervals of 95%: over other problems of the kind, and over other samples of these "
    "problems (bootstrap). Ahead : behind counts problems. p of the sign test and of the sign-flip permutation test, "
    "not adjusted for how many there are. None of it says what another training seed would give."
)
_INTERVAL, _TESTS, _COMPLETE, _MISSING = "95% interval over", "tests over problems", "complete", "missing"
_COMPARED = [
    ("", ""), ("", "difference"), (_INTERVAL, "problems"), (_INTERVAL, "samples"),
    (_TESTS, "ahead : behind"), (_TESTS, "sign p"), (_TESTS, "permutation p"),
]  # fmt: skip
_IN_FULL = [
    ("", ""), ("", "value"), (_INTERVAL, "problems"), (_INTERVAL, "samples"), (_COMPLETE, "problems"),
    (_COMPLETE, "replicas"), (_COMPLETE, "samples"), (_MISSING, "replicas"), (_MISSING, "verdicts"),
    (" ", "if all right"),
]  # fmt: skip
_COUNTS = ("problems", "replicas", "samples", "missing_replicas", "ungraded")


def comparisons(model: ModelRuns, scores: Scores) -> Table | None:
    """A row for each run, benchmark and metric; None where no run has an evaluated anchor.

    Runs are paired with the anchor's run of the same place among its seeds, the last one where it has fewer.
    """
    rows: list[tuple[str, list[Any]]] = []
    for group in model.groups:
        anchor = model.anchor(group)
        others = [run for run in anchor.group.runs if run.name in scores.replicas] if anchor else []
        for i, run in enumerate(run for run in group.runs if run.name in scores.replicas):
            if others:
                rows += _compared(run, others[min(i, len(others) - 1)], scores)
    caption = f"{model.name}: differences from the anchor, run by run"
    return table(caption, _COMPARED, rows, (_NOTE,)) if rows else None


def summaries(model: ModelRuns, scores: Scores) -> Table | None:
    """pass@1 and pass@S of each run with intervals and counts; None where no run is evaluated."""
    rows = [
        (run.name, [
            _what(row), _points(row["value"]), *_intervals(row), *(row[name] for name in _COUNTS),
            _points(row["ungraded_right"]) if row["ungraded"] else None,
        ])
        for run in model.runs if run.name in scores.summaries
        for row in scores.summaries[run.name].to_dict("records")
    ]  # fmt: skip
    return table(f"{model.name}: evaluations in full, percent", _IN_FULL, rows) if rows else None


def pass_at_k_figure(model: ModelRuns, scores: Scores, name: str) -> Figure | None:
    """The unbiased pass@k over k, mean over benchmarks; one line a group, of its first run that has them all."""
    names = {benchmark for benchmark, _ in scores.of(model.runs)} - {OVERALL}
    lines = []
    for group in model.groups:
        evaluated = [run for run in group.runs if run.name in scores.replicas]
        run = next((run for run in evaluated if names.issubset(scores.replicas[run.name].benchmarks)), None)
        if run is None:
            continue
        points = pass_at_k_table(scores.replicas[run.name])
        curve = 100 * points[points["benchmark"] == OVERALL].set_index("k")["value"]
        if len(curve) > 1:
            label = group.label if len(group.runs) == 1 else f"{group.label} ({run.name})"
            lines.append(Series(label, group.style, curve, markers=True))
    if not lines:
        return None
    panel = Panel("pass@k, unbiased", "k (samples)", "percent", lines, log2=True)
    return Figure(f"passk-{name}", f"{model.name}: unbiased pass@k over all samples, {MEAN}", [panel])


def _compared(run: Run, anchor: Run, scores: Scores) -> Iterator[tuple[str, list[Any]]]:
    first, second = scores.replicas[anchor.name], scores.replicas[run.name]
    try:
        found = comparison_table(first, second, (anchor.name, run.name))
    except SamplesError as error:
        fix = "Evaluations of both on the same problems, with equal samples."
        run.lacks(f"A comparison with {anchor.name}: {error}", fix)
        return
    if len(first.benchmarks) == 1:  # is the mean over benchmarks, too
        found = found[found["benchmark"] != OVERALL]
    for row in found.dropna(subset="difference").to_dict("records"):
        yield f"{run.title} beside {anchor.title}", [
            _what(row), _points(row["difference"], "+"), *_intervals(row, "+"),
            f"{row['ahead']} : {row['behind']}", _p(row["sign_p"]), _p(row["permutation_p"]),
        ]  # fmt: skip


def _what(row: dict) -> str:
    return f"{benchmark_name(row['benchmark'])}, {row['metric']}"


def _points(value: float, sign: str = "") -> str | None:
    return None if pd.isna(value) else f"{100 * value:{sign}.1f}"


def _intervals(row: dict, sign: str = "") -> Iterator[str | None]:
    for over in ("problems", "samples"):
        low, high = _points(row[f"{over}_low"], sign), _points(row[f"{over}_high"], sign)
        yield low and high and f"{low} to {high}"


def _p(value: float) -> str | None:
    return "<0.001" if value < 0.001 else number(value, 3)

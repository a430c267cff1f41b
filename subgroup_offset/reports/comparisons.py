"""Every evaluated run beside its anchor: differences with intervals and tests."""

from __future__ import annotations

import math

import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL, SamplesError
from subgroup_offset.evaluation.summary import comparison_table, pass_at_k_table
from subgroup_offset.reports.grid import NOTHING, Cell, Figure, Head, Panel, Row, Series, Table, cells
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.score_tables import MEAN
from subgroup_offset.reports.scores import ScoreBook

_NOTES = (
    "Differences in points. Intervals of 95%: over other problems of the kind, and over other samples of these "
    "problems (bootstrap). Ahead : behind counts problems. p of the sign test and of the sign-flip permutation test, "
    "not adjusted for how many there are. None of it says what another training seed would give.",
)


def comparisons(model: ModelRuns, book: ScoreBook) -> Table | None:
    """A row for each run, benchmark and metric; None where no run has an evaluated anchor.

    Runs are paired with the anchor's run of the same place among its seeds, the last one where it has fewer.
    """
    rows: list[Row] = []
    for group in model.groups:
        anchor = model.anchor(group)
        if anchor is None:
            continue
        others = [run for run in anchor.group.runs if book.of(run)]
        for i, run in enumerate(run for run in group.runs if book.of(run)):
            if others:
                rows += _rows(run, others[min(i, len(others) - 1)], book)
    if not rows:
        return None
    columns = ("difference", "problems", "samples", "ahead : behind", "sign p", "permutation p")
    first = (Head(""), Head(""), Head("95% interval over", 2), Head("tests over problems", 3))
    heads = (first, (Head(""), *map(Head, columns)))
    return Table(f"{model.name}: differences from the anchor, run by run", heads, tuple(rows), _NOTES)


def summary_rows(model: ModelRuns, book: ScoreBook) -> Table | None:
    """pass@1 and pass@S of each run with intervals and counts; None where no run is evaluated."""
    rows: list[Row] = []
    for run in model.runs:
        scores = book.of(run)
        if scores is None or scores.summary is None:
            continue
        rows.append(Row(cells(run.name), "heading"))
        for row in scores.summary.to_dict("records"):
            ungraded = _percent(row["ungraded_right"]) if row["ungraded"] else NOTHING
            texts = (
                _percent(row["value"]),
                _range(row, "problems"),
                _range(row, "samples"),
                *(str(row[name]) for name in ("problems", "replicas", "samples", "missing_replicas", "ungraded")),
                ungraded,
            )
            rows.append(Row(cells(_what(row), *texts)))
    if not rows:
        return None
    first = (Head(""), Head(""), Head("95% interval over", 2), Head("complete", 3), Head("missing", 2), Head(""))
    names = ("value", "problems", "samples", "problems", "replicas", "samples", "replicas", "verdicts", "if all right")
    return Table(f"{model.name}: evaluations in full, percent", (first, (Head(""), *map(Head, names))), tuple(rows))


def pass_at_k_figure(model: ModelRuns, book: ScoreBook, name: str) -> Figure | None:
    """The unbiased pass@k over k, mean over benchmarks; one line a group, of its first run that has them all."""
    names = {column.benchmark for column in book.columns(model.runs)} - {OVERALL}
    series = []
    for group in model.groups:
        found = ((run, scores.replicas) for run in group.runs if (scores := book.of(run)))
        run = next((run for run, replicas in found if names.issubset(replicas.benchmarks)), None)
        if run is None:
            continue
        curve = _curve(book, run)
        if len(curve) > 1:
            label = group.label if group.seeds == 1 else f"{group.label} ({run.name})"
            series.append(Series(label, group.style, list(curve["k"]), [100 * v for v in curve["value"]], markers=True))
    if not series:
        return None
    panel = Panel("pass@k, unbiased", "k (samples)", "percent", tuple(series), log2=True)
    return Figure(f"passk-{name}", f"{model.name}: unbiased pass@k over all samples, {MEAN}", (panel,))


def _curve(book: ScoreBook, run: Run) -> pd.DataFrame:
    replicas = book.by_run[run.name].replicas
    assert replicas is not None
    table = pass_at_k_table(replicas)
    return table[table["benchmark"] == OVERALL]


def _rows(run: Run, anchor: Run, book: ScoreBook) -> list[Row]:
    first, second = book.by_run[anchor.name].replicas, book.by_run[run.name].replicas
    assert first is not None and second is not None
    heading = Row(cells(f"{run.method.label} ({run.name}) beside {anchor.method.label} ({anchor.name})"), "heading")
    try:
        table = comparison_table(first, second, (anchor.name, run.name))
    except SamplesError as error:
        run.lacks(
            f"A comparison with {anchor.name}: {error}", "Evaluations of both on the same problems, with equal samples."
        )
        return []
    rows = [heading]
    alone = len(first.benchmarks) == 1  # is the mean over benchmarks, too
    for row in table.to_dict("records"):
        if math.isnan(row["difference"]) or (alone and row["benchmark"] == OVERALL):
            continue
        texts = (
            f"{100 * row['difference']:+.1f}",
            _range(row, "problems", signed=True),
            _range(row, "samples", signed=True),
            f"{row['ahead']} : {row['behind']}",
            _p(row["sign_p"]),
            _p(row["permutation_p"]),
        )
        rows.append(Row((Cell(_what(row)), *cells(*texts))))
    return rows


def _what(row: dict) -> str:
    benchmark = MEAN if row["benchmark"] == OVERALL else row["benchmark"]
    return f"{benchmark}, {row['metric']}"


def _range(row: dict, over: str, signed: bool = False) -> str:
    low, high = row[f"{over}_low"], row[f"{over}_high"]
    if math.isnan(low) or math.isnan(high):
        return NOTHING
    return f"{100 * low:+.1f} to {100 * high:+.1f}" if signed else f"{100 * low:.1f} to {100 * high:.1f}"


def _percent(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{100 * value:.1f}"


def _p(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"

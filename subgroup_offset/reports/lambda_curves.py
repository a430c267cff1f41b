"""Scores over lam: the curve beside the paper's Table 2."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.evaluation.samples import OVERALL
from subgroup_offset.reports.grid import Figure, Panel, Series
from subgroup_offset.reports.groups import Group
from subgroup_offset.reports.score_tables import MEAN
from subgroup_offset.reports.scores import Column, ScoreBook


def lambda_figure(title: str, family: Sequence[Group], book: ScoreBook, name: str) -> Figure | None:
    """One panel a metric, a line a benchmark and one for their mean, over lam; None with fewer than two points.

    Args:
        title: of the model.
        family: groups that differ only in lam, sorted by it.
        book: the scores.
        name: of the figure.
    """
    columns = book.columns([run for group in family for run in group.runs])
    metrics = list(dict.fromkeys(column.metric for column in columns))
    panels = []
    for metric in metrics:
        chosen = [column for column in columns if column.metric == metric]
        # The mean first: its colour is then the same, however many benchmarks there are.
        chosen.sort(key=lambda column: column.benchmark != OVERALL)
        series = [_line(family, book, column, style) for style, column in enumerate(chosen)]
        series = [line for line in series if len(line.x) > 1]
        if series:
            panels.append(Panel(metric, "lam", "percent" if chosen[0].percent else "", tuple(series)))
    if not panels:
        return None
    what = "pass@k of the evaluations" if book.kind == "evaluation" else "verl's own validation (no pass@k)"
    bars = "; bars are standard errors over seeds" if any(group.seeds > 1 for group in family) else ""
    return Figure(f"lambda-{name}", f"{title}: {what} over lam{bars}", tuple(panels))


def _line(family: Sequence[Group], book: ScoreBook, column: Column, style: int) -> Series:
    factor = 100.0 if column.percent else 1.0
    points = [(g.method.lam or 0.0, pooled) for g in family if (pooled := book.pooled(g, column))]
    errors = [factor * (pooled.error or 0.0) for _, pooled in points]
    return Series(
        MEAN if column.benchmark == OVERALL else column.benchmark,
        style,
        [lam for lam, _ in points],
        [factor * pooled.mean for _, pooled in points],
        error=errors if any(errors) else None,
        markers=True,
    )

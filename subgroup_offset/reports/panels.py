"""Curves of a report: training dynamics (paper, Figure 2), how a training went, and scores over lam (Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL
from subgroup_offset.reports.blocks import Figure, Panel, Series
from subgroup_offset.reports.groups import Group, ModelRuns
from subgroup_offset.reports.score_tables import KINDS, benchmark_name
from subgroup_offset.reports.scores import Scores, digits, validations_of

ENTROPY, INFORMATIVE, RATIO = "actor/entropy", "subgroup/informative_share", "subgroup/term_ratio"
SCORE, SUCCESS, LENGTH = "critic/score/mean", "subgroup/success_rate", "response_length/mean"
_FIGURE_2 = {
    ENTROPY: "policy entropy",
    INFORMATIVE: "informative prompts (share)",
    RATIO: "subgroup term / standard term",
}
_FURTHER = {
    SCORE: "mean reward of the rollouts",
    SUCCESS: "success rate of the rollouts",
    LENGTH: "mean response length (tokens)",
}
_MARKED = 20  #: Fewer points than this have a marker each.
STEP = "training step"


def smoothed(curves: pd.DataFrame, factor: float) -> pd.DataFrame:
    """The exponential moving average of each column, corrected for its start.

    Args:
        curves: a row a step.
        factor: in [0, 1): the weight of the past; 0 changes nothing.

    Returns:
        The same shape: ``sum_j factor^(i-j) x_j / sum_j factor^(i-j)``, so that the first is the first value.
    """
    return curves.ewm(alpha=1.0 - factor).mean()


def figure_2(model: ModelRuns, name: str, smooth: float) -> Figure | None:
    """Entropy (smoothed, as logged behind it), informative share and term ratio; None where none was logged.

    The ratio is 0 at lam = 0 and without subgroups by definition, so that it is shown for the others only, as in the
    paper.
    """
    panels = []
    for key, title in _FIGURE_2.items():
        groups = [g for g in model.groups if key != RATIO or g.method.lam]
        factor = smooth if key == ENTROPY else 0.0
        panels += _panel(title + (f" (EMA {factor:g})" if factor else ""), key, groups, factor)
    caption = f"{model.name}: training dynamics, as the paper's Figure 2{_band(model)}"
    return Figure(f"dynamics-{name}", caption, panels) if panels else None


def further(model: ModelRuns, name: str) -> Figure | None:
    """Reward, success rate, response length and verl's validation over the steps; None where none was logged."""
    panels = [panel for key, title in _FURTHER.items() for panel in _panel(title, key, model.groups, 0.0)]
    histories = {run.name: validations_of(run) for run in model.runs}
    columns = sorted({column for history in histories.values() for column in history if "mean@" in column[1]})
    for column in columns:
        lines: list[Series] = []
        for group in model.groups:
            found = {run.name: histories[run.name] for run in group.runs if column in histories[run.name]}
            lines += _lines(group, {name: history[column].dropna() for name, history in found.items()}, 0.0)
        unit = "percent" if digits(column[1]) == 1 else ""
        panels.append(Panel(f"verl's validation: {column[0]}, {column[1]}", STEP, unit, lines))
    return Figure(f"training-{name}", f"{model.name}: how the training went{_band(model)}", panels) if panels else None


def lambda_figure(title: str, family: Sequence[Group], scores: Scores, name: str) -> Figure | None:
    """One panel a metric, a line a benchmark and one for their mean, over lam; None with fewer than two points.

    Args:
        title: of the model.
        family: groups that differ only in lam, sorted by it.
        scores: theirs.
        name: of the figure.
    """
    means, errors, _ = scores.pooled(family)
    means.index = errors.index = [group.method.lam or 0.0 for group in family]
    panels = []
    for metric in dict.fromkeys(metric for _, metric in means):
        # The mean first: its colour is then the same, however many benchmarks there are.
        chosen = sorted((b for b, m in means if m == metric), key=lambda benchmark: benchmark != OVERALL)
        lines = []
        for style, benchmark in enumerate(chosen):
            y = means[benchmark, metric].dropna()
            bars = errors[benchmark, metric].reindex(y.index).fillna(0.0)
            if len(y) > 1:
                bar = bars if bars.any() else None
                lines.append(Series(benchmark_name(benchmark), style, y, error=bar, markers=True))
        if lines:
            panels.append(Panel(metric, "lam", "percent" if digits(metric) == 1 else "", lines))
    bars = "; bars are standard errors over seeds" if any(len(group.runs) > 1 for group in family) else ""
    return Figure(f"lambda-{name}", f"{title}: {KINDS[scores.kind]} over lam{bars}", panels) if panels else None


def _band(model: ModelRuns) -> str:
    several = any(len(group.runs) > 1 for group in model.groups)
    return "; lines are means over seeds, bands their range" if several else ""


def _panel(title: str, key: str, groups: Sequence[Group], factor: float) -> list[Panel]:
    lines = [
        line
        for group in groups
        for line in _lines(group, {run.name: run.series(key) for run in group.runs if len(run.series(key))}, factor)
    ]
    return [Panel(title, STEP, "", lines)] if lines else []


def _lines(group: Group, curves: Mapping[str, pd.Series], factor: float) -> list[Series]:
    """The mean over seeds at the steps that all of them have; the label says where one of them has more.

    Runs without a step in common have a line each.
    """
    if not curves:
        return []
    common = pd.DataFrame(curves).dropna()
    if common.empty:
        return [_line(f"{group.label} ({name})", group.style, y.to_frame(), factor) for name, y in curves.items()]
    label = group.label if len(curves) == 1 else f"{group.label}, {len(curves)} seeds"
    longest = max(curve.index[-1] for curve in curves.values())
    if longest > common.index[-1]:
        label += f", to step {common.index[-1]} of {longest}"
    return [_line(label, group.style, common, factor)]


def _line(label: str, style: int, curves: pd.DataFrame, factor: float) -> Series:
    smooth = smoothed(curves, factor)
    low, high = (smooth.min(axis=1), smooth.max(axis=1)) if curves.shape[1] > 1 else (None, None)
    faint = curves.mean(axis=1) if factor and len(curves) > 1 else None
    return Series(label, style, smooth.mean(axis=1), low, high, faint, markers=len(curves) < _MARKED)

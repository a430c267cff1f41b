"""Training dynamics as panels and in numbers (paper, Figure 2), and what else tells how a training went."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from subgroup_offset.reports.grid import NOTHING, Figure, Head, Panel, Row, Series, Table, cells
from subgroup_offset.reports.groups import Group, ModelRuns
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.scores import Column, validation_history

ENTROPY, INFORMATIVE, RATIO = "actor/entropy", "subgroup/informative_share", "subgroup/term_ratio"
SCORE, LENGTH, CLIPPED = "critic/score/mean", "response_length/mean", "response_length/clip_ratio"
_FIGURE_2 = {
    ENTROPY: "policy entropy",
    INFORMATIVE: "informative prompts (share)",
    RATIO: "subgroup term / standard term",
}
_FURTHER = {
    SCORE: "mean reward of the rollouts",
    "subgroup/success_rate": "success rate of the rollouts",
    LENGTH: "mean response length (tokens)",
}
_NUMBERS = {
    ENTROPY: "entropy",
    INFORMATIVE: "informative share",
    RATIO: "term ratio",
    "subgroup/abs_offset": "mean |offset|",
    SCORE: "reward",
    "subgroup/success_rate": "success rate",
    LENGTH: "response length",
    CLIPPED: "cut-off responses",
}
_MARKED = 20  #: Fewer points than this have a marker each.
_LAST = 10  #: Steps that "last" is a mean over.


def smoothed(values: Sequence[float], factor: float) -> list[float]:
    """The exponential moving average, corrected for its start.

    Args:
        values: one a step.
        factor: in [0, 1): the weight of the past; 0 changes nothing.

    Returns:
        As many values: ``sum_j factor^(i-j) x_j / sum_j factor^(i-j)``, so that the first is the first value.
    """
    return pd.Series(values, dtype=float).ewm(alpha=1.0 - factor).mean().tolist()


def figure_2(model: ModelRuns, name: str, smooth: float) -> Figure | None:
    """Entropy (smoothed, as logged behind it), informative share and term ratio; None where none was logged.

    The ratio is 0 at lam = 0 and without subgroups by definition, so that it is shown for the others only, as in the
    paper.
    """
    panels = []
    for key, title in _FIGURE_2.items():
        groups = [g for g in model.groups if key != RATIO or g.method.lam]
        factor = smooth if key == ENTROPY else 0.0
        if factor:
            title += f" (EMA {factor:g})"
        panels.append(_panel(title, key, groups, factor))
    found = tuple(panel for panel in panels if panel is not None)
    caption = f"{model.name}: training dynamics, as the paper's Figure 2{_band(model)}"
    return Figure(f"dynamics-{name}", caption, found) if found else None


def further(model: ModelRuns, name: str) -> Figure | None:
    """Reward, success rate, response length and verl's validation over the steps; None where none was logged."""
    panels = [_panel(title, key, model.groups, 0.0) for key, title in _FURTHER.items()]
    panels += _validation_panels(model)
    found = tuple(panel for panel in panels if panel is not None)
    return Figure(f"training-{name}", f"{model.name}: how the training went{_band(model)}", found) if found else None


def numbers(model: ModelRuns) -> Table | None:
    """First and last values of every run; None where nothing was logged."""
    rows = []
    for run in model.runs:
        cells_of = [_first_and_last(run, key) for key in _NUMBERS]
        if any(text != NOTHING for text in cells_of):
            rows.append(
                Row(cells(f"{run.method.label} ({run.name})", str(sum(s.step > 0 for s in run.steps)), *cells_of))
            )
    if not rows:
        return None
    heads = ((Head("Run"), Head("steps"), *map(Head, _NUMBERS.values())),)
    note = f"First step → mean of the last {_LAST} steps (of all but the first, where there are fewer), as logged."
    return Table(f"{model.name}: training dynamics in numbers", heads, tuple(rows), (note,))


def _first_and_last(run: Run, key: str) -> str:
    values = [value for _, value in (_cut_off(run) if key == CLIPPED else run.series(key))]
    if not values:
        return NOTHING
    last = values[1:][-_LAST:]
    return f"{_short(values[0])} → {_short(fmean(last))}" if last else _short(values[0])


def _cut_off(run: Run) -> list[tuple[int, float]]:
    """The share of responses as long as they may be; empty where that limit is not known.

    verl counts those as long as the longest of the batch, which is the same only where that one was cut off.
    """
    limit = run.settings.get("data.max_response_length") if run.settings else None
    if limit is None:
        return []
    longest = dict(run.series("response_length/max"))
    return [(step, share if longest.get(step, limit) >= limit else 0.0) for step, share in run.series(CLIPPED)]


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"


def _band(model: ModelRuns) -> str:
    several = any(group.seeds > 1 for group in model.groups)
    return "; lines are means over seeds, bands their range" if several else ""


def _panel(title: str, key: str, groups: Sequence[Group], factor: float) -> Panel | None:
    curves = [
        (group, {run.name: dict(points) for run in group.runs if (points := run.series(key))}) for group in groups
    ]
    series = [line for group, found in curves for line in _lines(group, found, factor)]
    return Panel(title, "training step", "", tuple(series)) if series else None


def _lines(group: Group, curves: dict[str, dict[int, float]], factor: float) -> list[Series]:
    """The mean over seeds at the steps that all of them have; the label says where one of them has more.

    Runs without a step in common have a line each.
    """
    if not curves:
        return []
    steps = sorted(set.intersection(*map(set, curves.values())))
    if not steps:
        return [
            _line(f"{group.label} ({name})", group.style, [curve], sorted(curve), factor)
            for name, curve in curves.items()
        ]
    label = group.label if len(curves) == 1 else f"{group.label}, {len(curves)} seeds"
    longest = max(max(curve) for curve in curves.values())
    if longest > steps[-1]:
        label += f", to step {steps[-1]} of {longest}"
    return [_line(label, group.style, list(curves.values()), steps, factor)]


def _line(label: str, style: int, curves: Sequence[dict[int, float]], steps: list[int], factor: float) -> Series:
    means = [fmean(curve[step] for curve in curves) for step in steps]
    lines = [smoothed([curve[step] for step in steps], factor) for curve in curves]
    low = high = None
    if len(curves) > 1:
        low, high = ([pick(values) for values in zip(*lines, strict=True)] for pick in (min, max))
    faint = (steps, means) if factor and len(steps) > 1 else None
    return Series(label, style, steps, smoothed(means, factor), low, high, faint, markers=len(steps) < _MARKED)


def _validation_panels(model: ModelRuns) -> list[Panel]:
    """One for each data source, of the mean over the samples."""
    histories = {run.name: validation_history(run) for run in model.runs}
    columns = sorted(
        {c for history in histories.values() for _, values in history for c in values if "mean@" in c.metric}
    )
    panels = []
    for column in columns:
        series: list[Series] = []
        for group in model.groups:
            curves = {run.name: _curve(histories[run.name], column) for run in group.runs}
            series += _lines(group, {name: curve for name, curve in curves.items() if curve}, 0.0)
        title = f"verl's validation: {column.benchmark}, {column.metric}"
        panels.append(Panel(title, "training step", "percent" if column.percent else "", tuple(series)))
    return panels


def _curve(history: Sequence[tuple[int, dict[Column, float]]], column: Column) -> dict[int, float]:
    factor = 100.0 if column.percent else 1.0
    return {step: factor * values[column] for step, values in history if column in values}

"""What was logged, in numbers: training dynamics, and what the strategy stage costs and yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from subgroup_offset.reports.blocks import Table, number, table
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.panels import ENTROPY, INFORMATIVE, LENGTH, RATIO, SCORE, SUCCESS
from subgroup_offset.reports.runs import Run

CLIPPED, SHARE, STEP_SECONDS = "response_length/clip_ratio", "strategy/token_share", "timing_s/step"
_NUMBERS = {
    ENTROPY: "entropy",
    INFORMATIVE: "informative share",
    RATIO: "term ratio",
    "subgroup/abs_offset": "mean |offset|",
    SCORE: "reward",
    SUCCESS: "success rate",
    LENGTH: "response length",
    CLIPPED: "cut-off responses",
}
_LAST = 10  #: Steps that "last" is a mean over.
_COST_NOTE = (
    "Medians over the logged steps (the first of several left out: it warms up), except maxima. Tokens a prompt are "
    "derived: share / (1 - share) x mean response length x rollouts a prompt. A prompt's rollouts start when its own "
    "previews are there, so that seconds of the stage overlap with the generation of other prompts."
)
_YIELD_NOTE = "Means over the logged steps; failed requests, prompts left out or lost, and restarts are totals."
Measure = Callable[[Run], float]


def numbers(model: ModelRuns) -> Table | None:
    """First and last values of every run; None where nothing was logged."""
    rows = []
    for run in model.runs:
        found = [_first_and_last(_cut_off(run) if key == CLIPPED else run.series(key)) for key in _NUMBERS]
        if any(found):
            rows.append(("", [run.title, sum(run.steps.index > 0), *found]))
    note = f"First step → mean of the last {_LAST} steps (of all but the first, where there are fewer), as logged."
    columns = ["Run", "steps", *_NUMBERS.values()]
    return table(f"{model.name}: training dynamics in numbers", columns, rows, (note,)) if rows else None


def cost_table(models: Sequence[ModelRuns]) -> Table:
    """Tokens and seconds, a row for each run, plain GRPO among them for comparison."""
    columns: dict[str, tuple[Measure, int]] = {
        "steps": (lambda run: len(run.series(STEP_SECONDS)) or float("nan"), 0),
        "strategy tokens, share": (lambda run: 100 * _median(run.series(SHARE)), 1),
        "strategy tokens a prompt": (_tokens, 0),
        "stage seconds a prompt": (lambda run: _median(run.series("strategy/seconds_mean")), 2),
        "longest": (lambda run: run.series("strategy/seconds_max").max(), 1),
        "generation seconds a step": (lambda run: _median(run.series("timing_s/gen")), 1),
        "step seconds": (lambda run: _median(run.series(STEP_SECONDS)), 1),
        "hours in all": (lambda run: run.series(STEP_SECONDS).sum(min_count=1) / 3600, 2),
        "response length": (lambda run: _median(run.series(LENGTH)), 1),
    }
    return _measured("Cost of the strategy stage", columns, models, _COST_NOTE)


def yield_table(models: Sequence[ModelRuns]) -> Table | None:
    """What the strategy stage made of its candidates; None where no run has one."""

    def mean(key: str) -> Measure:
        return lambda run: run.series(key).mean()

    def total(key: str) -> Measure:
        return lambda run: run.series(key).sum(min_count=1)

    columns: dict[str, tuple[Measure, int]] = {
        "usable a candidate": (lambda run: 100 * run.series("strategy/usable_per_candidate").mean(), 1),
        "empty slots": (lambda run: 100 * run.series("strategy/empty_slots").mean(), 1),
        "Jaccard distance": (mean("strategy/jaccard_distance"), 3),
        "copies of the prompt a step": (mean("strategy/echoed_previews"), 1),
        "duplicates a step": (mean("strategy/duplicate_previews"), 1),
        "failed requests": (total("strategy/failed_requests"), 0),
        "prompts without stage": (total("strategy/skipped_prompts"), 0),
        "slots too long": (total("strategy/overlong_prompts"), 0),
        "prompts lost": (total("rollout/lost_prompts"), 0),
        # Counted from the start of the run.
        "worker restarts": (lambda run: run.series("rollout/worker_restarts").max(), 0),
    }
    having = [m for m in models if any(len(run.series("strategy/usable_per_candidate")) for run in m.runs)]
    return _measured("Yield of the strategy stage", columns, having, _YIELD_NOTE) if having else None


def _measured(caption: str, columns: dict[str, tuple[Measure, int]], models: Sequence[ModelRuns], note: str) -> Table:
    rows: list[tuple[str, list[Any]]] = []
    percent = {"strategy tokens, share", "usable a candidate", "empty slots"}
    for model in models:
        for run in model.runs:
            found = [
                number(measure(run), digits, "{}%" if name in percent else "{}")
                for name, (measure, digits) in columns.items()
            ]
            if any(found):
                rows.append((model.name, [run.title, *found]))
    return table(caption, ["Run", *columns], rows, (note,))


def _median(values: pd.Series) -> float:
    """Without the first of several."""
    return (values.iloc[1:] if len(values) > 1 else values).median()


def _tokens(run: Run) -> float:
    """Strategy tokens a prompt, from their share of all generated tokens."""
    share, rollouts = run.series(SHARE), run.setting("actor_rollout_ref.rollout.n")
    share = share[share < 1]
    found = share / (1 - share) * run.series(LENGTH)
    return found.median() * rollouts if isinstance(rollouts, int) else float("nan")


def _cut_off(run: Run) -> pd.Series:
    """The share of responses as long as they may be; empty where that limit is not known.

    verl counts those as long as the longest of the batch, which is the same only where that one was cut off.
    """
    limit = run.setting("data.max_response_length")
    shares = run.series(CLIPPED)
    if limit is None:
        return shares.iloc[:0]
    longest = run.series("response_length/max").reindex(shares.index).fillna(limit)
    return shares.where(longest >= limit, 0.0)


def _first_and_last(values: pd.Series) -> str | None:
    if values.empty:
        return None
    last = values.iloc[1:].tail(_LAST)
    return " → ".join(f"{v:.1f}" if abs(v) >= 100 else f"{v:.3f}" for v in (values.iloc[0], last.mean()) if v == v)

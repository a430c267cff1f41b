"""What the strategy stage costs and yields."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median

from subgroup_offset.reports.grid import NOTHING, Head, Row, Table, cells
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.runs import Run

SHARE = "strategy/token_share"
_COST_NOTES = (
    "Medians over the logged steps (the first of several left out: it warms up), except maxima. Tokens a prompt are "
    "derived: share / (1 - share) x mean response length x rollouts a prompt. A prompt's rollouts start when its own "
    "previews are there, so that seconds of the stage overlap with the generation of other prompts.",
)
_YIELD_NOTES = ("Means over the logged steps; failed requests, prompts left out or lost, and restarts are totals.",)


def cost_table(models: Sequence[ModelRuns]) -> Table:
    """Tokens and seconds, a row for each run, plain GRPO among them for comparison."""
    columns: dict[str, Callable[[Run], str]] = {
        "steps": lambda run: str(len(run.series("timing_s/step")) or NOTHING),
        "strategy tokens, share": lambda run: _percent(_median(run, SHARE)),
        "strategy tokens a prompt": lambda run: _number(_tokens(run), 0),
        "stage seconds a prompt": lambda run: _number(_median(run, "strategy/seconds_mean"), 2),
        "longest": lambda run: _number(_max(run, "strategy/seconds_max"), 1),
        "generation seconds a step": lambda run: _number(_median(run, "timing_s/gen"), 1),
        "step seconds": lambda run: _number(_median(run, "timing_s/step"), 1),
        "hours in all": lambda run: _number(_hours(run), 2),
        "response length": lambda run: _number(_median(run, "response_length/mean"), 1),
    }
    return _table("Cost of the strategy stage", columns, models, _COST_NOTES)


def yield_table(models: Sequence[ModelRuns]) -> Table | None:
    """What the strategy stage made of its candidates; None where no run has one."""
    having = [m for m in models if any(run.series("strategy/usable_per_candidate") for run in m.runs)]
    if not having:
        return None
    columns: dict[str, Callable[[Run], str]] = {
        "usable a candidate": lambda run: _percent(_mean(run, "strategy/usable_per_candidate")),
        "empty slots": lambda run: _percent(_mean(run, "strategy/empty_slots")),
        "Jaccard distance": lambda run: _number(_mean(run, "strategy/jaccard_distance"), 3),
        "copies of the prompt a step": lambda run: _number(_mean(run, "strategy/echoed_previews"), 1),
        "duplicates a step": lambda run: _number(_mean(run, "strategy/duplicate_previews"), 1),
        "failed requests": lambda run: _number(_sum(run, "strategy/failed_requests"), 0),
        "prompts without stage": lambda run: _number(_sum(run, "strategy/skipped_prompts"), 0),
        "slots too long": lambda run: _number(_sum(run, "strategy/overlong_prompts"), 0),
        "prompts lost": lambda run: _number(_sum(run, "rollout/lost_prompts"), 0),
        "worker restarts": lambda run: _number(_max(run, "rollout/worker_restarts"), 0),  # counted from the start
    }
    return _table("Yield of the strategy stage", columns, having, _YIELD_NOTES)


def _table(
    caption: str, columns: dict[str, Callable[[Run], str]], models: Sequence[ModelRuns], notes: tuple[str, ...]
) -> Table:
    rows: list[Row] = []
    for model in models:
        rows.append(Row(cells(model.name), "heading"))
        for run in model.runs:
            texts = [of(run) for of in columns.values()]
            if any(text != NOTHING for text in texts):
                rows.append(Row(cells(f"{run.method.label} ({run.name})", *texts)))
    return Table(caption, ((Head("Run"), *map(Head, columns)),), tuple(rows), notes)


def _values(run: Run, key: str) -> list[float]:
    return [value for _, value in run.series(key)]


def _median(run: Run, key: str) -> float | None:
    values = _values(run, key)
    return median(values[1:] or values) if values else None


def _mean(run: Run, key: str) -> float | None:
    values = _values(run, key)
    return fmean(values) if values else None


def _max(run: Run, key: str) -> float | None:
    return max(_values(run, key), default=None)


def _sum(run: Run, key: str) -> float | None:
    values = _values(run, key)
    return math.fsum(values) if values else None


def _hours(run: Run) -> float | None:
    seconds = _sum(run, "timing_s/step")
    return None if seconds is None else seconds / 3600


def _tokens(run: Run) -> float | None:
    """Strategy tokens a prompt, from their share of all generated tokens."""
    rollouts = run.settings.get("actor_rollout_ref.rollout.n") if run.settings else None
    shares, lengths = dict(run.series(SHARE)), dict(run.series("response_length/mean"))
    found = [shares[s] / (1 - shares[s]) * lengths[s] for s in shares.keys() & lengths.keys() if shares[s] < 1]
    return median(found) * rollouts if found and isinstance(rollouts, int) else None


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}%"


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"

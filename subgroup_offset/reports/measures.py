"""What was logged, in numbers: training dynamics, and what the strategy stage costs and yields."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from subgroup_offset.reports.blocks import Table, table
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.panels import ENTROPY, INFORMATIVE, LENGTH, RATIO, SCORE, SUCCESS
from subgroup_offset.reports.runs import Run

CLIPPED, SHARE, STEP_SECONDS = "response_length/clip_ratio", "strategy/token_share", "timing_s/step"
USABLE, GAP = "strategy/usable_per_candidate", "training/rollout_probs_diff_mean"
#: Mean difference of a token's two probabilities above which sampler and trainer are looked at: bfloat16 kernels of
#: two engines differ by some thousandths.
GAP_LEVEL = 0.01
TOKENS, HOURS = "strategy tokens a prompt", "hours in all"  #: Not logged: derived.
_NUMBERS = {
    ENTROPY: "entropy",
    INFORMATIVE: "informative share",
    RATIO: "term ratio",
    "subgroup/abs_offset": "mean |offset|",
    "subgroup/offset_reliability": "offset reliability",
    SCORE: "reward",
    SUCCESS: "success rate",
    LENGTH: "response length",
    CLIPPED: "cut-off responses",
    GAP: "|sampler - trainer|",
}
_LAST = 10  #: Steps that "last" is a mean over.
_COST_NOTE = (
    "Medians over the logged steps (the first of several left out: it warms up), except maxima. Tokens a prompt are "
    "derived: share / (1 - share) x mean response length x rollouts a prompt. A prompt's rollouts start when its own "
    "previews are there, so that seconds of the stage overlap with the generation of other prompts."
)
_YIELD_NOTE = "Means over the logged steps; failed requests, prompts left out or lost, and restarts are totals."


def numbers(model: ModelRuns) -> Table | None:
    """First and last values of every run; None where nothing was logged."""
    rows = []
    for run in model.runs:
        found = [_first_and_last(_series(run, key)) for key in _NUMBERS]
        if any(found):
            rows.append(("", [run.title, sum(run.steps.index > 0), *found]))
    note = f"First step → mean of the last {_LAST} steps (of all but the first, where there are fewer), as logged."
    notes = [note]
    if apart := [run.title for run in model.runs if (gap := run.series(GAP)).size and gap.median() > GAP_LEVEL]:
        notes.append(
            f"{', '.join(apart)}: sampler and trainer give a token probabilities that are more than {GAP_LEVEL} apart. "
            "By design with algorithm.subgroup.context=plain, OC-GRPO or BiCC; else they may not hold the same model."
        )
    columns = ["Run", "steps", *_NUMBERS.values()]
    return table(f"{model.name}: training dynamics in numbers", columns, rows, notes) if rows else None


_WHOLE, _ONE, _TWO = "{:,.0f}", "{:,.1f}", "{:,.2f}"
#: Of each column the metric, what of it over the steps (see :func:`_value`), and how that is shown.
_COST = {
    "steps": (STEP_SECONDS, "count", _WHOLE),
    "strategy tokens, share": (SHARE, "typical", "{:.1%}"),
    TOKENS: (TOKENS, "median", _WHOLE),
    "stage seconds a prompt": ("strategy/seconds_mean", "typical", _TWO),
    "longest": ("strategy/seconds_max", "max", _ONE),
    "generation seconds a step": ("timing_s/gen", "typical", _ONE),
    "step seconds": (STEP_SECONDS, "typical", _ONE),
    HOURS: (HOURS, "sum", _TWO),
    "response length": (LENGTH, "typical", _ONE),
}
_YIELD = {
    "usable a candidate": (USABLE, "mean", "{:.1%}"),
    "empty slots": ("strategy/empty_slots", "mean", "{:.1%}"),
    "Jaccard distance": ("strategy/jaccard_distance", "mean", "{:.3f}"),
    "copies of the prompt a step": ("strategy/echoed_previews", "mean", _ONE),
    "duplicates a step": ("strategy/duplicate_previews", "mean", _ONE),
    "failed requests": ("strategy/failed_requests", "sum", _WHOLE),
    "prompts without stage": ("strategy/skipped_prompts", "sum", _WHOLE),
    "slots too long": ("strategy/overlong_prompts", "sum", _WHOLE),
    "prompts lost": ("rollout/lost_prompts", "sum", _WHOLE),
    # Counted from the start of the run.
    "worker restarts": ("rollout/worker_restarts", "max", _WHOLE),
}


def cost_table(models: Sequence[ModelRuns]) -> Table:
    """Tokens and seconds, a row for each run, plain GRPO among them for comparison."""
    return _measured("Cost of the strategy stage", _COST, models, _COST_NOTE)


def yield_table(models: Sequence[ModelRuns]) -> Table | None:
    """What the strategy stage made of its candidates; None where no run has one."""
    having = [model for model in models if any(len(run.series(USABLE)) for run in model.runs)]
    return _measured("Yield of the strategy stage", _YIELD, having, _YIELD_NOTE) if having else None


def _measured(caption: str, columns: dict[str, tuple[str, str, str]], models: Sequence[ModelRuns], note: str) -> Table:
    rows = [
        (model.name, [run.title, *found])
        for model in models
        for run in model.runs
        if any(found := [_value(_series(run, key), over, form) for key, over, form in columns.values()])
    ]
    return table(caption, ["Run", *columns], rows, (note,))


def _value(values: pd.Series, over: str, form: str) -> str | None:
    """One number over the steps, None without; ``typical``: the median, the first of several aside."""
    if over == "typical":
        values, over = values.iloc[1:] if len(values) > 1 else values, "median"
    return None if values.empty else form.format(values.agg(over))


def _series(run: Run, key: str) -> pd.Series:
    """A metric as it was logged, or derived from what was, without gaps."""
    derived = {TOKENS: _tokens, CLIPPED: _cut_off, HOURS: lambda run: run.series(STEP_SECONDS) / 3600}
    return derived[key](run).dropna() if key in derived else run.series(key)


def _tokens(run: Run) -> pd.Series:
    """Strategy tokens a prompt, from their share of all generated tokens."""
    share, rollouts = run.series(SHARE), run.setting("actor_rollout_ref.rollout.n")
    share = share[share < 1]
    return share / (1 - share) * run.series(LENGTH) * (rollouts if isinstance(rollouts, int) else float("nan"))


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

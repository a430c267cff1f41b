"""What a strategy stage cost and yielded, summed over prompts and workers."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class StageStats:
    """Sums over prompts; two of them add up, :meth:`metrics` turns one into what verl's logger shows.

    A candidate is one call of the strategy stage, which yields one preview or, in paired sampling, two. It is usable
    if all of them can be extracted and none is an echo of what the prompt shows, and a duplicate if it is usable but
    adds nothing new: its previews are those of an earlier candidate of the prompt, in either order, or its two halves
    are equal. Slots always count previews.
    """

    prompts: int = 0
    slots: int = 0
    empty_slots: int = 0
    candidates: int = 0
    usable: int = 0
    echoes: int = 0
    duplicates: int = 0
    failed_requests: int = 0
    skipped_prompts: int = 0
    overlong_prompts: int = 0
    distance_sum: float = 0.0
    distance_prompts: int = 0
    strategy_tokens: int = 0
    rollout_tokens: int = 0
    seconds_sum: float = 0.0
    seconds_max: float = 0.0
    #: How an unusable candidate of a prompt begins that had too few usable ones, for people to look at; no metric.
    sample: str | None = None

    def add(self, other: StageStats) -> None:
        """Add another one's sums to this one; the first sample stays."""
        if self.sample is None:
            self.sample = other.sample
        for name in (f.name for f in fields(self) if f.name != "sample"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, theirs) if name.endswith("_max") else mine + theirs)

    def metrics(self) -> dict[str, float]:
        """The ``strategy/`` metrics; a ratio whose denominator is 0 is left out, a count never is.

        ``usable_per_candidate``: share of strategy calls whose preview (of a pair: both) can be extracted and is no
        echo. ``empty_slots``: share of the slots that ran the plain prompt. ``jaccard_distance``: mean over prompts of
        the mean pairwise word-set distance of the kept previews. ``token_share``: strategy tokens over all generated
        tokens. ``seconds_mean`` and ``seconds_max``: of the strategy stage, over prompts. ``failed_requests``,
        ``echoed_previews`` (calls that repeat what the strategy prompt shows), ``duplicate_previews``,
        ``skipped_prompts`` (strategy prompt too long for the context, stage not run) and ``overlong_prompts``
        (conditioned prompt too long, slot fell back to the plain prompt): counts.
        """
        if not self.prompts:
            return {}
        tokens = self.strategy_tokens + self.rollout_tokens
        ratios = {
            "usable_per_candidate": (self.usable, self.candidates),
            "empty_slots": (self.empty_slots, self.slots),
            "jaccard_distance": (self.distance_sum, self.distance_prompts),
            "token_share": (self.strategy_tokens, tokens),
            "seconds_mean": (self.seconds_sum, self.prompts),
        }
        values = {name: top / bottom for name, (top, bottom) in ratios.items() if bottom}
        values |= {
            "prompts": self.prompts,
            "seconds_max": self.seconds_max,
            "failed_requests": self.failed_requests,
            "echoed_previews": self.echoes,
            "duplicate_previews": self.duplicates,
            "skipped_prompts": self.skipped_prompts,
            "overlong_prompts": self.overlong_prompts,
        }
        return {f"strategy/{name}": float(value) for name, value in values.items()}

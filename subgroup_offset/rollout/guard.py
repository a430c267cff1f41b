"""When a run should stop rather than go on with nothing: few previews step after step, one error on every prompt."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field

from subgroup_offset.config import StrategyConfig
from subgroup_offset.strategy.stats import StageStats

_KEY = "algorithm.subgroup.strategy"


class RunStopped(RuntimeError):
    """The run is of no use as it is; the message says why and what to do."""


@dataclass(frozen=True)
class Cause:
    """An error as far as it tells one kind from another: its type, and the line that raised it."""

    kind: str
    place: str

    @classmethod
    def of(cls, error: BaseException) -> Cause:
        """The cause behind an error: that of the error it was raised from, if any."""
        while error.__cause__ is not None:
            error = error.__cause__
        frames = traceback.extract_tb(error.__traceback__)
        return cls(type(error).__name__, f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "")


@dataclass
class PromptOutcomes:
    """How prompts ended: with rows to train on, or lost to an error."""

    kept: int = 0
    lost: Counter[Cause] = field(default_factory=Counter)
    #: The first error of each cause, as text.
    said: dict[Cause, str] = field(default_factory=dict)

    def lose(self, error: BaseException) -> None:
        """Note a prompt that was lost."""
        cause = Cause.of(error)
        self.lost[cause] += 1
        self.said.setdefault(cause, f"{type(error).__name__}: {error}")

    def add(self, other: PromptOutcomes) -> None:
        """Add another worker's."""
        self.kept += other.kept
        self.lost.update(other.lost)
        for cause, text in other.said.items():
            self.said.setdefault(cause, text)


class FailureGuard:
    """Finds the error that every prompt ends in: an asynchronous trainer would fetch new prompts for ever.

    Args:
        limit: prompts lost in a row, none kept between them, all by one cause.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._row = PromptOutcomes()

    def look(self, outcomes: PromptOutcomes) -> str | None:
        """Why the run should stop, if it should.

        Args:
            outcomes: since the last look.
        """
        if outcomes.kept:
            self._row = PromptOutcomes()
            return None
        self._row.add(outcomes)
        count = self._row.lost.total()
        if len(self._row.lost) != 1 or count < self._limit:
            return None
        ((cause, text),) = self._row.said.items()
        return f"The last {count} prompts all failed with the same error, at {cause.place}: {text}"


class PreviewGuard:
    """Finds steps whose strategy stage yielded next to nothing: lam then acts on noise between identical prompts.

    Args:
        config: says how few previews are too few, and after how many such steps in a row a run stops.
    """

    def __init__(self, config: StrategyConfig) -> None:
        self._share = config.min_preview_share
        self._limit = config.max_low_preview_steps
        self._row = 0

    def look(self, stats: StageStats) -> tuple[str | None, str | None]:
        """A warning about this step, and why the run should stop, each where there is one.

        Args:
            stats: of a step; without slots it says nothing about the steps in a row.
        """
        if not stats.slots:
            return None, None
        filled = stats.slots - stats.empty_slots
        if filled >= self._share * stats.slots:
            self._row = 0
            return None, None
        self._row += 1
        warning = (
            f"Only {filled} of {stats.slots} strategy slots had a preview in this step ({_KEY}.min_preview_share="
            f"{self._share:g}; step {self._row} in a row): {stats.candidates} candidates, {stats.usable} usable, "
            f"{stats.echoes} that repeat the prompt's own examples, {stats.failed_requests} failed requests, "
            f"{stats.overlong_prompts} conditioned prompts too long, {stats.skipped_prompts} prompts without room. "
            f"Slots without a preview run the plain prompt, where lam acts on nothing."
        )
        if stats.sample is not None:
            warning += f" One candidate: {stats.sample!r}"
        if self._limit is None or self._row < self._limit:
            return warning, None
        return warning, (
            f"{self._row} steps in a row had fewer previews than {_KEY}.min_preview_share={self._share:g} asks for "
            f"(the last one {filled} of {stats.slots} slots), so that lam has next to nothing to act on. Look at the "
            f"candidates ({_KEY}.data_dir=DIR, then subgroup-offset inspect DIR --raw), change "
            f"{_KEY}.strategy_template or max_tokens, or set {_KEY}.max_low_preview_steps=null to go on all the same."
        )

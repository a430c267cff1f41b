"""A prompt with its subgroups, as in the paper's Table 6: what ``inspect``, the report and the demo show.

Imports neither torch nor verl: a log is looked at on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from subgroup_offset.strategy.preview import IDEA
from subgroup_offset.strategy.stage import CandidateRecord

ORDERS = ("span", "file")  #: of :func:`select`
PLAIN_PROMPT = "(plain prompt)"
UNKNOWN = "–"


@dataclass(frozen=True)
class SlotRecord:
    """One slot of a prompt and its rollouts: a row of the paper's Table 6."""

    slot: int
    subgroup: int | str
    #: The preview that conditioned the rollouts; None for the plain prompt.
    preview: str | None
    #: None where the verdicts are not known.
    successes: int | None
    rollouts: int
    #: One per rollout where known, else None.
    rewards: tuple[float | None, ...]

    @property
    def success_rate(self) -> float | None:
        """In [0, 1]; None without rollouts or verdicts."""
        return None if self.successes is None or self.rollouts < 1 else self.successes / self.rollouts

    @property
    def mean_reward(self) -> float | None:
        """Over the known rewards; None if there are none."""
        known = [reward for reward in self.rewards if reward is not None]
        return sum(known) / len(known) if known else None

    @property
    def key_idea(self) -> str:
        """The bullets under ``[KEY IDEA]``; the whole preview if it has no such header."""
        if self.preview is None:
            return PLAIN_PROMPT
        _, header, idea = self.preview.partition(IDEA)
        return (idea if header else self.preview).strip()

    @property
    def success(self) -> str:
        """As in Table 6, ``6/8``."""
        return f"{UNKNOWN if self.successes is None else self.successes}/{self.rollouts}"

    @property
    def reward(self) -> str:
        """The mean reward with two decimals."""
        return UNKNOWN if self.mean_reward is None else f"{self.mean_reward:.2f}"


@dataclass(frozen=True)
class PromptRecord:
    """One prompt of a step: a line of the strategy stage's log, or what a rollout dump tells of it."""

    step: int
    uid: str
    index: Any  #: the prompt's in the dataset, of whatever type it has there
    problem: str
    seconds: float  #: wall-clock of the prompt's strategy stage; NaN where it is not known
    status: str  #: ``finished`` or ``failed``
    slots: tuple[SlotRecord, ...]
    candidates: tuple[CandidateRecord, ...] = ()

    @property
    def span(self) -> float | None:
        """Greatest minus least success rate, in [0, 1], over the slots that have one; None without."""
        rates = [rate for slot in self.slots if (rate := slot.success_rate) is not None]
        return max(rates) - min(rates) if rates else None

    @property
    def best_first(self) -> list[SlotRecord]:
        """The slots in the order of Table 6: the greatest success rate first, unknown ones last."""
        return sorted(self.slots, key=lambda slot: _descending(slot.success_rate))


def select(
    records: Iterable[PromptRecord],
    *,
    step: int | None = None,
    contains: str | None = None,
    min_span: float = 0.0,
    informative: bool = False,
    limit: int | None = 5,
    order: str = "span",
) -> list[PromptRecord]:
    """The records to show.

    Args:
        records: any records.
        step: only those of this training step.
        contains: only those whose problem contains this text, in any case.
        min_span: only those whose span is at least this; above 0 it leaves out those with an unknown one.
        informative: only those whose span is at least ``metrics.INFORMATIVE_SPAN``, as the training counts.
        limit: at most this many; None for all.
        order: ``span``, the greatest span first, unknown ones last, ties as in the file; or ``file``.

    Raises:
        ValueError: for another order or a negative limit.
    """
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown: use one of {', '.join(ORDERS)}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit} is negative: set it to 0 or above, or to none for all prompts.")
    least = max(min_span, _informative_span()) if informative else min_span
    found = [
        record
        for record in records
        if (step is None or record.step == step)
        and (contains is None or contains.casefold() in record.problem.casefold())
        and (record.span or 0.0) >= least
    ]
    if order == "span":
        found.sort(key=lambda record: _descending(record.span))
    return found[:limit]


def _informative_span() -> float:
    from subgroup_offset.metrics import INFORMATIVE_SPAN  # here, for it needs NumPy

    return INFORMATIVE_SPAN - 1e-9  # rates are quotients of integers: 0.8 - 0.425 is not quite 0.375


def _descending(share: float | None) -> float:
    """Sort key for shares in [0, 1]: the greatest first, unknown ones last."""
    return 1.0 if share is None else -share

"""What a worker keeps: of a prompt while its sessions run, and of all of them until the driver asks."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from verl.experimental.agent_loop import AgentLoopOutput

from subgroup_offset.partition import FinishedRollout
from subgroup_offset.rollout.guard import PromptOutcomes
from subgroup_offset.strategy.stage import SlotPlan
from subgroup_offset.strategy.stats import StageStats

# Records kept for a driver that does not ask for them (a trainer of one's own without verl's logger).
_KEPT_RECORDS = 4096


@dataclass
class PromptState:
    """A training prompt while its sessions run."""

    #: The dataset's row and the step it belongs to.
    prompt: dict[str, Any]
    step: int
    #: (n,) the slot of each session; None for single-stage rollouts, as the plan is.
    slots: list[int] | None
    plan: asyncio.Task[SlotPlan] | None
    sessions: int
    ended: int = 0
    #: Session -> what it did, for those that finished, and how many output rows it has.
    finished: dict[int, FinishedRollout] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    #: Session -> its output rows, kept where a method asks for them.
    outputs: dict[int, list[AgentLoopOutput]] = field(default_factory=dict)
    #: Token ids of the chat of each slot, and under None of the plain one, where rows are trained under the latter.
    chat_ids: dict[int | None, list[int]] = field(default_factory=dict)
    #: The first error of a session.
    error: BaseException | None = None
    #: Why its rows left the step, if they did.
    withdrawn: BaseException | None = None


@dataclass
class Drained:
    """What a worker has gathered since it was last asked."""

    stats: StageStats = field(default_factory=StageStats)
    outcomes: PromptOutcomes = field(default_factory=PromptOutcomes)
    records: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT_RECORDS))
    #: Records that were there for so long that newer ones took their place.
    dropped_records: int = 0
    #: Rollouts whose verdict could not be told from what the reward said.
    unknown_verdicts: int = 0
    #: What the methods' halves in the workers have counted, by the key it is logged under.
    counts: Counter[str] = field(default_factory=Counter)

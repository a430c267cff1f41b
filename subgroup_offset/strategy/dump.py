"""verl's rollout dumps (``trainer.rollout_data_dir``): one JSONL file a step, one row a rollout, read as a stream.

A step of the paper's size (8192 rollouts of up to 20,480 tokens) is hundreds of megabytes, so that only rows of wanted
prompts are decoded.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from subgroup_offset.strategy.json_lines import Unusable, read_lines
from subgroup_offset.strategy.preview import extract_preview
from subgroup_offset.strategy.subgroups import PromptRecord, SlotRecord


@dataclass(frozen=True)
class Rollout:
    """One row. verl's key of it is ``{prompt}_{session}_{part}``."""

    prompt: str
    session: int
    #: Number of the row among those of its session; above 0 in sessions of several outputs.
    part: int
    input: str
    output: str
    #: None where it is no number.
    score: float | None


def read_rollouts(
    path: Path, wanted: Collection[str] | None = None, unusable: Unusable | None = None
) -> Iterator[Rollout]:
    """The rollouts of one step, padding left out.

    Args:
        path: the file.
        wanted: the prompts whose rollouts to read; None for all.
        unusable: lines that are no rollout are left out and counted here; None: the first one raises.

    Raises:
        RecordError: naming file and line.
    """
    marks = None if wanted is None else [prompt.encode("utf-8", "surrogatepass") for prompt in wanted]
    for rollout in read_lines(path, _rollout, "rollout of verl's dump", unusable, marks):
        if not rollout.prompt.startswith("pad") and (wanted is None or rollout.prompt in wanted):
            yield rollout


def prompt_of(step: int, rollouts: Sequence[Rollout], sizes: Sequence[int]) -> PromptRecord:
    """A prompt as the strategy stage would have recorded it, as far as its rollouts tell.

    Args:
        step: of the training.
        rollouts: all of the prompt; a success has a score above 0.
        sizes: how many sessions each slot was given, in order.
    """
    members: list[dict[int, Rollout]] = [{} for _ in sizes]
    for rollout in rollouts:
        members[slot_of(rollout.session, sizes)][rollout.session] = rollout  # a session's last output has its score
    slots = []
    for slot, sessions in enumerate(members):
        last = list(sessions.values())
        scores = tuple(rollout.score for rollout in last)
        won = None if None in scores else sum(score > 0 for score in scores if score is not None)
        preview = extract_preview(last[0].input) if last else None
        slots.append(SlotRecord(slot, slot, preview, won, len(last), scores))
    problem, unknown = rollouts[0].input, float("nan")
    return PromptRecord(step, rollouts[0].prompt, None, problem, unknown, "from the rollout dump", tuple(slots))


def slot_of(session: int, sizes: Sequence[int]) -> int:
    """Sessions are given to the slots in order; the number of slots for a session that is none's."""
    return bisect_right(list(accumulate(sizes)), session)


def _rollout(row: Mapping[str, Any], unusable: Unusable, place: str) -> Rollout:
    parts = str(row.get("uid", "")).rsplit("_", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():
        raise ValueError("no uid {prompt}_{session}_{part}, which says whose rollout it is")
    score = row["score"]
    fine = isinstance(score, int | float) and math.isfinite(score)
    return Rollout(
        parts[0], int(parts[1]), int(parts[2]), str(row["input"]), str(row["output"]), float(score) if fine else None
    )

"""Another prompt for a row that verl has stored already: the fields and tags that change with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from subgroup_offset.partition import FinishedRollout
from subgroup_offset.rollout.group import FinishedGroup


def rewrite_prompt(prompt: Sequence[int], response: Sequence[int]) -> tuple[dict[str, Tensor], dict[str, int]]:
    """The fields and tags of a row of text with this prompt; response, mask and the sampler's log-probabilities stay.

    verl balances its batches by the tags, and trains on ``input_ids``.
    """
    prompts, responses = (torch.tensor(list(ids), dtype=torch.int64) for ids in (prompt, response))
    input_ids = torch.cat([prompts, responses])
    fields = {"prompts": prompts, "input_ids": input_ids, "position_ids": torch.arange(len(input_ids))}
    return fields, {"prompt_len": len(prompts), "seq_len": len(input_ids)}


async def rewritable(group: FinishedGroup) -> list[FinishedRollout]:
    """The rollouts of one output row, with a reward that is finite, and positions along one axis."""
    rollouts = [
        rollout
        for rollout in group.rollouts
        if len(group.outputs[rollout.session]) == 1 and rollout.reward is not None and math.isfinite(rollout.reward)
    ]
    if not rollouts:
        return []
    first: Any = await group.read([group.key(rollouts[0].session)], ["position_ids"])
    return rollouts if first["position_ids"][0].dim() == 1 else []

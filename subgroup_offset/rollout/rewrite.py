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
    """The rollouts whose prompt may become another: of one row, of text alone, and with a reward that is finite.

    Their prompt must be the chat that they were given, neither cut nor made by the agent loop: what it has besides
    would be lost.
    """
    rollouts = [
        rollout
        for rollout in group.rollouts
        if len(group.outputs[rollout.session]) == 1
        and all(
            media is None or not len(media)
            for media in (group.outputs[rollout.session][0].multi_modal_data or {}).values()
        )
        and rollout.reward is not None
        and math.isfinite(rollout.reward)
    ]
    if not rollouts:
        return []
    first: Any = await group.read([group.key(rollouts[0].session)], ["position_ids"])
    if first["position_ids"][0].dim() > 1:
        return []
    chats: dict[str, list[int]] = {}  # single-stage rollouts of a prompt have one, others one a strategy
    for rollout in rollouts:
        chat = list(rollout.fields["raw_prompt"])
        if repr(chat) not in chats:
            chats[repr(chat)] = await group.chat.tokens(chat)
    return [
        rollout
        for rollout in rollouts
        if list(group.outputs[rollout.session][0].prompt_ids) == chats[repr(list(rollout.fields["raw_prompt"]))]
    ]

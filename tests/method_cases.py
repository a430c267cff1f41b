"""Batches for tests of methods: groups of rewards in, advantages by the estimator out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS

Group = Sequence[float] | Sequence[Sequence[float]]
"""Rewards of a prompt's rollouts, or of each of its subgroups."""


def labels_of(groups: Mapping[str, Group], success: Any = lambda reward: reward > 0) -> list[str]:
    """One label a rollout, in order; a session a rollout."""
    labels = []
    for prompt, group in groups.items():
        parts = group if isinstance(group[0], Sequence) else [group]
        rows = [(slot, reward) for slot, part in enumerate(parts) for reward in part]
        labels += [
            RolloutLabel(prompt, slot, session, success=success(reward)).encode()
            for session, (slot, reward) in enumerate(rows)
        ]
    return labels


def rewards_of(groups: Mapping[str, Group]) -> Tensor:
    """(B,) float64, in the labels' order."""
    flat = [part for group in groups.values() for part in (group if isinstance(group[0], Sequence) else [group])]
    return torch.tensor([reward for part in flat for reward in part], dtype=torch.float64)


def advantages(
    groups: Mapping[str, Group],
    method: Mapping[str, Any] | None = None,
    *,
    width: int = 3,
    mask: Tensor | None = None,
    rows: Any = None,
    **subgroup: Any,
) -> Tensor:
    """(B, T) what the estimator makes of the groups under ``algorithm.subgroup.method``.

    Args:
        groups: prompt -> rewards, plain or by subgroup.
        method: ``{name: {setting: value}}``.
        width: T, where no ``mask`` is given.
        mask: (B, T); all ones by default.
        rows: the fields that a method reads; takes what it writes (`methods.rows.GivenRows`).
        **subgroup: further settings under ``algorithm.subgroup``.
    """
    rewards = rewards_of(groups)
    mask = torch.ones(len(rewards), width) if mask is None else mask
    tokens = torch.zeros_like(mask, dtype=torch.float64)
    tokens[:, 0] = rewards
    config = {"subgroup": {"method": dict(method or {}), **subgroup}}
    return compute_grpo_subgroup_advantage(tokens, mask, labels_of(groups), config, rows=rows)[0]


def step_metrics() -> dict[str, float]:
    """What has been published since the last call."""
    return STEP_METRICS.drain()

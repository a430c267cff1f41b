"""Calls of the estimator, the batches they are made with, and what they should give."""

import random

import numpy as np
import pytest
import torch
from advantage_cases import SUCCESSES

from subgroup_offset import estimators
from subgroup_offset.advantage import subgroup_advantages
from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.logs import WarnOnce
from subgroup_offset.metrics import STEP_METRICS

WIDTH = 4


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(estimators, "_warn_once", WarnOnce(estimators.logger))
    STEP_METRICS.drain()
    yield
    STEP_METRICS.drain()


def settings(lam: float, **others):
    return {"subgroup": {"lam": lam, **others}}


def tokens(rewards: list[float], mask_dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, WIDTH) rewards on the second of WIDTH tokens, three of which are the policy's."""
    token_level = torch.zeros(len(rewards), WIDTH)
    token_level[:, 1] = torch.tensor(rewards)
    mask = torch.ones(len(rewards), WIDTH, dtype=mask_dtype)
    mask[:, 3] = 0
    return token_level, mask


def estimate(ids: list, rewards: list[float], config=None, **kwargs) -> torch.Tensor:
    """Advantages per row, read from the first token; that the others agree with the mask is checked on the way."""
    token_level, mask = tokens(rewards)
    advantages, returns = compute_grpo_subgroup_advantage(
        token_level, mask, np.array(ids, dtype=object), config=config, **kwargs
    )
    assert returns is advantages
    assert advantages.dtype == torch.float32
    assert torch.equal(advantages, advantages[:, :1] * mask)
    return advantages[:, 0]


def paper_rows() -> tuple[list[RolloutLabel], list[float]]:
    """The paper's case study, four strategies with 6, 4, 1, 0 of 8, beside a second prompt, rows shuffled."""
    rows = [
        (RolloutLabel(prompt, k, k * 8 + z), float(z < right))
        for prompt, counts in (("p", SUCCESSES), ("q", (1, 8, 3, 3)))
        for k, right in enumerate(counts)
        for z in range(8)
    ]
    random.Random(1).shuffle(rows)
    labels, rewards = zip(*rows, strict=True)
    return list(labels), list(rewards)


def of(labels: list[RolloutLabel], rewards: list[float], lam: float, **kwargs) -> torch.Tensor:
    prompts, subgroups = [label.prompt for label in labels], [label.subgroup for label in labels]
    return subgroup_advantages(torch.tensor(rewards), prompts, subgroups, lam, **kwargs).advantages

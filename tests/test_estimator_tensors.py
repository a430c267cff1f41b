"""The tensors that the estimator takes and makes: shapes, types, memory and gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from estimator_calls import (
    fresh_state,  # noqa: F401  autouse
    of,
    settings,
    tokens,
)
from torch.profiler import ProfilerActivity, profile
from verl.trainer.ppo import core_algos

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel


@pytest.mark.parametrize(
    ("rewards", "mask", "index", "match"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), ["p", "p"], "must both be"),
        (torch.zeros(2), torch.zeros(2), ["p", "p"], "must both be"),
        (torch.zeros(2, 3), torch.zeros(2, 3), ["p"], "got 1 ids for 2 rows"),
    ],
)
def test_shapes_are_checked(rewards, mask, index, match):
    with pytest.raises(ValueError, match=match):
        compute_grpo_subgroup_advantage(rewards, mask, index)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32, torch.float64, torch.bfloat16])
def test_masks_of_any_type(dtype):
    token_level, mask = tokens([1.0, 0.0, 0.5], dtype)
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p"] * 3)
    expected = of([RolloutLabel("p", 0, 0)] * 3, [1.0, 0.0, 0.5], 0.0)[:, None] * mask.float()
    assert advantages.dtype == torch.float32
    assert torch.equal(advantages, expected)
    assert torch.equal(mask, tokens([0.0] * 3, dtype)[1])


def large_allocations(estimator, mask_dtype: torch.dtype, first_token: int) -> list[int]:
    """Sizes in bytes of what an estimator allocates, as large as the (B, T) matrix of bools or larger."""
    rows, width = 64, 50_000
    token_level = torch.zeros(rows, width)
    token_level[:32, -1] = 1
    mask = torch.ones(rows, width, dtype=mask_dtype)
    mask[:, 0] = first_token
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        kept = estimator(token_level, mask, np.array(["p"] * rows, dtype=object))
    del kept
    # The raw records: per operator, the profiler nets what was allocated against what was freed meanwhile.
    events = record.profiler.kineto_results.events()
    return [e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() >= rows * width]


@pytest.mark.parametrize("mask_dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize("first_token", [0, 1])
def test_the_result_is_the_only_large_allocation(mask_dtype, first_token):
    ours = partial(compute_grpo_subgroup_advantage, config=settings(0.0))
    assert large_allocations(ours, mask_dtype, first_token) == [64 * 50_000 * 4]


def test_the_measure_of_allocations_sees_verls_two():
    verls = core_algos.compute_grpo_vectorized_outcome_advantage
    assert large_allocations(verls, torch.int64, 1) == [64 * 50_000 * 4] * 2


def test_inputs_stay_as_they_are_and_no_gradient_is_kept():
    token_level, mask = tokens([1.0, 0.0])
    token_level.requires_grad_()
    before = token_level.detach().clone()
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p", "p"])
    assert torch.equal(token_level, before)
    assert not advantages.requires_grad

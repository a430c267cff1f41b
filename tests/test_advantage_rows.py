"""The maths: what gets 0, and what must count in no statistic."""

import math

import pytest
import torch
from advantage_cases import FLOATS, LAMBDAS, Rows, batches, close, run
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.advantage import subgroup_advantages


@pytest.mark.parametrize("constant", [0.1, 0.9, 1000.1, -1.3])
@pytest.mark.parametrize("std", ["sample", "population", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_constant_groups_get_exactly_0(constant, std, dtype):
    for size in (1, 2, 7, 32, 33):
        rewards = torch.full((size,), constant, dtype=dtype)
        result = subgroup_advantages(rewards, ["p"] * size, [i % 4 for i in range(size)], -0.3, std=std)
        for name in ("advantages", "global_advantages", "offsets", "offset_term", "group_std"):
            assert (getattr(result, name) == 0).all(), name
        assert result.constant.all()
        torch.testing.assert_close(result.baseline, rewards.float())


def test_a_group_of_one_gets_0_beside_other_groups():
    result = subgroup_advantages(torch.tensor([5.0, 0.0, 1.0]), ["one", "two", "two"], [0, 0, 1], 0.3)
    assert result.advantages[0] == 0
    assert result.constant.tolist() == [True, False, False]
    assert result.advantages[2] > 0 > result.advantages[1]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@given(rows=batches(), lam=LAMBDAS)
def test_a_reward_that_is_not_finite_touches_only_its_own_row(bad, rows, lam):
    """Other groups stay equal to the bit, and its own group is what it is without that row."""
    spoiled = rows.rewards.clone()
    spoiled[0] = bad
    clean, result = run(rows, lam), run(rows._replace(rewards=spoiled), lam)
    others = torch.tensor([prompt != rows.prompts[0] for prompt in rows.prompts])
    without = Rows(rows.rewards[1:], rows.prompts[1:], rows.subgroups[1:])
    for name in FLOATS:
        column = getattr(result, name)
        assert column[0] == 0
        assert torch.equal(column[others], getattr(clean, name)[others])
        if len(without.prompts):
            close(column[1:], getattr(run(without, lam), name), 1e-6)
    assert result.valid.tolist() == [False] + [True] * (len(spoiled) - 1)


@given(batches(), LAMBDAS, st.data())
def test_invalid_rows_are_as_if_they_were_not_there(rows, lam, data):
    size = len(rows.prompts)
    valid = torch.tensor(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    result = run(rows, lam, valid=valid, shuffle_seed=0)
    keep = valid.nonzero().flatten().tolist()
    kept = Rows(rows.rewards[keep], [rows.prompts[i] for i in keep], [rows.subgroups[i] for i in keep])
    expected = run(kept, lam, shuffle_seed=0)
    for name in FLOATS:
        assert (getattr(result, name)[~valid] == 0).all()
        close(getattr(result, name)[keep], getattr(expected, name), 1e-6)


@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_empty_batch(shuffle_seed):
    result = subgroup_advantages(torch.zeros(0), [], [], 0.3, shuffle_seed=shuffle_seed)
    assert all(getattr(result, name).shape == (0,) for name in FLOATS)

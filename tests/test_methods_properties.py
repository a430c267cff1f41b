"""What holds for every method: order, other prompts, rows that do not count, constant groups, neutral settings."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages, labels_of, rewards_of

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.methods import BUILT_IN, make_methods

#: Methods that need nothing but rewards; None: with no method at all.
ALONE = [None] + [name for name in sorted(BUILT_IN) if name in ("bnpo", "f_grpo", "maxrl", "quantile", "rloo")]
ALONE += ["signbalance", "stratified"]
#: A batch's prompts are one another's business here.
ACROSS = {"bnpo"}
LAMS = {name: 0.0 if name == "stratified" else -0.3 for name in ALONE}

few = settings(max_examples=20)

REWARDS = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
SUBGROUP = st.lists(REWARDS, min_size=1, max_size=4)
BATCH = st.lists(st.lists(SUBGROUP, min_size=1, max_size=3), min_size=1, max_size=4).map(
    lambda groups: {str(i): group for i, group in enumerate(groups)}
)


def of(name: str | None, batch, **kwargs) -> torch.Tensor:
    return advantages(batch, {name: {}} if name else None, lam=LAMS[name], **kwargs)


def estimate(name: str | None, labels: list[str], rewards: torch.Tensor, **subgroup) -> torch.Tensor:
    tokens = rewards[:, None].double()
    config = {"subgroup": {"method": {name: {}} if name else {}, "lam": LAMS[name], **subgroup}}
    return compute_grpo_subgroup_advantage(tokens, torch.ones_like(tokens), labels, config)[0][:, 0]


@pytest.mark.parametrize("name", ALONE)
@few
@given(batch=BATCH, seed=st.integers(0, 99))
def test_the_order_of_rows_is_no_matter(name, batch, seed):
    labels, rewards = labels_of(batch), rewards_of(batch)
    order = random.Random(seed).sample(range(len(labels)), len(labels))
    shuffled = estimate(name, [labels[i] for i in order], rewards[order])
    torch.testing.assert_close(shuffled, estimate(name, labels, rewards)[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in ALONE if name not in ACROSS])
@few
@given(batch=BATCH, other=st.lists(SUBGROUP, min_size=1, max_size=3))
def test_another_prompt_changes_nothing_to_the_bit(name, batch, other):
    alone = of(name, batch)
    assert torch.equal(of(name, {**batch, "other": other})[: len(alone)], alone)


@pytest.mark.parametrize("name", ALONE)
@few
@given(batch=BATCH, where=st.integers(0, 10_000), bad=st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_reward_that_is_not_finite_changes_nothing_for_others(name, batch, where, bad):
    labels, rewards = labels_of(batch), rewards_of(batch)
    row = where % len(labels)
    broken = rewards.clone()
    broken[row] = bad
    rest = [i for i in range(len(labels)) if i != row]
    found = estimate(name, labels, broken)
    assert found[row] == 0
    if rest:
        assert torch.equal(found[rest], estimate(name, [labels[i] for i in rest], rewards[rest]))


@pytest.mark.parametrize("name", ALONE)
@few
@given(reward=st.sampled_from([-1.0, 0.0, 0.1, 0.9, 1.0]), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_constant_groups_are_exactly_0(name, reward, sizes):
    batch = {"constant": [[reward] * size for size in sizes], "mixed": [[1.0, 0.0], [0.0, 0.0]]}
    assert of(name, batch)[: sum(sizes)].abs().max() == 0


@pytest.mark.parametrize("name", [name for name in ALONE if name not in ("quantile", "stratified")])
@few
@given(groups=st.lists(st.lists(st.lists(REWARDS, min_size=3, max_size=3), min_size=2, max_size=3), min_size=1))
def test_with_subgroups_of_one_size_a_group_sums_to_0(name, groups):
    for i, group in enumerate(groups):
        batch = {str(j): g for j, g in enumerate(groups)}
        rows = slice(sum(3 * len(g) for g in groups[:i]), sum(3 * len(g) for g in groups[: i + 1]))
        column = of(name, batch)[rows, 0].double()
        assert column.sum().abs() <= 1e-5 * max(1.0, column.abs().max().item()) * len(column), group


@pytest.mark.parametrize("name", [None, "f_grpo", "quantile", "stratified", "signbalance", "maxrl", "bnpo"])
@few
@given(batch=BATCH, a=st.sampled_from([0.5, 2.0, 4.0]), b=st.sampled_from([-1.0, 0.0, 2.0]))
def test_rewards_on_another_scale_give_the_same(name, batch, a, b):
    """Where the verdicts stay what they were."""
    labels, rewards = labels_of(batch), rewards_of(batch)
    found, moved = (estimate(name, labels, values) for values in (rewards, a * rewards + b))
    torch.testing.assert_close(moved, found, rtol=2e-4, atol=2e-5)


@few
@given(batch=BATCH, a=st.sampled_from([0.5, 2.0]))
def test_without_a_division_the_scale_stays(batch, a):
    labels, rewards = labels_of(batch), rewards_of(batch)
    for name, extra in (("rloo", {}), (None, {"std": "none"})):
        found, moved = (estimate(name, labels, values, **extra) for values in (rewards, a * rewards))
        torch.testing.assert_close(moved, a * found)


NEUTRAL = [{"f_grpo": {"gamma": 0.0}}, {"stratified": {"alpha": 0.0}}, {}]


@pytest.mark.parametrize("method", NEUTRAL)
@few
@given(batch=BATCH)
def test_neutral_settings_are_grpo_to_the_bit(method, batch):
    assert torch.equal(advantages(batch, method), advantages(batch))


@few
@given(batch=BATCH, lam=st.sampled_from([-0.3, 0.3, 1.0]))
def test_a_weight_of_1_leaves_the_offset_as_it_is_to_the_bit(batch, lam):
    assert torch.equal(advantages(batch, {"f_grpo": {"gamma": 0.0}}, lam=lam), advantages(batch, lam=lam))


# Identities between methods.

EQUAL_BUCKETS = st.integers(1, 5).flatmap(
    lambda size: st.lists(st.lists(REWARDS, min_size=size, max_size=size), min_size=2, max_size=2)
)


@few
@given(buckets=EQUAL_BUCKETS, mu=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_canon_is_an_offset_of_two_equal_buckets(buckets, mu):
    """mu (r - mean of the other bucket) + (1 - mu) (r - own mean) = the offset with lam = 1 - 2 mu."""
    means = [sum(bucket) / len(bucket) for bucket in buckets]
    expected = [mu * (r - means[1 - i]) + (1 - mu) * (r - means[i]) for i, bucket in enumerate(buckets) for r in bucket]
    flat = [r for bucket in buckets for r in bucket]
    if min(flat) == max(flat):
        expected = [0.0] * len(flat)
    found = advantages({"p": buckets}, lam=1 - 2 * mu, std="none")[:, 0].tolist()
    assert found == pytest.approx(expected, abs=1e-6)


@few
@given(st.lists(SUBGROUP, min_size=1, max_size=4))
def test_strata_alone_are_grpo_in_each_subgroup(group):
    flat = [r for stratum in group for r in stratum]
    apart = advantages({str(i): stratum for i, stratum in enumerate(group)})[:, 0].tolist()
    expected = apart if min(flat) < max(flat) else [0.0] * len(flat)
    assert advantages({"p": group}, {"stratified": {"alpha": 1.0}})[:, 0].tolist() == pytest.approx(expected, rel=1e-5)


@few
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=12))
def test_signbalance_is_maxrl_in_a_mirror(group):
    mirrored = advantages({"p": [1 - r for r in group]}, {"maxrl": {}})
    torch.testing.assert_close(advantages({"p": group}, {"signbalance": {}}), -mirrored)


@few
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12))
def test_square_roots_of_the_odds_are_grpo_with_the_population_std(group):
    right = sum(group)
    wrong = len(group) - right
    if not right or not wrong:
        return
    expected = [math.sqrt(wrong / right) if r else -math.sqrt(right / wrong) for r in group]
    assert advantages({"p": group}, std="population")[:, 0].tolist() == pytest.approx(expected, rel=1e-5)


@few
@given(st.lists(st.lists(REWARDS, min_size=3, max_size=3), min_size=2, max_size=4), st.sampled_from([-0.7, 0.3, 1.0]))
def test_means_without_the_own_reward_are_another_lam_and_scale(group, lam):
    flat = [r for subgroup in group for r in subgroup]
    n, z = len(flat), 3
    if min(flat) == max(flat):
        return
    expected = []
    for subgroup in group:
        for r in subgroup:
            mu, mu_k = (sum(flat) - r) / (n - 1), (sum(subgroup) - r) / (z - 1)
            expected.append(r - ((1 - lam) * mu + lam * mu_k))
    c = (1 - lam) * n / (n - 1) + lam * z / (z - 1)
    found = c * advantages({"p": group}, lam=lam * z / ((z - 1) * c), std="none")[:, 0]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_every_built_in_method_is_in_one_of_the_lists():
    reads_rows = {name for name in BUILT_IN if name not in ALONE}
    assert all(
        method.needs_labels or method.sees_groups or method.losses
        for method in make_methods({name: None for name in reads_rows if name != "verigate"}).values()
    )

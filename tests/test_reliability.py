"""How much of the offsets is noise: against loops, against simulated noise, and what lam makes of it."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages, labels_of, rewards_of, step_metrics

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.estimators import _lam_rules
from subgroup_offset.grouping import group_statistics, index_groups
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.lam import LamRule, parse_lam
from subgroup_offset.methods.reliability import offset_reliability, offset_share, shrunk


def statistics(batch, valid=None):
    labels = [RolloutLabel.decode(text) for text in labels_of(batch)]
    grouping = index_groups([label.prompt for label in labels], [label.subgroup for label in labels])
    return group_statistics(rewards_of(batch), grouping, valid)


def simulated(spread: float, prompts: int, p: float = 0.5, k: int = 4, z: int = 8, seed: int = 0):
    """Bernoulli rewards whose strategies' success rates are equally spaced."""
    generator = torch.Generator().manual_seed(seed)
    rates = p + spread * (torch.arange(k) / (k - 1) - 0.5)
    draws = torch.rand(prompts, k, z, generator=generator) < rates[None, :, None]
    return {str(i): prompt.double().tolist() for i, prompt in enumerate(draws)}


def by_loops(batch) -> tuple[float, float] | None:
    """tau2 and s2."""
    excess = spread = within = freedom = 0.0
    for group in batch.values():
        flat = [r for subgroup in group for r in subgroup]
        n, k = len(flat), len(group)
        if min(flat) == max(flat) or n == k:
            continue
        mean = fmean(flat)
        w = sum((r - fmean(subgroup)) ** 2 for subgroup in group for r in subgroup)
        between = sum(len(subgroup) * (fmean(subgroup) - mean) ** 2 for subgroup in group)
        excess += between - (k - 1) * w / (n - k)
        spread += n - sum(len(subgroup) ** 2 for subgroup in group) / n
        within += w
        freedom += n - k
    if not freedom:
        return None
    return (max(0.0, excess) / spread if spread > 1e-12 else 0.0), within / freedom


BATCH = st.lists(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
).map(lambda groups: {str(i): group for i, group in enumerate(groups)})


@settings(max_examples=100)
@given(BATCH)
def test_against_loops(batch):
    stats, expected = statistics(batch), by_loops(batch)
    found = offset_reliability(stats)
    if expected is None:
        assert found is None
        return
    tau2, s2 = expected
    sizes = [len(subgroup) for group in batch.values() for subgroup in group]
    factors = [tau2 / (tau2 + s2 / z) if tau2 > 1e-12 else 0.0 for z in sizes]
    assert found.factors[:-1].tolist() == pytest.approx(factors, abs=1e-6)
    assert 0 <= found.mean <= 1


@given(BATCH)
def test_shrunk_offsets_are_smaller_and_still_sum_to_0(batch):
    stats = statistics(batch)
    offsets = stats.offsets()
    smaller = shrunk(offsets, stats, offset_reliability(stats))
    sums = torch.zeros(len(stats.mean), dtype=torch.float64)
    sums.index_add_(0, stats.parent, smaller * stats.subgroup_count)
    assert sums.abs().max() < 1e-9
    squares = [(o.square() * stats.subgroup_count).sum() for o in (smaller, offsets)]
    assert squares[0] <= squares[1] + 1e-9


def test_strategies_that_are_all_alike_have_offsets_of_0_12():
    stats = statistics(simulated(spread=0.0, prompts=2000))
    assert stats.offsets()[:-1].abs().mean().item() == pytest.approx(0.123, abs=0.004)
    assert offset_reliability(stats).mean < 0.05


@pytest.mark.parametrize(("spread", "reliability"), [(0.1, 0.056), (0.2, 0.195), (0.4, 0.510)])
def test_the_reliability_of_a_known_spread(spread, reliability):
    found = offset_reliability(statistics(simulated(spread, prompts=3000)))
    assert found.mean == pytest.approx(reliability, abs=0.03)


@pytest.mark.parametrize(("spread", "raw", "pooled"), [(0.0, 23.5, 0.12), (0.2, 22.9, 4.7), (0.4, 21.3, 11.0)])
def test_the_error_of_shrunk_offsets(spread, raw, pooled):
    """Mean squares x 1000, batches of 64 prompts."""
    rates = spread * (torch.arange(4) / 3 - 0.5)
    errors = []
    for seed in range(40):
        stats = statistics(simulated(spread, prompts=64, seed=seed))
        truth = rates.repeat(64).double()
        varied = stats.varied[stats.parent[:-1]]
        offsets = stats.offsets()
        for found in (offsets, shrunk(offsets, stats, offset_reliability(stats))):
            errors.append(1000 * (found[:-1] - truth)[varied].square().mean().item())
    assert fmean(errors[::2]) == pytest.approx(raw, rel=0.06)
    assert fmean(errors[1::2]) == pytest.approx(pooled, rel=0.25, abs=0.25)


def test_nothing_to_pool():
    for batch in ({"p": [[1.0], [0.0], [1.0]]}, {"p": [[1.0, 1.0], [1.0]]}):
        stats = statistics(batch)
        assert offset_reliability(stats) is None
        assert torch.equal(shrunk(stats.offsets(), stats, None), stats.offsets())


def test_pure_subgroups_are_wholly_reliable():
    found = offset_reliability(statistics({"p": [[1.0, 1.0], [0.0, 0.0]]}))
    assert found.mean == 1.0


# lam by the reliability.


def test_auto_is_the_running_mean_of_the_reliability():
    rule = LamRule(None)
    assert rule.step(None, 0.0) == 0.0
    assert [rule.step(b, 0.1) for b in (0.4, 0.8, None)] == pytest.approx([0.4, 0.44, 0.44])


@given(st.floats(0, 1), st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_budget_is_the_contrast_that_costs_it(b, share, v):
    """E A^2(lam) / E A^2(0) = 1 - 2 lam B D + lam^2 D."""
    lam = LamRule(v).step(b, share)
    assert lam < 0
    assert 1 - 2 * lam * b * share + lam**2 * share == pytest.approx(1 + v)


def test_the_budget_of_a_known_spread():
    stats = statistics(simulated(spread=0.4, prompts=3000))
    share = offset_share(stats)
    assert share == pytest.approx(0.186, abs=0.01)
    assert LamRule(0.05).step(offset_reliability(stats).mean, share) == pytest.approx(-0.225, abs=0.02)


def test_a_rule_is_used_and_logged():
    _lam_rules.clear()
    batch = {"p": [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "q": [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]}
    step_metrics()
    found = advantages(batch, lam="auto")
    logged = step_metrics()
    assert logged["subgroup/lam"] == pytest.approx(logged["subgroup/offset_reliability"]) and logged["subgroup/lam"] > 0
    torch.testing.assert_close(found, advantages(batch, lam=logged["subgroup/lam"]))
    _lam_rules.clear()
    step_metrics()
    advantages(batch, lam={"budget": 0.05})
    assert step_metrics()["subgroup/lam"] < 0


def test_shrinkage_scales_lam():
    """With subgroups of one size."""
    batch = {str(i): [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]] for i in range(3)}
    stats = statistics(batch)
    b = offset_reliability(stats).mean
    assert 0 < b < 1
    found = advantages(batch, lam=-0.3, offset_shrinkage="batch")
    torch.testing.assert_close(found, advantages(batch, lam=-0.3 * b))


@pytest.mark.parametrize("value", ["auto2", {"budget": 0}, {"budget": -1}, {"budgets": 1}, {}, math.nan, None, True])
def test_refusals(value):
    with pytest.raises(ConfigError, match=r"algorithm\.subgroup\.lam"):
        parse_lam(value)
    with pytest.raises(ConfigError, match=r"algorithm\.subgroup\.lam"):
        SubgroupConfig.from_algorithm({"subgroup": {"lam": value}})

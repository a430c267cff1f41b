"""GAPO: bounds by the group's count, the losses against loops and verl's own, what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.methods.gapo import gapo_loss, gapo_sequence_loss
from subgroup_offset.methods.rows import LOSS_FIELD, GivenRows

LOW, HIGH, DUAL = 0.2, 0.28, 3.0


def actor(**changes) -> FSDPActorConfig:
    given = {"clip_ratio_low": LOW, "clip_ratio_high": HIGH, "clip_ratio_c": DUAL, **changes}
    return FSDPActorConfig(
        strategy="fsdp2", rollout_n=8, ppo_mini_batch_size=2, ppo_micro_batch_size_per_gpu=2, **given
    )


def batch(seed: int, rows: int = 4, tokens: int = 5):
    generator = torch.Generator().manual_seed(seed)
    old = torch.randn(rows, tokens, generator=generator) * 0.5 - 1
    new = (old + torch.randn(rows, tokens, generator=generator) * 0.4).requires_grad_()
    advantage = torch.randn(rows, 1, generator=generator).expand(rows, tokens)
    mask = (torch.rand(rows, tokens, generator=generator) < 0.8).float()
    mask[:, 0] = 1
    rarity = torch.rand(rows, 1, generator=generator)
    return old, new, advantage, mask, rarity


def explicit(old, new, advantage, mask, rarity, by_sequence=False) -> float:
    """The loss by loops over rows and tokens, a mean over all tokens."""
    total, count = 0.0, 0
    for row in range(len(old)):
        tokens = [t for t in range(len(old[row])) if mask[row][t]]
        mean = sum(new[row][t] - old[row][t] for t in tokens) / len(tokens)
        high = 1 + LOW + (HIGH - LOW) * rarity[row][0]
        for t in tokens:
            ratio, a = math.exp(mean if by_sequence else new[row][t] - old[row][t]), advantage[row][t]
            loss = max(-a * ratio, -a * min(max(ratio, 1 - LOW), high))
            if a < 0 and not by_sequence:
                loss = min(loss, -a * DUAL)
            total, count = total + loss, count + 1
    return total / count


@pytest.mark.parametrize(
    ("successes", "bound"),
    [(1, 0.28), (2, 0.268571), (3, 0.257143), (4, 0.245714), (5, 0.234286), (6, 0.222857), (7, 0.211429), (8, 0.2)],
)
def test_oracle(successes, bound):
    rows = GivenRows({})
    advantages({"p": [1.0] * successes + [0.0] * (8 - successes)}, {"gapo": {}}, rows=rows)
    rarity = rows.fields[LOSS_FIELD]
    assert rarity.shape == (8, 1) and len(rarity.unique()) == 1
    assert LOW + (HIGH - LOW) * rarity[0].item() == pytest.approx(bound, abs=1e-6)
    assert 3e-3 + 2e-3 * rarity[0].item() == pytest.approx(3e-3 + 2e-3 * (8 - successes) / 7, abs=1e-9)


def test_the_rarity_knows_groups_and_rows_that_do_not_count():
    rows = GivenRows({})
    advantages({"a": [1.0, 0.0, float("nan")], "b": [0.0, 0.0], "c": [1.0]}, {"gapo": {}}, rows=rows)
    # c of a is 1 of 2; b has no success, which counts as 1; c is alone.
    assert rows.fields[LOSS_FIELD].flatten().tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40)
def test_value_and_gradient_against_loops(seed, by_sequence):
    old, new, advantage, mask, rarity = batch(seed)
    old, advantage, mask, rarity = (x.double() for x in (old, advantage, mask, rarity))
    new = new.detach().double().requires_grad_()
    loss_of = gapo_sequence_loss if by_sequence else gapo_loss
    loss, _ = loss_of(old, new, advantage, mask, "token-mean", actor(), rarity)
    plain = [x.detach().tolist() for x in (old, new, advantage, mask, rarity)]
    assert loss.item() == pytest.approx(explicit(*plain, by_sequence), rel=1e-9)
    loss.backward()
    if by_sequence:  # the gradient of a row's ratio goes through each of its tokens once, weighted alike
        return
    step = 1e-6
    for row, t in ((0, 0), (1, 2), (3, 4)):
        shifted = []
        for sign in (1, -1):
            moved = new.detach().clone()
            moved[row, t] += sign * step
            shifted.append(explicit(plain[0], moved.tolist(), *plain[2:]))
        assert new.grad[row, t].item() == pytest.approx((shifted[0] - shifted[1]) / (2 * step), abs=1e-5)


@pytest.mark.parametrize(("successes", "moves"), [(1, True), (3, True), (4, False), (7, False)])
def test_at_a_ratio_of_1_25_only_rare_successes_still_move(successes, moves):
    old = torch.zeros(1, 1)
    new = torch.full((1, 1), math.log(1.25), requires_grad=True)
    rarity = torch.full((1, 1), (8 - successes) / 7)
    loss, metrics = gapo_loss(old, new, torch.ones(1, 1), torch.ones(1, 1), "token-mean", actor(), rarity)
    loss.backward()
    assert (new.grad.item() != 0) == moves
    assert metrics["actor/gapo_hit"] == float(not moves)
    assert metrics["actor/gapo_eps_max"] == pytest.approx(LOW + (HIGH - LOW) * (8 - successes) / 7)


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_equal_bounds_are_verls_own_losses_to_the_bit(seed):
    config = actor(clip_ratio_low=0.2, clip_ratio_high=0.2)
    for ours, verls in (
        (gapo_loss, core_algos.compute_policy_loss_vanilla),
        (gapo_sequence_loss, core_algos.compute_policy_loss_gspo),
    ):
        results = []
        for loss_of, extra in ((ours, True), (verls, False)):
            old, new, advantage, mask, rarity = batch(seed)
            loss, metrics = loss_of(old, new, advantage, mask, "token-mean", config, rarity if extra else None)
            loss.backward()
            results.append((loss.detach(), new.grad, metrics))
        assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
        for name, value in results[1][2].items():
            assert results[0][2].get(name, 0.0) == pytest.approx(value, abs=1e-6), name


def test_sharded_is_unsharded():
    """Each rank's loss, scaled by the global counts, sums to the whole (verl averages over ranks)."""
    old, new, advantage, mask, rarity = batch(3)
    whole, _ = gapo_loss(old, new, advantage, mask, "token-mean", actor(), rarity)
    config = actor()
    config.global_batch_info.update(dp_size=2, batch_num_tokens=mask.sum(), global_batch_size=4, loss_scale_factor=None)
    parts = [
        gapo_loss(old[s], new[s], advantage[s], mask[s], "token-mean", config, rarity[s])[0]
        for s in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(sum(parts) / 2, whole)


def test_the_bound_by_advantage_is_the_bound_by_count_for_verdicts():
    k, config = 8, actor()
    for successes in range(1, k):
        old, new, _, mask, _ = batch(successes)
        a = torch.full_like(old, (k - successes) / k)
        by_count = gapo_loss(old, new, a, mask, "token-mean", config, torch.full((4, 1), (k - successes) / (k - 1)))
        by_advantage = gapo_loss(old, new, a, mask, "token-mean", config)
        torch.testing.assert_close(by_count[0], by_advantage[0])


def test_both_losses_are_registered_with_verl():
    for name in ("subgroup_gapo", "subgroup_gapo_seq"):
        assert core_algos.get_policy_loss_fn(name).__module__ == "subgroup_offset.methods.gapo"


def test_an_unknown_bound_is_refused():
    with pytest.raises(ConfigError, match=r"gapo\.bound='counts' is unknown"):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"gapo": {"bound": "counts"}}}})
    assert bool(torch.isfinite(advantages({"p": [1.0, 0.0]}, {"gapo": {"bound": "advantage"}})).all())

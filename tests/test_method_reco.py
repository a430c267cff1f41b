"""ReCo: weights by expected occurrence, and a loss with the ratio of variances."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages, step_metrics
from test_method_gapo import actor, batch
from verl.trainer.ppo import core_algos

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.methods.reco import reco_loss, variance_ratio

PI = [0.9, 0.9, 0.5, 0.5, 0.5, 0.25, 0.25, 0.1]
R = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


def rows(probabilities: list[float], width: int = 3) -> dict:
    """Rows whose tokens' geometric mean is as given."""
    spread = torch.tensor([0.5, 1.0, 1.5])[:width]
    return {"old_log_probs": torch.tensor(probabilities, dtype=torch.float64).log()[:, None] * spread}


def weights(method: dict, fields: dict, rewards=R) -> list[float]:
    plain = advantages({"p": rewards})[:, 0]
    return (advantages({"p": rewards}, {"reco": method}, rows=fields)[:, 0] / plain).tolist()


def test_oracle():
    soft = [0.485735] * 2 + [0.787971] * 3 + [1.289406] * 2 + [2.085805]
    assert weights({}, rows(PI)) == pytest.approx(soft, rel=1e-5)
    capped = [0.338983] * 2 + [0.610169] * 3 + [1.220339] * 2 + [3.050847]
    assert weights({"cap": 5}, rows(PI)) == pytest.approx(capped, rel=1e-5)


@settings(max_examples=50)
@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=9), st.sampled_from(["mean", "exact"]))
def test_against_the_formula(probabilities, probability):
    rewards = [float(i % 2) for i in range(len(probabilities))]
    pi = probabilities if probability == "mean" else [p**3 for p in probabilities]
    raw = [1 / (1 + (len(pi) - 1) * p) for p in pi]
    expected = [w / fmean(raw) for w in raw]
    assert weights({"probability": probability}, rows(probabilities), rewards) == pytest.approx(expected, rel=1e-4)
    assert fmean(expected) == pytest.approx(1)


@pytest.mark.parametrize("method", [{}, {"cap": 5}, {"probability": "exact"}])
def test_equal_probabilities_are_grpo_to_the_bit(method):
    found = advantages({"p": R}, {"reco": method}, rows=rows([0.3] * 8))
    assert torch.equal(found, advantages({"p": R}))


def test_equal_responses_share_a_weight():
    texts = [[1, 2], [1, 2], [1, 2], [3], [4], [5], [6], [7]]
    raw = [1 / 3] * 3 + [1] * 5
    found = weights({"probability": "duplicates"}, {"responses": texts})
    assert found == pytest.approx([w / fmean(raw) for w in raw], rel=1e-5)


def test_a_log_probability_that_is_not_finite_weighs_1_before_the_mean():
    step_metrics()
    fields = rows(PI)
    fields["old_log_probs"][7, 1] = math.nan
    raw = [1 / (1 + 7 * p) for p in PI[:7]] + [1]
    assert weights({}, fields) == pytest.approx([w / fmean(raw) for w in raw], rel=1e-5)
    logged = step_metrics()
    assert logged["reco/weight_max"] == pytest.approx(1 / fmean(raw), rel=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "ratio"),
    [(0.9, 0.95, 0.527778), (0.5, 0.6, 0.96), (0.1, 0.05, 0.527778), (0.99, 0.9, 9.090909), (1.0, 1.0, 1.0)],
)
def test_the_ratio_of_variances(old, new, ratio):
    logs = (torch.tensor([[value]], dtype=torch.float64).log() for value in (old, new))
    assert variance_ratio(*logs).item() == pytest.approx(ratio, rel=1e-5)


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_the_first_update_is_verls_own(seed):
    """Where old and new are one, both gradients are -A times that of log pi."""
    config = actor()
    grads = []
    for loss_of in (reco_loss, core_algos.compute_policy_loss_vanilla):
        old, _, advantage, mask, _ = batch(seed)
        new = old.clone().requires_grad_()
        loss_of(old, new, advantage, mask, "token-mean", config)[0].backward()
        grads.append(new.grad)
    torch.testing.assert_close(*grads)


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_the_gradient_against_loops(seed):
    config = actor()
    old, new, advantage, mask, _ = batch(seed)
    old = old.clamp(max=-0.01)
    new = new.detach().clamp(max=-0.01).requires_grad_()
    reco_loss(old, new, advantage, mask, "token-mean", config)[0].backward()
    tokens = mask.sum().item()
    for row in range(old.shape[0]):
        for t in range(old.shape[1]):
            p, p_old, a = math.exp(new[row, t].item()), math.exp(old[row, t]), advantage[row, t].item()
            v = p * (1 - p) / (p_old * (1 - p_old))
            free, held = a * v, a * min(max(v, 0.8), 1.28)
            expected = -a * v / tokens if mask[row, t] and free <= held else 0.0
            assert new.grad[row, t].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_loss_is_registered_with_verl():
    assert core_algos.get_policy_loss_fn("subgroup_reco") is reco_loss


def test_sharded_is_unsharded():
    old, new, advantage, mask, _ = batch(3)
    whole, _ = reco_loss(old, new, advantage, mask, "token-mean", actor())
    config = actor()
    config.global_batch_info.update(dp_size=2, batch_num_tokens=mask.sum(), global_batch_size=4, loss_scale_factor=None)
    parts = [reco_loss(old[s], new[s], advantage[s], mask[s], "token-mean", config)[0] for s in (slice(2), slice(2, 4))]
    torch.testing.assert_close(sum(parts) / 2, whole)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"occurrence": False}, r"reco\.occurrence and .*reco\.variance are both false"),
        ({"cap": 0}, r"reco\.cap=0 is not above 0"),
        ({"probability": "median"}, r"reco\.probability='median' is unknown"),
        ({"variance": 1}, r"reco\.variance=1 is neither true nor false"),
    ],
)
def test_refusals(method, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"reco": method}}})


def test_the_variance_part_and_gapo_share_the_loss():
    section = {"subgroup": {"method": {"reco": {"variance": True}, "gapo": {}}}}
    with pytest.raises(ConfigError, match=r"method\.gapo and .*method\.reco cannot be used together, .* the loss"):
        SubgroupConfig.from_algorithm(section)

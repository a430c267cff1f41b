"""OC-GRPO: the weights, what is exactly 1, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_cases import advantages, step_metrics
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.workers.config import FSDPActorConfig

from subgroup_offset.config import ConfigError, SubgroupConfig

ROWS, WIDTH = 8, 5
GROUPS = {"p": [[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]}
MASK = torch.tensor([[1.0] * n + [0.0] * (WIDTH - n) for n in (5, 4, 3, 5, 1, 2, 5, 4)])


def fields(differences, guided=None) -> dict:
    """Rows whose log pi(y | plain) less log pi(y | sampled) are the differences (B, T)."""
    old = torch.as_tensor(differences, dtype=torch.float64) - 1.0
    return {
        "old_log_probs": old,
        "rollout_log_probs": torch.full_like(old, -1.0),
        "sgo_guided": [1] * ROWS if guided is None else guided,
    }


def weights(differences, guided=None, **settings) -> torch.Tensor:
    """(B, T) the advantages over those without weights, where these are not 0."""
    plain = advantages(GROUPS, mask=MASK)
    assert bool((plain[MASK > 0] != 0).all())
    weighted = advantages(GROUPS, {"oc_grpo": settings}, mask=MASK, rows=fields(differences, guided))
    return torch.where(MASK > 0, weighted / plain, 1.0)


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [(1.0, [0.01, 0.135335, 0.606531, 1.0, 1.0]), (0.5, [0.049787, 0.367879, 0.778801, 1.0, 1.0])],
)
def test_oracle(gamma, expected):
    row = torch.tensor([-6.0, -2.0, -0.5, 0.0, 0.7])
    np.testing.assert_allclose(weights(row.expand(ROWS, WIDTH), gamma=gamma)[0], expected, rtol=1e-5)


@given(
    st.lists(st.floats(-30, 30), min_size=ROWS * WIDTH, max_size=ROWS * WIDTH),
    st.sampled_from(["token", "mean", "sequence"]),
    st.floats(0, 2),
)
def test_against_a_loop(flat, level, gamma):
    differences = np.array(flat).reshape(ROWS, WIDTH)
    found = weights(differences, level=level, gamma=gamma, cap=1.5).numpy()
    for row in range(ROWS):
        tokens = int(MASK[row].sum())
        row_differences = differences[row, :tokens]
        of_row = {"mean": row_differences.mean(), "sequence": row_differences.sum()}.get(level)
        for t in range(tokens):
            exponent = gamma * (row_differences[t] if of_row is None else of_row)
            assert found[row, t] == pytest.approx(min(1.5, max(0.01, math.exp(exponent))), rel=2e-5)


def test_unguided_rows_weigh_exactly_1_and_tell_the_engine_gap():
    guided = [1, 1, 1, 1, 0, 0, 0, 0]
    step_metrics()
    found = weights(np.full((ROWS, WIDTH), -0.25), guided)
    assert bool((found[4:] == 1).all())
    assert found[0, 0].item() == pytest.approx(math.exp(-0.25), rel=1e-5)
    logged = step_metrics()
    assert logged["oc/engine_gap"] == pytest.approx(0.25)
    assert logged["oc/weight_mean"] == pytest.approx(math.exp(-0.25))
    assert logged["oc/share_at_floor"] == logged["oc/nonfinite_tokens_count"] == 0


@pytest.mark.parametrize("settings", [{"gamma": 0.0}, {"tolerance": float("inf")}])
def test_neutral_settings_give_grpo_to_the_bit(settings):
    rows = fields(np.linspace(-3, 3, ROWS * WIDTH).reshape(ROWS, WIDTH))
    assert torch.equal(advantages(GROUPS, {"oc_grpo": settings}, mask=MASK, rows=rows), advantages(GROUPS, mask=MASK))


def test_a_log_probability_that_is_not_finite_weighs_1_and_is_counted():
    differences = np.zeros((ROWS, WIDTH))
    differences[0, 1], differences[1, 0] = np.inf, np.nan
    step_metrics()
    assert bool((weights(differences) == 1).all())
    assert step_metrics()["oc/nonfinite_tokens_count"] == 2


def test_normalized_weights_have_mean_1():
    found = weights(np.linspace(-3, 0, ROWS * WIDTH).reshape(ROWS, WIDTH), normalize="batch")
    assert found[MASK > 0].double().mean().item() == pytest.approx(1.0, rel=1e-5)


def test_at_floor_0_they_are_verls_own_truncated_weights():
    """``rollout_is: token`` with threshold 1 is the same rule without floor, exponent and unguided rows."""
    differences = torch.linspace(-4, 2, ROWS * WIDTH, dtype=torch.float64).view(ROWS, WIDTH)
    verls, _ = compute_rollout_correction_weights(differences, MASK, rollout_is="token", rollout_is_threshold=1.0)
    ours = weights(differences, floor=1e-9)
    torch.testing.assert_close(ours[MASK > 0], verls[MASK > 0].float(), rtol=1e-5, atol=0)


@given(st.integers(0, 2**31 - 1))
def test_a_weight_on_the_advantage_is_a_weight_on_the_loss(seed):
    """Dual clip included: the loss is homogeneous in |A|."""
    torch.manual_seed(seed)
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=4, ppo_mini_batch_size=2, ppo_micro_batch_size_per_gpu=2, clip_ratio_c=3.0
    )
    old, new = torch.randn(3, 4) * 2, torch.randn(3, 4) * 2
    advantage, weight = torch.randn(3, 4), torch.rand(3, 4).clamp(min=0.01)
    mask = torch.ones(3, 4)
    on_advantage, _ = compute_policy_loss_vanilla(old, new, advantage * weight, mask, "token-mean", config)
    on_loss, _ = compute_policy_loss_vanilla(old, new, advantage, mask, "token-mean", config, rollout_is_weights=weight)
    torch.testing.assert_close(on_advantage, on_loss)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"floor": 0}, r"floor=0 and .*cap=1.0 do not have 1"),
        ({"cap": 0.5}, r"cap=0.5 do not have 1"),
        ({"gamma": -1}, r"gamma=-1 is negative"),
        ({"level": "word"}, r"level='word' is unknown"),
        ({"normalize": True}, r"normalize=True is unknown"),
        ({"tolerance": -1}, r"tolerance=-1 is negative"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"oc_grpo": settings}}})


def test_rows_without_the_fields_are_an_error_that_names_the_switch():
    rows = fields(np.zeros((ROWS, WIDTH)))
    del rows["rollout_log_probs"]
    with pytest.raises(ConfigError, match=r"no rollout_log_probs: set .*calculate_log_probs=True"):
        advantages(GROUPS, {"oc_grpo": {}}, mask=MASK, rows=rows)

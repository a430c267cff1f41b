"""RCC: the optimal baseline, linear and exact."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages, step_metrics

from subgroup_offset.config import ConfigError, SubgroupConfig

R = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
D = [0.3, 0.1, -0.1, 0.0, 0.05, 0.15, -0.2, 0.1]


def rows(shifts: list[float], width: int = 3) -> dict:
    """Rows whose mean shift is as given, spread unevenly over their tokens."""
    spread = torch.tensor([0.5, 1.0, 1.5])[:width]
    old = torch.tensor(shifts, dtype=torch.float64)[:, None] * spread - 1
    return {"old_log_probs": old, "ref_log_prob": torch.full_like(old, -1.0)}


def found(method: dict, shifts=D, rewards=R, **subgroup) -> list[float]:
    return advantages({"p": rewards}, {"rcc": method}, rows=rows(shifts), **subgroup)[:, 0].tolist()


def test_oracle():
    expected = [0.664286] * 2 + [-0.335714] * 6
    assert found({}, std="none") == pytest.approx(expected, abs=1e-6)
    exact = found({"form": "exact"}, std="none")
    assert exact == pytest.approx([1 - 0.330494] * 2 + [-0.330494] * 6, abs=1e-6)
    # The sum over three tokens is three times the mean, and so is the linear correction.
    summed = found({"shift": "sum"}, std="none")
    assert summed[0] == pytest.approx(1 - (0.25 + 3 * (0.335714 - 0.25)), abs=1e-5)


def test_no_shift_is_grpo_to_the_bit():
    for method in ({}, {"form": "exact"}, {"shift": "sum"}):
        assert found(method, [0.3] * 8) == advantages({"p": R})[:, 0].tolist()


SHIFTED = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-2, 2)), min_size=2, max_size=10)


@settings(max_examples=50)
@given(SHIFTED, st.sampled_from(["linear", "exact"]), st.booleans())
def test_against_the_formula(pairs, form, clamp):
    rewards, shifts = map(list, zip(*pairs, strict=True))
    k, mean = len(rewards), fmean(rewards)
    if form == "linear":
        d = fmean(shifts)
        b = mean + 2 * sum((r - mean) * (s - d) for r, s in pairs) / (k - 1)
    else:
        weights = [math.exp(2 * s) for s in shifts]
        b = sum(w * r for w, r in zip(weights, rewards, strict=True)) / sum(weights)
    if clamp:
        b = min(max(b, min(rewards)), max(rewards))
    expected = [0.0] * k if min(rewards) == max(rewards) else [(r - b) / (stdev(rewards) + 1e-6) for r in rewards]
    assert found({"form": form, "clamp": clamp}, shifts, rewards) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_group_no_longer_sums_to_0_but_to_the_covariance():
    covariance = (0.335714 - 0.25) / 2
    assert sum(found({})) == pytest.approx(-2 * 8 * covariance / (stdev(R) + 1e-6), rel=1e-4)


def test_lam_goes_on_top():
    group = [R[:4], R[4:]]
    both = advantages({"p": group}, {"rcc": {}}, rows=rows(D), lam=0.3, std="none")[:, 0]
    alone = advantages({"p": group}, {"rcc": {}}, rows=rows(D), std="none")[:, 0]
    torch.testing.assert_close(both - alone, torch.tensor([-0.3 * 0.25] * 4 + [0.3 * 0.25] * 4))


def test_a_rollout_without_a_shift_is_left_out_of_the_covariance():
    step_metrics()
    with_gap = found({}, [*D[:7], math.nan], std="none")
    b = 1 - with_gap[0]
    mean, d = fmean(R[:7]), fmean(D[:7])
    assert b == pytest.approx(0.25 + 2 * sum((r - mean) * (s - d) for r, s in zip(R[:7], D[:7], strict=True)) / 6, 1e-6)
    assert with_gap[7] == pytest.approx(-b)
    assert step_metrics()["rcc/rows_without_shift"] == 1


@pytest.mark.parametrize("method", [{"shift": "max"}, {"form": "quadratic"}, {"clamp": 1}])
def test_refusals(method):
    with pytest.raises(ConfigError, match=rf"rcc\.{next(iter(method))}="):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"rcc": method}}})

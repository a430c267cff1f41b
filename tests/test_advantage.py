"""The maths: the paper's numbers, and its identities."""

import math

import pytest
import torch
from advantage_cases import FLOATS, LAMBDAS, OFFSETS, QUARTERS, Rows, batches, close, paper_case, run
from hypothesis import assume, given
from hypothesis import strategies as st

from subgroup_offset.advantage import subgroup_advantages

# For each lambda of Table 2 and each strategy the advantage of a (success, failure): (r - 11/32 - lam * offset)
# / (sqrt(231/992) + 1e-6), worked out in exact fractions apart from this code.
ADVANTAGES = {
    -0.7: [(1.9492407, -0.1230418), (1.5865912, -0.4856912), (1.0426171, -1.0296653), (0.8612924, -1.2109900)],
    -0.5: [(1.7808677, -0.2914147), (1.5218324, -0.5504500), (1.1332795, -0.9390030), (1.0037618, -1.0685206)],
    -0.3: [(1.6124948, -0.4597877), (1.4570736, -0.6152088), (1.2239418, -0.8483406), (1.1462312, -0.9260512)],
    0.0: [(1.3599353, -0.7123471), (1.3599353, -0.7123471), (1.3599353, -0.7123471), (1.3599353, -0.7123471)],
    0.3: [(1.1073759, -0.9649065), (1.2627971, -0.8094853), (1.4959289, -0.5763536), (1.5736395, -0.4986430)],
    0.5: [(0.9390030, -1.1332795), (1.1980383, -0.8742442), (1.5865912, -0.4856912), (1.7161089, -0.3561735)],
    0.7: [(0.7706300, -1.3016524), (1.1332795, -0.9390030), (1.6772536, -0.3950288), (1.8585783, -0.2137041)],
}


def sums(values: torch.Tensor, keys: list) -> dict:
    totals: dict = {}
    for key, value in zip(keys, values.tolist(), strict=True):
        totals[key] = totals.get(key, 0.0) + value
    return totals


@pytest.mark.parametrize("lam", sorted(ADVANTAGES))
def test_the_papers_case(lam):
    rows = paper_case()
    result = run(rows, lam)
    assert result.offsets.tolist() == [OFFSETS[k] for k in rows.subgroups]
    assert result.group_mean.tolist() == [0.34375] * 32
    expected = [ADVANTAGES[lam][k][0 if r else 1] for k, r in zip(rows.subgroups, rows.rewards.tolist(), strict=True)]
    torch.testing.assert_close(result.advantages, torch.tensor(expected), rtol=0, atol=3e-7)
    baseline = torch.tensor([0.34375 + lam * OFFSETS[k] for k in rows.subgroups])
    torch.testing.assert_close(result.baseline, baseline, rtol=0, atol=1e-7)
    assert all(getattr(result, name).dtype == torch.float32 for name in FLOATS)


@pytest.mark.parametrize(
    ("std", "sigma"),
    [("sample", math.sqrt(231 / 992) + 1e-6), ("population", math.sqrt(231 / 1024) + 1e-6), ("none", 1.0)],
)
def test_standard_deviations(std, sigma):
    result = run(paper_case(), 0.3, std=std)
    assert result.advantages[0].item() == pytest.approx((1 - 0.34375 - 0.3 * 0.40625) / sigma, rel=1e-6)
    assert result.offset_term[0].item() == pytest.approx(0.3 * 0.40625 / sigma, rel=1e-6)


@given(batches(), LAMBDAS)
def test_eq_7_equals_eq_9(rows, lam):
    """(1 - lam) * A_glob + lam * A_loc, with A_loc worked out here from the definition in Eq. (8)."""
    result = run(rows, lam)
    pairs = list(zip(rows.prompts, rows.subgroups, strict=True))
    totals, sizes = sums(rows.rewards, pairs), sums(torch.ones(len(pairs)), pairs)
    own_mean = torch.tensor([totals[pair] / sizes[pair] for pair in pairs], dtype=torch.float64)
    local = (rows.rewards - own_mean) / (result.group_std.double() + 1e-6)
    local = torch.where(result.constant, 0.0, local)
    close(result.advantages, (1 - lam) * result.global_advantages + lam * local)
    close(result.advantages, result.global_advantages - result.offset_term)


@given(batches(), LAMBDAS)
def test_group_sums_are_zero(rows, lam):
    result = run(rows, lam)
    for total in (sums(result.advantages, rows.prompts), sums(result.offsets, rows.prompts)):
        assert all(abs(value) < 1e-4 for value in total.values())


@given(batches())
def test_lam_1_centres_every_subgroup(rows):
    totals = sums(run(rows, 1.0).advantages, list(zip(rows.prompts, rows.subgroups, strict=True)))
    assert all(abs(value) < 1e-4 for value in totals.values())


@given(st.lists(QUARTERS, min_size=2, max_size=16), st.floats(0, 1))
def test_two_halves_mix_own_and_other_mean(rewards, c):
    """K = 2 subgroups of equal size, no division: A = c (r - mean_other) + (1 - c) (r - mean_own), lam = 1 - 2c."""
    half = len(rewards) // 2
    values = torch.tensor(rewards[: 2 * half], dtype=torch.float64)
    assume(values.max() > values.min())
    first, second = values[:half], values[half:]
    expected = [c * (r - second.mean()) + (1 - c) * (r - first.mean()) for r in first]
    expected += [c * (r - first.mean()) + (1 - c) * (r - second.mean()) for r in second]
    result = subgroup_advantages(values, ["p"] * (2 * half), [0] * half + [1] * half, 1 - 2 * c, std="none")
    close(result.advantages, torch.stack(expected))


@given(batches(), LAMBDAS, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(rows, lam, random):
    order = random.sample(range(len(rows.prompts)), len(rows.prompts))
    shuffled = Rows(rows.rewards[order], [rows.prompts[i] for i in order], [rows.subgroups[i] for i in order])
    for name in FLOATS:
        close(getattr(run(shuffled, lam, shuffle_seed=3), name), getattr(run(rows, lam, shuffle_seed=3), name)[order])


@given(batches(), LAMBDAS, st.floats(-1000, 1000), st.floats(0.25, 100))
def test_adding_and_scaling_rewards_changes_nothing(rows, lam, added, factor):
    plain = run(rows, lam).advantages
    close(run(rows._replace(rewards=rows.rewards + added), lam).advantages, plain)
    close(run(rows._replace(rewards=rows.rewards * factor), lam).advantages, plain)


def test_a_large_common_reward_loses_no_precision():
    rows = paper_case()
    shifted = rows._replace(rewards=rows.rewards.double() * 1e-4 + 1000.1)
    small = rows._replace(rewards=rows.rewards.double() * 1e-4)
    torch.testing.assert_close(run(shifted, 0.3).advantages, run(small, 0.3).advantages, rtol=1e-6, atol=1e-7)

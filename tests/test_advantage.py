"""The maths: the paper's numbers, its identities, and what must count in no statistic."""

import math
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from subgroup_offset.advantage import SubgroupAdvantages, subgroup_advantages

# The paper's case study (Table 6): successes of four strategies out of 8. Mean 11/32, sample variance 231/992.
SUCCESSES = (6, 4, 1, 0)
OFFSETS = (0.40625, 0.15625, -0.21875, -0.34375)
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
FLOATS = (
    "advantages",
    "global_advantages",
    "offsets",
    "offset_term",
    "group_mean",
    "group_std",
    "baseline",
)


class Rows(NamedTuple):
    rewards: torch.Tensor
    prompts: list
    subgroups: list


def paper_case() -> Rows:
    rows = [(k, float(z < successes)) for k, successes in enumerate(SUCCESSES) for z in range(8)]
    return Rows(torch.tensor([r for _, r in rows]), ["p"] * 32, [k for k, _ in rows])


# Quarters: exact in float32, so that what is compared is the estimator and not the rounding of its input.
QUARTERS = st.integers(-12, 12).map(lambda n: n / 4)
LAMBDAS = st.floats(-1, 1, allow_nan=False)


@st.composite
def batches(draw, rewards=QUARTERS) -> Rows:
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), rewards), min_size=1, max_size=40))
    prompts, subgroups, values = zip(*rows, strict=True)
    return Rows(torch.tensor(values, dtype=torch.float64), list(prompts), list(subgroups))


def run(rows: Rows, lam: float, **kwargs) -> SubgroupAdvantages:
    return subgroup_advantages(rows.rewards, rows.prompts, rows.subgroups, lam, **kwargs)


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=tolerance, atol=tolerance)


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


def test_the_same_subgroup_id_under_two_prompts_is_two_subgroups():
    result = subgroup_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), ["a", "a", "b", "b"], [0, 1, 0, 1], 0.5)
    assert result.offsets.tolist() == [0.5, -0.5, -0.5, 0.5]


def test_ids_may_be_any_hashables_or_tensors():
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])
    expected = subgroup_advantages(rewards, [0, 0, 1, 1, 1], [0, 1, 0, 0, 2], 0.3)
    prompts = torch.tensor([0, 0, 1, 1, 1])
    for group, subgroup in (
        (prompts, torch.tensor([0, 1, 0, 0, 2])),
        ([("a", 1), ("a", 1), None, None, None], ["x", "y", "x", "x", 3.5]),
        (prompts.numpy(), ["0", "1", "0", "0", "2"]),
    ):
        assert torch.equal(subgroup_advantages(rewards, group, subgroup, 0.3).advantages, expected.advantages)


def test_shuffling_permutes_offsets_and_keeps_none_in_place():
    rows = paper_case()
    plain = run(rows, -0.3)
    seen = set()
    for seed in range(40):
        result = run(rows, -0.3, shuffle_seed=seed)
        assigned = result.offsets[::8].tolist()
        assert sorted(assigned) == sorted(OFFSETS)
        assert all(a != b for a, b in zip(assigned, OFFSETS, strict=True))
        assert result.offsets.tolist() == [assigned[k] for k in rows.subgroups]
        assert torch.equal(result.global_advantages, plain.global_advantages)
        close(result.advantages, result.global_advantages + 0.3 * result.offsets / (plain.group_std + 1e-6), 1e-6)
        seen.add(tuple(assigned))
    assert len(seen) == 6  # (4 - 1)! rings


@given(batches(), st.integers(0, 5))
def test_shuffling_is_the_same_whatever_else_is_in_the_batch(rows, seed):
    everything = run(rows, 0.3, shuffle_seed=seed).offsets
    only = [i for i, prompt in enumerate(rows.prompts) if prompt == rows.prompts[-1]][::-1]
    alone = Rows(rows.rewards[only], [rows.prompts[i] for i in only], [rows.subgroups[i] for i in only])
    close(run(alone, 0.3, shuffle_seed=seed).offsets, everything[only], 1e-6)


def test_shuffling_is_the_same_in_every_process():
    code = (
        "import torch; from subgroup_offset.advantage import subgroup_advantages as f;"
        "print(f(torch.arange(8.), ['p'] * 8, list('abcdefgh'), 1.0, shuffle_seed=1).offsets.tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    }
    assert len(outputs) == 1


def test_one_subgroup_keeps_its_offset_when_shuffled():
    result = subgroup_advantages(torch.tensor([1.0, 0.0]), ["p", "p"], ["only", "only"], 0.5, shuffle_seed=0)
    assert result.offsets.tolist() == [0, 0]
    assert result.advantages[0] == -result.advantages[1] > 0


@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_empty_batch(shuffle_seed):
    result = subgroup_advantages(torch.zeros(0), [], [], 0.3, shuffle_seed=shuffle_seed)
    assert all(getattr(result, name).shape == (0,) for name in FLOATS)


def test_results_need_no_gradient():
    rewards = torch.tensor([0.0, 1.0], requires_grad=True)
    assert not subgroup_advantages(rewards, [0, 0], [0, 1], 0.3).advantages.requires_grad


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rewards": torch.zeros(2, 1)}, r"rewards must have shape \(B,\)"),
        ({"prompt_ids": ["p"]}, "prompt_ids must have one id per row: got 1 ids for 2"),
        ({"subgroup_ids": torch.zeros(2, 1)}, "subgroup_ids must be one id per row"),
        ({"std": "robust"}, "std must be one of sample, population, none, got 'robust'"),
        ({"lam": math.nan}, "lam must be a finite number, got nan"),
        ({"valid": torch.ones(3, dtype=torch.bool)}, "valid must have the shape of rewards"),
    ],
)
def test_errors_name_the_argument(change, match):
    arguments = {"rewards": torch.zeros(2), "prompt_ids": ["p", "p"], "subgroup_ids": [0, 1], "lam": 0.3, **change}
    with pytest.raises(ValueError, match=match):
        subgroup_advantages(**arguments)


def test_integer_rewards_are_refused():
    with pytest.raises(TypeError, match=r"rewards must be a floating-point tensor.*rewards\.float"):
        subgroup_advantages(torch.zeros(2, dtype=torch.int64), [0, 0], [0, 1], 0.3)


def test_the_module_needs_torch_only():
    code = (
        "import sys, subgroup_offset.advantage;"
        "print([m for m in ('verl', 'ray', 'vllm', 'hydra', 'omegaconf') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert output.strip() == "[]"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_a_device_gives_what_the_cpu_gives(shuffle_seed):
    rows = paper_case()
    on_device = run(rows._replace(rewards=rows.rewards.cuda()), -0.3, shuffle_seed=shuffle_seed)
    for name in FLOATS:
        assert getattr(on_device, name).is_cuda
        close(getattr(on_device, name).cpu(), getattr(run(rows, -0.3, shuffle_seed=shuffle_seed), name), 1e-6)

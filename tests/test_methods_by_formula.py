"""Methods that read rewards and verdicts alone: oracles, and each against its formula in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, stdev, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from method_cases import advantages, step_metrics

from subgroup_offset.config import ConfigError, SubgroupConfig

K = 8


def verdicts(successes: int) -> list[float]:
    return [1.0] * successes + [0.0] * (K - successes)


def first_and_last(successes: int, method: dict) -> tuple[float, float]:
    column = advantages({"p": verdicts(successes)}, method)[:, 0].tolist()
    return column[0], column[-1]


ORACLES = [
    ({"signbalance": {}}, 1, (1.0, -0.142857)),
    ({"signbalance": {}}, 2, (1.0, -0.333333)),
    ({"signbalance": {}}, 4, (1.0, -1.0)),
    ({"signbalance": {}}, 6, (1.0, -3.0)),
    ({"signbalance": {}}, 7, (1.0, -7.0)),
    ({"signbalance": {"max_negative": 2.0}}, 7, (1.0, -2.0)),
    ({"signbalance": {"mode": "sign"}}, 2, (1.0, -1.0)),
    ({"signbalance": {"mode": "sign", "magnitude": 0.5}}, 7, (0.5, -0.5)),
    ({"signbalance": {"mode": "per_class"}}, 2, (2.0, -2 / 3)),
    ({"rloo": {}}, 2, (0.857143, -0.285714)),
    ({"maxrl": {}}, 2, (3.0, -1.0)),
    ({"quantile": {}}, 2, (2.160247, 0.0)),
    ({"quantile": {}}, 6, (0.0, -2.160247)),
]


@pytest.mark.parametrize(("method", "successes", "expected"), ORACLES)
def test_oracle(method, successes, expected):
    assert first_and_last(successes, method) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_oracle_of_strata():
    batch = {"p": [[1.0, 1.0, 0.0, 0.0], [0.0] * 4]}
    pure = advantages(batch, {"stratified": {"alpha": 1.0}})[:, 0].tolist()
    assert pure == pytest.approx([0.866025] * 2 + [-0.866025] * 2 + [0.0] * 4, rel=1e-5)
    blend = advantages(batch, {"stratified": {"alpha": 0.8}})[:, 0].tolist()
    assert blend == pytest.approx([1.016857] * 2 + [-0.800833] * 2 + [-0.108012] * 4, rel=1e-5)
    grpo = advantages(batch)[:, 0].tolist()
    assert blend == pytest.approx([0.8 * p + 0.2 * g for p, g in zip(pure, grpo, strict=True)], rel=1e-5)


def test_oracle_of_the_beta_density():
    step_metrics()
    column = advantages({str(c): verdicts(c) for c in (1, 2, 4, 6)}, {"bnpo": {}})[:, 0].tolist()
    logged = step_metrics()
    assert logged["bnpo/alpha"] == pytest.approx(1.289769, abs=1e-6)
    assert logged["bnpo/beta"] == pytest.approx(1.423508, abs=1e-6)
    for group, (c, weight) in enumerate(zip((1, 2, 4, 6), (0.986602, 0.861520, 0.836782, 0.997873), strict=True)):
        assert column[group * K] == pytest.approx((1 - c / K) * weight, abs=1e-6)
        assert column[group * K + K - 1] == pytest.approx(-c / K * weight, abs=1e-6)


def test_the_beta_density_needs_several_prompts_and_a_spread():
    for batch in ({"a": verdicts(3)}, {"a": verdicts(3), "b": verdicts(3)}, {"a": verdicts(0), "b": verdicts(8)}):
        step_metrics()
        column = advantages(batch, {"bnpo": {}})[:, 0].tolist()
        logged = step_metrics()
        assert logged["bnpo/alpha"] == logged["bnpo/beta"] == 1.0
        plain = advantages(batch, std="none")[:, 0].tolist()
        assert column == pytest.approx(plain, abs=1e-6)


def test_solved_prompts_can_be_reinforced():
    batch = {"solved": verdicts(8), "failed": verdicts(0), "mixed": verdicts(4)}
    step_metrics()
    column = advantages(batch, {"signbalance": {"solved": "positive", "magnitude": 2.0}})[:, 0].tolist()
    assert column == [2.0] * 8 + [0.0] * 8 + [2.0] * 4 + [-2.0] * 4
    assert step_metrics()["signbalance/rows_solved"] == 8
    assert advantages(batch, {"signbalance": {}})[:16].abs().max() == 0


def test_partial_credit_is_counted_and_only_the_verdict_read():
    step_metrics()
    column = advantages({"p": [1.0, 0.5, 0.0, -1.0], "q": [1.0, 1.0, 0.0, 0.0]}, {"maxrl": {}})[:, 0].tolist()
    assert column == [1.0, 1.0, -1.0, -1.0] * 2
    assert step_metrics()["subgroup/partial_credit_groups"] == 1


# Against the formulas, by loops.

Formula = Callable[[list[float]], list[float]]


def by_sign(group: list[float]) -> list[float]:
    right = sum(r > 0 for r in group)
    wrong = len(group) - right
    return [0.0] * len(group) if not right or not wrong else [1.0 if r > 0 else -right / wrong for r in group]


def by_log_success(group: list[float]) -> list[float]:
    p = fmean(r > 0 for r in group)
    return [((r > 0) - p) / p if 0 < p < 1 else 0.0 for r in group]


def leave_one_out(group: list[float]) -> list[float]:
    if len(group) == 1:
        return [0.0]
    return [r - (sum(group) - r) / (len(group) - 1) for r in group]


def by_quantile(group: list[float]) -> list[float]:
    if min(group) == max(group):
        return [0.0] * len(group)
    ordered = sorted(group)
    b = next(x for i, x in enumerate(ordered) if (i + 1) * 10 >= 4 * len(group))
    return [(r - b) / (stdev(group) + 1e-6) for r in group]


FORMULAS: dict[str, Formula] = {
    "signbalance": by_sign,
    "maxrl": by_log_success,
    "rloo": leave_one_out,
    "quantile": by_quantile,
}
GROUPS = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=1, max_size=12), min_size=1, max_size=5
).map(lambda groups: {str(i): group for i, group in enumerate(groups)})


@pytest.mark.parametrize("name", FORMULAS)
@given(batch=GROUPS)
def test_against_the_formula(name, batch):
    found = advantages(batch, {name: {}})[:, 0].tolist()
    expected = [value for group in batch.values() for value in FORMULAS[name](group)]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@given(batch=GROUPS)
def test_the_beta_density_against_the_formula(batch):
    rates = [fmean(r > 0 for r in group) for group in batch.values()]
    a = b = 0.0
    if len(rates) > 1 and variance(rates) > 1e-15:
        m, v = fmean(rates), variance(rates)
        a, b = (m * (1 - m) / v - 1) * m, (m * (1 - m) / v - 1) * (1 - m)
    alpha, beta = max(1 + a / 3, 1), max(1 + b / 3, 1)
    scale = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)  # two rates may be close: large numbers
    expected = []
    for rate, group in zip(rates, batch.values(), strict=True):
        inside = 0 < rate < 1
        density = math.exp(scale + (alpha - 1) * math.log(rate) + (beta - 1) * math.log(1 - rate)) if inside else 1.0
        expected += [((r > 0) - rate) / density if inside else 0.0 for r in group]
    assert advantages(batch, {"bnpo": {}})[:, 0].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"signbalance": {"magnitude": 0}}, r"signbalance\.magnitude=0 is not above 0"),
        ({"signbalance": {"max_negative": -1}}, r"signbalance\.max_negative=-1 is not above 0"),
        ({"signbalance": {"mode": "signs"}}, r"signbalance\.mode='signs' is unknown"),
        ({"signbalance": {"solved": True}}, r"signbalance\.solved=True is unknown"),
        ({"quantile": {"q": 0}}, r"quantile\.q=0 is no share"),
        ({"stratified": {"alpha": 1.1}}, r"stratified\.alpha=1\.1 is no share"),
        ({"bnpo": {"max_weight": 0}}, r"bnpo\.max_weight=0 is not above 0"),
    ],
)
def test_refusals(method, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": {"method": method}})

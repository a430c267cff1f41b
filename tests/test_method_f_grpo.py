"""F-GRPO: oracle, neutral setting, refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_cases import advantages

from subgroup_offset.config import ConfigError, SubgroupConfig


def verdicts(successes: int, rollouts: int = 8) -> list[float]:
    return [1.0] * successes + [0.0] * (rollouts - successes)


@pytest.mark.parametrize(
    ("successes", "gamma", "right", "wrong"),
    [(2, 1.0, 1.215139, -0.405046), (6, 1.0, 0.135015, -0.405046), (7, 0.5, 0.125, -0.875)],
)
def test_oracle(successes, gamma, right, wrong):
    column = advantages({"p": verdicts(successes)}, {"f_grpo": {"gamma": gamma}})[:, 0]
    assert column[0].item() == pytest.approx(right, rel=1e-5)
    assert column[-1].item() == pytest.approx(wrong, rel=1e-5)


@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=12), min_size=1, max_size=5))
def test_gamma_0_is_grpo_to_the_bit(groups):
    batch = {str(i): rewards for i, rewards in enumerate(groups)}
    assert torch.equal(advantages(batch, {"f_grpo": {"gamma": 0.0}}), advantages(batch))


def test_refusals():
    with pytest.raises(ConfigError, match=r"method\.f_grpo\.gamma=-1 is negative"):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"f_grpo": {"gamma": -1}}}})
    with pytest.raises(ConfigError, match=r"method\.f_grpo\.gama=1 .*did you mean gamma"):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"f_grpo": {"gama": 1}}}})
    with pytest.raises(ConfigError, match=r"method\.f_grp is no known method: did you mean f_grpo"):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"f_grp": {}}}})

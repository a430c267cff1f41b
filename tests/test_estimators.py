"""The estimator as verl calls it: equal to verl's where the method is GRPO, and through verl's own dispatch."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from estimator_calls import (
    estimate,
    fresh_state,  # noqa: F401  autouse
    of,
    paper_rows,
    settings,
    tokens,
)
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from subgroup_offset import estimators
from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS

# Groups of two or more with two different rewards: elsewhere verl's own are not 0 where they should be.
GROUPS = st.lists(
    st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=2, max_size=9).filter(lambda g: len(set(g)) > 1),
    min_size=1,
    max_size=5,
)


@given(GROUPS, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_lam_0_is_verls_own_grpo(groups, labelled, normalised, shuffle):
    rows = [(f"uid-{g}", i, reward) for g, group in enumerate(groups) for i, reward in enumerate(group)]
    shuffle.shuffle(rows)
    uids = [uid for uid, _, _ in rows]
    ids = [RolloutLabel(uid, i % 3, i).encode() for uid, i, _ in rows] if labelled else uids
    rewards = [reward for _, _, reward in rows]
    config = {"norm_adv_by_std_in_grpo": normalised, "subgroup": {"lam": 0.0}}
    token_level, mask = tokens(rewards)
    ours, _ = compute_grpo_subgroup_advantage(token_level, mask, np.array(ids, dtype=object), config=config)
    for verls in (core_algos.compute_grpo_outcome_advantage, core_algos.compute_grpo_vectorized_outcome_advantage):
        theirs, _ = verls(token_level, mask, np.array(uids, dtype=object), norm_adv_by_std_in_grpo=normalised)
        torch.testing.assert_close(ours, theirs, rtol=3e-6, atol=3e-6)


def test_no_config_is_plain_grpo():
    values = estimate(["a", "a", "b", "b"], [1.0, 0.0, 2.0, 5.0])
    half = 1 / math.sqrt(2)
    torch.testing.assert_close(values, torch.tensor([half, -half, -half, half]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("constant", [0.1, 0.9, 1000.1, -1.3])
def test_constant_groups_get_exactly_0_where_verls_do_not(constant):
    ids = [RolloutLabel("p", i % 4, i).encode() for i in range(32)]
    assert (estimate(ids, [constant] * 32, settings(-0.3)) == 0).all()


def test_rewards_are_summed_over_all_tokens():
    token_level = torch.tensor([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 0.0, 0.5]])
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]])
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p", "p"], {"norm_adv_by_std_in_grpo": False})
    assert advantages.tolist() == [[0.25, 0.25, 0, 0], [-0.25, 0, 0, 0]]


class TestInVerl:
    """Through verl's own dispatch, as its trainer calls it."""

    @pytest.mark.parametrize("kind", ["DictConfig", "AlgoConfig"])
    def test_compute_advantage(self, kind):
        estimators.register()
        labels, rewards = paper_rows()
        token_level, mask = tokens(rewards)
        uid = np.array([label.encode() for label in labels], dtype=object)
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask}, non_tensors={"uid": uid}
        )
        config = OmegaConf.create({"adv_estimator": "grpo_subgroup", "lam": 1.0, **settings(-0.3)})
        if kind == "AlgoConfig":
            config = AlgoConfig(adv_estimator="grpo_subgroup")
            expected = of(labels, rewards, 0.0)
        else:
            expected = of(labels, rewards, -0.3)
        data = compute_advantage(data, adv_estimator="grpo_subgroup", config=config)
        assert torch.equal(data.batch["advantages"], expected[:, None] * mask)
        assert torch.equal(data.batch["returns"], data.batch["advantages"])
        assert STEP_METRICS.drain()["subgroup/groups"] == 2

    def test_through_the_v1_trainers_multi_output_path(self):
        estimators.register()
        labels = [RolloutLabel("p", 0, 0, 1), RolloutLabel("p", 1, 1), RolloutLabel("p", 0, 0, 0)]
        token_level, mask = tokens([1.0, 0.0, 0.0])
        uid = np.array([label.encode() for label in labels], dtype=object)
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask}, non_tensors={"uid": uid}
        )
        keys = ["p_0_1", "p_1_0", "p_0_0"]
        config = OmegaConf.create(settings(-0.3))
        data = compute_advantage_for_multi_trajectories(data, keys, "grpo_subgroup", config=config)
        values = data.batch["advantages"][:, 0]
        assert values[0] == values[2] == -values[1] > 0

    def test_registering_twice_changes_nothing(self):
        estimators.register()
        estimators.register()
        assert core_algos.get_adv_estimator_fn("grpo_subgroup") is compute_grpo_subgroup_advantage

    def test_importing_the_module_does_not_import_verl(self):
        code = "import sys, subgroup_offset.estimators; print('verl' in sys.modules, 'ray' in sys.modules)"
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
        assert output.split() == ["False", "False"]

"""Every word for a method with every recipe."""

from __future__ import annotations

import logging
from dataclasses import asdict

import pytest
from test_recipes import METHODS, RECIPES, composed, flat, leaves, read
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.preflight import MANAGER_NAME, findings

# What the paper's rows and ablations set: lam, two stages, shuffled offsets, strategy temperature, selection.
PAPER_METHODS = {
    "grpo": (0.0, False, False, 1.0, "diverse"),
    "strategy_grpo": (0.0, True, False, 1.0, "diverse"),
    "alignment": (0.3, True, False, 1.0, "diverse"),
    "alignment_shuffled": (0.3, True, True, 1.0, "diverse"),
    "alignment_temperature_07": (0.3, True, False, 0.7, "diverse"),
    "alignment_random_selection": (0.3, True, False, 1.0, "random"),
    "contrast": (-0.3, True, False, 1.0, "diverse"),
    "contrast_shuffled": (-0.3, True, True, 1.0, "diverse"),
    "contrast_temperature_07": (-0.3, True, False, 0.7, "diverse"),
    "contrast_random_selection": (-0.3, True, False, 1.0, "random"),
}


#: What a method cannot do without.
NEEDED = {"verigate": ["algorithm.subgroup.method.verigate.url=http://prm:8000"]}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_method_with_every_recipe(recipe, caplog):
    """Each passes verl's checks and ours unwarned, and differs from plain GRPO in the method's keys alone."""
    assert set(PAPER_METHODS) < set(METHODS)
    findings.warn_once.forget()
    base = flat(composed(f"+recipe={recipe}"))
    for method, expected in PAPER_METHODS.items():
        config = composed(f"+recipe={recipe}", f"+subgroup_offset={method}")
        with caplog.at_level(logging.WARNING, logger="subgroup_offset"):
            validate_config(config, need_reference_policy(config), need_critic(config))
        run = read(config)
        manager = run.rollout.agent.agent_loop_manager_class
        strategy = run.subgroup.strategy
        got = (run.subgroup.lam, manager == MANAGER_NAME, run.subgroup.shuffle_offsets)
        assert (*got, strategy.temperature, strategy.selection) == expected
        differing = {key for key, value in flat(config).items() if base.get(key) != value}
        assert {key for key in differing if not key.startswith("algorithm.subgroup.")} <= {
            "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
            "trainer.experiment_name",
            "trainer.default_local_dir",
            "actor_rollout_ref.rollout.trace.experiment_name",
        }
    assert not [record for record in caplog.records if record.name.startswith("subgroup_offset")]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("method", sorted(set(METHODS) - set(PAPER_METHODS)))
def test_every_method_of_the_family_with_a_recipe(recipe, method, caplog):
    """Each passes verl's checks and ours, and what it sets of verl wins over the recipe."""
    config = composed(f"+recipe={recipe}", f"+subgroup_offset={method}", *NEEDED.get(method, ()))
    validate_config(config, need_reference_policy(config), need_critic(config))
    mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    losses = [
        loss for found in SubgroupConfig.from_algorithm(config.algorithm).methods().values() for loss in found.losses
    ]
    assert mode in losses if losses else mode == "vanilla"


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_order_of_recipe_and_method_does_not_matter(recipe):
    command = composed(f"+recipe={recipe}", "+subgroup_offset=contrast")
    assert command == composed("+subgroup_offset=contrast", f"+recipe={recipe}")
    assert command == composed(f"+recipe={recipe}", name="contrast")
    ablation = composed(f"+recipe={recipe}", "subgroup_offset=contrast_shuffled", name="contrast")
    assert ablation == composed(f"+recipe={recipe}", "+subgroup_offset=contrast_shuffled")
    alone, grpo = flat(composed(f"+recipe={recipe}")), flat(composed(f"+recipe={recipe}", "+subgroup_offset=grpo"))
    # What the method adds to a recipe is what it is called; all else of its section are the defaults.
    defaults = {f"algorithm.subgroup.{key}": value for key, value in leaves(asdict(SubgroupConfig())).items()}
    assert grpo == defaults | alone | {"algorithm.subgroup.name": "grpo"}


def test_no_two_runs_share_a_directory():
    """With resume_mode=auto the second would go on from the first one's checkpoint."""
    runs = [(f"+recipe={recipe}", f"+subgroup_offset={method}") for recipe in RECIPES for method in METHODS]
    runs += [(f"+recipe=[{recipe},tis]", "+subgroup_offset=contrast") for recipe in RECIPES]
    runs += [("+recipe=qwen3_8b", "+subgroup_offset=contrast", "algorithm.subgroup.lam=-0.5")]
    names = [composed(*run).trainer.default_local_dir for run in runs]
    assert len(set(names)) == len(runs)
    assert names[-1] == "checkpoints/subgroup_offset/qwen3_8b_contrast_lam-0.5"

"""A contradiction in a run's config is refused by verl's own start-up, before Ray is started."""

import pytest
from omegaconf import OmegaConf
from verl.utils.config import validate_config

from subgroup_offset.config import ConfigError
from subgroup_offset.preflight import MANAGER_NAME, check_run

MANAGER = f"+actor_rollout_ref.rollout.agent.agent_loop_manager_class={MANAGER_NAME}"
STOCK = ["actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"]
STOCK += ["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1"]


@pytest.mark.parametrize("method", ["grpo", "strategy_grpo", "alignment", "contrast"])
def test_the_methods_pass(compose, method):
    config = compose(method, *STOCK)
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.algorithm.adv_estimator == "grpo_subgroup"
    assert config.algorithm.subgroup.lam == {"alignment": 0.3, "contrast": -0.3}.get(method, 0.0)
    two_stage = config.actor_rollout_ref.rollout.agent.get("agent_loop_manager_class") == MANAGER_NAME
    assert two_stage is (method != "grpo")


def test_the_toy_run_on_a_cpu_composes(compose):
    from subgroup_offset.toy import EXECUTION_TEMPLATE, STRATEGY_TEMPLATE

    config = compose("contrast", "+experiment=toy", "+platform=cpu", "toy_dir=somewhere")
    validate_config(config, use_reference_policy=False, use_critic=False)
    strategy = config.algorithm.subgroup.strategy
    assert (strategy.strategy_template, strategy.execution_template) == (STRATEGY_TEMPLATE, EXECUTION_TEMPLATE)
    assert config.trainer.device == "cpu"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["actor_rollout_ref.rollout.n=16"], r"rollout\.n=16 is not .* 4 \* 8: set .*rollout\.n=32"),
        (["algorithm.adv_estimator=grpo"], r"adv_estimator=grpo cannot read the labels .*grpo_subgroup"),
        (["trainer.use_v1=False"], r"trainer\.use_v1=False runs verl's legacy trainer"),
        (["algorithm.subgroup.lam=x"], r"algorithm\.subgroup\.lam='x'"),
        (["+algorithm.subgroup.lamda=1"], r"algorithm\.subgroup\.lamda=1 .* algorithm\.subgroup\.lam\?"),
        (["+algorithm.subgroup.strategy.execution_template=x"], "neither a template"),
        (
            ["actor_rollout_ref.rollout.agent.agent_loop_manager_class=null"],
            r"lam=-0\.3 needs subgroups, .*agent_loop_manager_class=",
        ),
    ],
)
def test_contradictions_are_refused(compose, overrides, message):
    config = compose("contrast", *STOCK, *overrides)
    with pytest.raises(ConfigError, match=message):
        validate_config(config, use_reference_policy=False, use_critic=False)


def test_one_override_on_a_stock_run(compose):
    config = compose("ppo_trainer", *STOCK, "algorithm.adv_estimator=grpo_subgroup")
    validate_config(config, use_reference_policy=False, use_critic=False)


@pytest.mark.parametrize(("method", "lam"), [("alignment", 0.3), ("contrast", -0.3), ("strategy_grpo", 0.0)])
def test_one_group_on_a_stock_run_sets_what_it_must_and_nothing_else(compose, method, lam):
    stock = OmegaConf.to_container(compose("ppo_trainer", *STOCK))
    config = compose("ppo_trainer", *STOCK, f"+subgroup_offset={method}")
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.algorithm.subgroup.lam == lam
    changed = OmegaConf.to_container(config)
    assert changed["algorithm"].pop("subgroup")["strategy"]["num_strategies"] == 4
    assert changed["algorithm"].pop("adv_estimator") == "grpo_subgroup"
    assert changed["actor_rollout_ref"]["rollout"]["agent"].pop("agent_loop_manager_class") == MANAGER_NAME
    assert changed["actor_rollout_ref"]["rollout"].pop("n") == 32
    del stock["algorithm"]["adv_estimator"], stock["actor_rollout_ref"]["rollout"]["n"]
    assert changed == stock


def test_runs_without_this_package_are_not_looked_at(compose):
    config = compose("ppo_trainer", *STOCK, "algorithm.adv_estimator=grpo", "+algorithm.subgroup.nonsense=1")
    check_run(config)


def test_a_users_own_manager_may_write_labels(compose):
    config = compose("contrast", *STOCK, "actor_rollout_ref.rollout.agent.agent_loop_manager_class=my.Manager")
    check_run(config)

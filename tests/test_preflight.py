"""A contradiction in a run's config is refused by verl's own start-up, before Ray is started."""

import logging

import pytest
from omegaconf import OmegaConf
from preflight_configs import STOCK, changed
from stock_gsm8k import GSM8K, as_overrides
from verl.utils.config import validate_config

from subgroup_offset import config as config_module
from subgroup_offset.config import ConfigError
from subgroup_offset.paths import config_dir
from subgroup_offset.preflight import MANAGER_NAME, check_run, findings

METHODS = sorted(path.stem for path in (config_dir() / "subgroup_offset").glob("*.yaml"))


def validate(config):
    validate_config(config, use_reference_policy=False, use_critic=False)


@pytest.fixture(autouse=True)
def said(caplog):
    """What has been warned of; each test starts with nothing said."""
    config_module._warned.clear()
    findings._told.clear()
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("subgroup_offset")]


@pytest.mark.parametrize("method", METHODS)
def test_one_group_on_a_stock_run_sets_what_it_must_and_nothing_else(compose, said, method):
    stock = OmegaConf.to_container(compose("ppo_trainer", *STOCK))
    config = compose("ppo_trainer", *STOCK, f"+subgroup_offset={method}")
    validate(config)
    assert said() == []
    direction = method.split("_")[0]
    assert config.algorithm.subgroup.lam == {"alignment": 0.3, "contrast": -0.3}.get(direction, 0.0)
    ours = OmegaConf.to_container(config)
    assert ours["algorithm"].pop("subgroup")["name"] == method
    assert ours["algorithm"].pop("adv_estimator") == "grpo_subgroup"
    manager = ours["actor_rollout_ref"]["rollout"]["agent"].pop("agent_loop_manager_class", None)
    assert manager == (None if method == "grpo" else MANAGER_NAME)
    assert ours["actor_rollout_ref"]["rollout"].pop("n") == 32
    del stock["algorithm"]["adv_estimator"], stock["actor_rollout_ref"]["rollout"]["n"]
    assert ours == stock


@pytest.mark.parametrize("method", ["grpo", "strategy_grpo", "alignment", "contrast"])
def test_a_config_of_the_methods_name_is_the_same(compose, method):
    assert compose(method) == compose("ppo_trainer", f"+subgroup_offset={method}")


def test_the_toy_run_on_a_cpu_composes(compose, said):
    from subgroup_offset.toy import EXECUTION_TEMPLATE, STRATEGY_TEMPLATE

    config = compose("contrast", "+experiment=toy", "+platform=cpu", "toy_dir=somewhere")
    validate(config)
    assert said() == []
    strategy = config.algorithm.subgroup.strategy
    assert (strategy.strategy_template, strategy.execution_template) == (STRATEGY_TEMPLATE, EXECUTION_TEMPLATE)
    assert config.trainer.device == "cpu"


def test_the_override_on_verls_gsm8k_example_says_all_that_is_to_change(compose, said):
    command = [*as_overrides(GSM8K), "+subgroup_offset=contrast"]
    with pytest.raises(ConfigError) as refused:
        validate(compose("ppo_trainer", *command))
    estimator, count = str(refused.value).split("\n")
    assert "adv_estimator=grpo cannot read the labels" in estimator
    assert "rollout.n=5 is not num_strategies * rollouts_per_strategy = 4 * 8: set " in count
    assert "rollout.n=32, or change algorithm.subgroup.strategy.num_strategies and " in count
    fixed = [*command, "algorithm.adv_estimator=grpo_subgroup", "actor_rollout_ref.rollout.n=32"]
    validate(compose("ppo_trainer", *fixed))
    assert said() == []


def test_a_yaml_of_the_users_own_takes_a_method_as_a_line_of_its_defaults(tmp_path, said):
    from hydra import compose, initialize_config_dir

    (tmp_path / "mine.yaml").write_text(
        "hydra: {searchpath: [pkg://verl.trainer.config]}\n"
        "defaults: [ppo_trainer, subgroup_offset: contrast, _self_]\n"
        "algorithm: {subgroup: {strategy: {rollouts_per_strategy: 2}}}\n"
        "actor_rollout_ref: {rollout: {n: 8}}\n"
    )
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose("mine", STOCK)
    validate(config)
    assert (config.actor_rollout_ref.rollout.n, config.algorithm.subgroup.lam, said()) == (8, -0.3, [])


R, S = "actor_rollout_ref.rollout", "algorithm.subgroup"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{R}.n": 16}, r"rollout\.n=16 is not .* 4 \* 8: set .*n=32, or keep 16 .*rollouts_per_strategy=4\.$"),
        ({f"{R}.n": 5}, r"rollout\.n=5 is not .*n=32, or change .*num_strategies and .*rollouts_per_strategy to match"),
        ({"algorithm.adv_estimator": "grpo"}, r"adv_estimator=grpo cannot read the labels .*grpo_subgroup"),
        (
            {"trainer.use_v1": False},
            r"use_v1=False runs verl's legacy trainer, without the TransferQueue .*: set .*True",
        ),
        ({f"{S}.lam": "x"}, r"algorithm\.subgroup\.lam='x'"),
        ({f"{S}.lamda": 1}, r"algorithm\.subgroup\.lamda=1 .* algorithm\.subgroup\.lam\?"),
        ({f"{S}.name": 7}, r"algorithm\.subgroup\.name=7 is not text"),
        ({f"{S}.strategy.execution_template": "x"}, "execution_template='x' is neither a template"),
        ({f"{S}.partition": "lenght"}, r"algorithm\.subgroup\.partition=.?lenght"),
        ({f"{R}.agent.agent_loop_manager_class": None}, r"lam=-0\.3 needs subgroups, .*agent_loop_manager_class="),
        (
            {f"{R}.agent.agent_loop_manager_class": "subgroup_offset.rollout.Manager"},
            rf"agent_loop_manager_class=subgroup_offset\.rollout\.Manager does not exist, .*set it to {MANAGER_NAME}",
        ),
        (
            {f"{S}.strategy.max_tokens": 1024},
            r"strategy\.max_tokens=1024 leaves no room .* context of 1024 tokens .*max_tokens lower",
        ),
    ],
)
def test_contradictions_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        validate(changed(changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {f"{S}.strategy.num_strategies": 1, f"{S}.strategy.rollouts_per_strategy": 32},
            "num_strategies=1 makes one subgroup a prompt, whose offset is 0: algorithm.subgroup.lam=-0.3 has no ",
        ),
        (
            {f"{S}.strategy.num_strategies": 8, f"{S}.strategy.rollouts_per_strategy": 1, f"{R}.n": 8},
            "lam=-0.3 only scales GRPO's advantages by 1.3. Set rollouts_per_strategy to 2",
        ),
        ({f"{S}.lam": 0.0, f"{S}.shuffle_offsets": True}, "shuffle_offsets=True has no effect with"),
        (
            {f"{R}.n": 1, f"{R}.agent.agent_loop_manager_class": None, f"{S}.lam": 0},
            "rollout.n=1 gives grpo_subgroup groups of one rollout, whose advantages are all 0: set it",
        ),
        (
            {"algorithm.adv_estimator": "grpo", f"{R}.agent.agent_loop_manager_class": None},
            "algorithm.subgroup is set, but algorithm.adv_estimator=grpo does not read it: set",
        ),
    ],
)
def test_settings_without_effect_are_said_once(said, changes, message):
    for _ in range(2):
        validate(changed(changes))
    (warning,) = said()
    assert message in warning


def test_one_setting_on_a_stock_run(compose, said):
    config = compose("ppo_trainer", *STOCK, "algorithm.adv_estimator=grpo_subgroup", "actor_rollout_ref.rollout.n=8")
    validate(config)
    assert said() == []


def test_runs_without_this_package_are_not_looked_at(compose, said):
    settings = ["algorithm.adv_estimator=grpo", "custom_reward_function.path=f.py", "actor_rollout_ref.rollout.n=1"]
    check_run(compose("ppo_trainer", *STOCK, *settings))
    assert said() == []


def test_a_users_own_manager_may_write_labels(said):
    check_run(changed({f"{R}.agent.agent_loop_manager_class": "my.Manager"}))
    assert said() == []

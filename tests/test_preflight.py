"""A contradiction in a run's config is refused by verl's own start-up, before Ray is started."""

import logging

import pytest
from omegaconf import OmegaConf
from preflight_configs import STOCK, changed
from verl.utils.config import validate_config

from subgroup_offset import config as config_module
from subgroup_offset.config import ConfigError
from subgroup_offset.paths import config_dir
from subgroup_offset.preflight import MANAGER_NAME, check_run, findings

WORDS = sorted(path.stem for path in (config_dir() / "subgroup_offset").glob("*.yaml"))
#: The paper's own; the family's set both sides of a method.
METHODS = [name for name in WORDS if name.startswith(("alignment", "contrast")) or name in ("grpo", "strategy_grpo")]


def validate(config):
    validate_config(config, use_reference_policy=False, use_critic=False)


@pytest.fixture(autouse=True)
def said(caplog):
    """What has been warned of; each test starts with nothing said."""
    config_module._warn_once.forget()
    findings.warn_once.forget()
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
K, Z = f"{S}.strategy.num_strategies", f"{S}.strategy.rollouts_per_strategy"
MANAGER = f"{R}.agent.agent_loop_manager_class"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {f"{R}.n": 16, Z: 8},
            r"rollout\.n=16 is not .* 4 \* 8: set .*n=32, or .*rollouts_per_strategy=null, .* as 4 \+ 4 \+ 4 \+ 4\.$",
        ),
        ({f"{R}.n": 5, Z: 8}, r"rollout\.n=5 is not .* 4 \* 8: set .*n=32, or .*=null, which spreads 5 as 3 \+ 2\.$"),
        ({f"{R}.n": 0}, r"rollout\.n=0 is no number of rollouts: set it to"),
        (
            {"trainer.use_v1": False},
            r"use_v1=False runs verl's legacy trainer, without the TransferQueue .*: set .*True",
        ),
        ({f"{S}.lam": "x"}, r"algorithm\.subgroup\.lam='x'"),
        ({f"{S}.lamda": 1}, r"algorithm\.subgroup\.lamda=1 .* algorithm\.subgroup\.lam\?"),
        ({f"{S}.name": 7}, r"algorithm\.subgroup\.name=7 is not text"),
        ({f"{S}.strategy.execution_template": "x"}, "execution_template='x' is neither a template"),
        ({f"{S}.partition": "lenght"}, r"algorithm\.subgroup\.partition=.?lenght"),
        ({MANAGER: None}, r"lam=-0\.3 needs subgroups, .*agent_loop_manager_class="),
        (
            {MANAGER: "verl.trainer.ppo.v1.AgentLoopManagerTQ"},
            r"lam=-0\.3 needs subgroups, and verl's own rollout makes",
        ),
        ({f"{R}.repetition_penalty": 1.1}, r"repetition_penalty=1\.1 is ignored for rollouts, .*strategy stage alone"),
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
            {K: 1},
            "num_strategies=1 makes one subgroup a prompt, whose offset is 0: algorithm.subgroup.lam=-0.3 has no ",
        ),
        (
            {K: 8, Z: 1, f"{R}.n": 8},
            f"lam=-0.3 only scales GRPO's advantages by 1.3: set {Z} to 2 or above.",
        ),
        (
            {f"{R}.n": 2},
            "n=2 over 2 strategies makes each rollout a subgroup of its own: algorithm.subgroup.lam=-0.3 only",
        ),
        (
            {f"{R}.n": 3},
            "n=3 leaves a strategy one rollout (2 + 1), a subgroup whose mean is that rollout's own reward: set",
        ),
        ({f"{S}.lam": 0.0, f"{S}.shuffle_offsets": True}, "shuffle_offsets=True has no effect with"),
        (
            {f"{R}.n": 1, MANAGER: None, f"{S}.lam": 0},
            "rollout.n=1 gives grpo_subgroup groups of one rollout, whose advantages are all 0: set it",
        ),
        (
            {"algorithm.adv_estimator": "grpo", MANAGER: None, f"{S}.lam": 0.0, f"{S}.name": None},
            "algorithm.subgroup is set, but algorithm.adv_estimator=grpo does not read it: set",
        ),
        ({"algorithm.gamma": 0.9}, "algorithm.gamma=0.9 has no effect with algorithm.adv_estimator=grpo_subgroup"),
        ({"critic.enable": True}, "critic.enable=True trains a critic that"),
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


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({f"{R}.n": 32}, None),
        ({f"{R}.n": 8}, None),
        (
            {f"{R}.n": 5},
            f"n=5 over 2 strategies: 3 + 2 rollouts ({K}=4 would leave fewer than 2 on some; 5 is no multiple",
        ),
        ({f"{R}.n": 6}, f"n=6 over 3 strategies: 2 + 2 + 2 rollouts ({K}=4 would leave fewer than 2 on some)."),
        ({f"{R}.n": 6, f"{S}.strategy.sampling": "paired"}, "n=6 over 2 strategies: 3 + 3 rollouts ("),
        ({f"{R}.n": 18}, "n=18 over 4 strategies: 5 + 5 + 4 + 4 rollouts (18 is no multiple of 4)."),
        ({f"{R}.n": 5, MANAGER: None, f"{S}.lam": 0}, None),
        ({f"{R}.n": 5, f"{S}.partition": "answer"}, None),
    ],
)
def test_how_rollouts_are_spread_is_said_where_the_run_leaves_it_open(said, capsys, changes, note):
    check_run(changed(changes))
    printed = capsys.readouterr().out
    assert said() == [] and printed.count("\n") == (note is not None)
    assert note is None or (printed.startswith("subgroup_offset: actor_rollout_ref.rollout.") and note in printed)

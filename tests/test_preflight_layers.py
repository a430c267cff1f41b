"""Our checks beside other plugins': their layers around verl's function, their managers, their estimators."""

import functools
from types import SimpleNamespace

import pytest
import verl.utils.config
from preflight_configs import changed
from verl.trainer.ppo import core_algos

from subgroup_offset.config import ConfigError
from subgroup_offset.preflight import MANAGER_NAME, check_as_main_ppo, check_run, install, run

R, S = "actor_rollout_ref.rollout", "algorithm.subgroup"
MANAGER, ESTIMATOR = f"{R}.agent.agent_loop_manager_class", "algorithm.adv_estimator"


def others(function, calls):
    """Another plugin's layer."""

    @functools.wraps(function)
    def layer(*args, **kwargs):
        calls.append("other")
        return function(*args, **kwargs)

    return layer


@pytest.fixture
def calls(monkeypatch):
    """Who was called, in order: verl's function, our checks, other plugins."""
    calls = []
    monkeypatch.setattr(run, "check_run", lambda config: calls.append("ours"))
    return calls


@pytest.fixture
def module(calls):
    return SimpleNamespace(validate_config=lambda config, use_reference_policy, use_critic: calls.append("verl"))


def test_another_plugin_that_was_there_before_does_not_switch_our_checks_off(module, calls):
    module.validate_config = others(module.validate_config, calls)
    install(module)
    module.validate_config(config=None, use_reference_policy=False, use_critic=False)
    assert calls == ["other", "verl", "ours"]


def test_installing_twice_is_once_whoever_came_in_between(module, calls):
    install(module)
    install(module)
    module.validate_config = others(module.validate_config, calls)
    install(module)
    module.validate_config(None, False, False)
    assert calls == ["other", "verl", "ours"]


@pytest.mark.parametrize("installed", [True, False])
def test_checking_beforehand_runs_every_layer_once(module, calls, monkeypatch, installed):
    if installed:
        install(module)
    monkeypatch.setattr(verl.utils.config, "validate_config", others(module.validate_config, calls))
    check_as_main_ppo(changed({}))
    assert calls == ["other", "verl", "ours"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A user's module with managers; its name."""
    (tmp_path / "my_managers.py").write_text(
        "from subgroup_offset.rollout import StrategyAgentLoopManager\n"
        "class Mine(StrategyAgentLoopManager): ...\n"
        "class Labelling: ...\n"
        "def function(): ...\n"
    )
    (tmp_path / "my_broken_managers.py").write_text("raise RuntimeError('no GPU here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "my_managers"


def test_a_subclass_of_our_manager_is_checked_like_ours(mine):
    wrong = {MANAGER: f"{mine}.Mine", f"{R}.n": 33, f"{S}.strategy.rollouts_per_strategy": 8}
    with pytest.raises(ConfigError, match=r"rollout\.n=33 is not num_strategies \* rollouts_per_strategy = 4 \* 8"):
        check_run(changed(wrong))
    with pytest.raises(ConfigError, match=rf"use_v1=False .* {MANAGER}=my_managers\.Mine writes to"):
        check_run(changed({MANAGER: f"{mine}.Mine", "trainer.use_v1": False}))
    # Its labels would make every rollout of verl's a group of its own, whether the run knows of this package or not.
    unaware = {MANAGER: f"{mine}.Mine", S: None, ESTIMATOR: "rloo"}
    with pytest.raises(
        ConfigError, match=rf"rloo cannot follow the labels of my_managers\.Mine, a {MANAGER_NAME}: set "
    ):
        check_run(changed(unaware))


def test_somebody_elses_manager_may_write_labels(mine):
    check_run(changed({MANAGER: f"{mine}.Labelling", f"{R}.n": 33, f"{S}.strategy.rollouts_per_strategy": 8}))


@pytest.mark.parametrize(
    ("manager", "message"),
    [
        ("my_managers.Mime", r"Mime cannot be imported \(AttributeError: .*set it to subgroup_offset\.rollout\.S"),
        ("my_manager.Mine", r"my_manager\.Mine cannot be imported \(ImportError: "),
        (
            "my_broken_managers.Mine",
            r"cannot be imported \(RuntimeError: no GPU here\), which verl would find out after",
        ),
        ("Mine", r"agent_loop_manager_class=Mine cannot be imported \(ValueError: "),
        ("subgroup_offset.rollout.Manager", rf"rollout\.Manager cannot be imported .*set it to {MANAGER_NAME}"),
        ("my_managers.function", rf"my_managers\.function is no class: set it to {MANAGER_NAME}"),
    ],
)
def test_a_manager_that_verl_could_not_load_is_refused(mine, manager, message):
    with pytest.raises(ConfigError, match=message):
        check_run(changed({MANAGER: manager}))
    check_run(changed({MANAGER: manager, S: None, ESTIMATOR: "rloo"}))  # a run without this package: verl's business


def test_an_estimator_that_reads_labels_trains_on_our_rollouts(monkeypatch):
    def another(**kwargs): ...

    monkeypatch.setitem(core_algos.ADV_ESTIMATOR_REGISTRY, "another", another)
    with pytest.raises(
        ConfigError, match=r"another cannot follow .*name=contrast: .* another\.reads_rollout_labels = True"
    ):
        check_run(changed({ESTIMATOR: "another"}))
    another.reads_rollout_labels = True
    check_run(changed({ESTIMATOR: "another"}))
    with pytest.raises(ConfigError, match=r"rollout\.n=33 is not"):
        check_run(changed({ESTIMATOR: "another", f"{R}.n": 33, f"{S}.strategy.rollouts_per_strategy": 8}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "gae",
            r"adv_estimator=gae cannot follow algorithm\.subgroup\.name=contrast: set .*adv_estimator=grpo_subgroup",
        ),
        ("grpo_subgruop", r"grpo_subgruop is not registered with verl: did you mean grpo_subgroup\?"),
        ("mine", r"mine is not registered with verl: use one of gae, .*grpo, .*grpo_subgroup"),
    ],
)
@pytest.mark.parametrize("manager", [MANAGER_NAME, None])
def test_another_estimator_is_refused(name, message, manager):
    with pytest.raises(ConfigError, match=message):
        check_run(changed({ESTIMATOR: name, MANAGER: manager}))

"""Settings that verl accepts and does not follow are told where this package is in use; verl's defaults trigger none.

That verl does not follow them is tested beside: a version that does makes the check a false alarm.
"""

import inspect
import logging
import re

import pytest
from omegaconf import OmegaConf
from preflight_configs import changed

from subgroup_offset.config import ConfigError
from subgroup_offset.preflight import check_run, findings
from subgroup_offset.preflight.legacy_reward import NEW_NAMES

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
SUBGROUP = "algorithm.subgroup"
CORRECTION, OVERLONG = "algorithm.rollout_correction", "reward.reward_kwargs.overlong_buffer_cfg"


@pytest.fixture(autouse=True)
def said(caplog):
    """What has been warned of; each test starts with nothing said."""
    findings.warn_once.forget()
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("subgroup_offset")]


IGNORED = [
    (
        {"custom_reward_function.path": "f.py"},
        "custom_reward_function.path=f.py is accepted by verl's main_ppo and ignored: "
        "set reward.custom_reward_function.path=f.py instead",
    ),
    ({"reward_model.reward_manager": "dapo"}, "reward_model.reward_manager=dapo is .* set reward.reward_manager.name="),
    ({"reward_model.reward_kwargs.max_resp_len": 9}, r"reward_kwargs={'max_resp_len': 9} is .* to \+reward\.reward_kw"),
    ({"reward_model.enable": True}, "reward_model.enable=True is .* set reward.reward_model.enable=True instead"),
    (
        {"reward_model.reward_loop_source": "importlib"},
        "reward_loop_source=importlib is .* reward.reward_manager.source",
    ),
    ({"sandbox_fusion.url": "http://box"}, "sandbox_fusion.url=http://box is .* set reward.sandbox_fusion.url="),
    ({f"{OVERLONG}.enable": True}, r"overlong_buffer_cfg\.enable=True is ignored by .*name=naive: .*name=dapo"),
    ({"reward.custom_reward_function.name": "mine"}, "name=mine is ignored without a path.*function.path to its file"),
    ({f"{ACTOR}.grad_clip": 0.5}, r"actor\.grad_clip=0\.5 is ignored.*clip_grad=1\.0: set .*optim\.clip_grad=0\.5"),
    (
        {f"{ACTOR}.clip_ratio": 0.3},
        r"actor\.clip_ratio=0\.3 is ignored where clip_ratio_low=0\.2 .*set .*clip_ratio_low",
    ),
    ({"actor_rollout_ref.nccl_timeout": 3600}, r"nccl_timeout=3600 is ignored.*30 minutes.*leave it out.*hf download"),
    ({f"{ROLLOUT}.do_sample": False}, r"do_sample=False is ignored.*temperature=1\.0: set .*do_sample=True"),
    (
        {f"{ROLLOUT}.repetition_penalty": 1.1, f"{ROLLOUT}.agent.agent_loop_manager_class": None, f"{SUBGROUP}.lam": 0},
        r"repetition_penalty=1\.1 is ignored for rollouts, which verl samples with 1\.0: remove it",
    ),
    ({"data.truncation": "right"}, "data.truncation=right has no effect: verl's rollout cuts prompts over"),
    ({f"{ROLLOUT}.val_kwargs.do_sample": True}, r"val_kwargs\.do_sample=True is ignored with .*set .*temperature"),
    ({"algorithm.use_pf_ppo": True}, "use_pf_ppo=True is ignored with algorithm.adv_estimator=grpo_subgroup.*to False"),
    (
        {f"{CORRECTION}.rollout_is": "token", f"{ROLLOUT}.calculate_log_probs": False},
        r"rollout_is=token is ignored with .*calculate_log_probs=False.* set .*calculate_log_probs=True",
    ),
    (
        {f"{CORRECTION}.rollout_rs": "seq_mean_k1", f"{ROLLOUT}.calculate_log_probs": False},
        r"rollout_rs=seq_mean_k1 is ignored with .*calculate_log_probs=False",
    ),
    (
        {f"{CORRECTION}.bypass_mode": True, f"{CORRECTION}.rollout_rs": "seq_mean_k1"},
        r"rollout_rs=seq_mean_k1 is ignored with .*bypass_mode=True.*loss_mode=bypass_mode",
    ),
    (
        {f"{CORRECTION}.bypass_mode": True, f"{CORRECTION}.loss_type": "reinforce"},
        r"loss_type=reinforce is ignored with .*bypass_mode=True.*or set bypass_mode to False",
    ),
]


@pytest.mark.parametrize(("changes", "message"), IGNORED)
def test_what_verl_ignores_is_said_once_with_the_version(said, changes, message):
    for _ in range(2):
        check_run(changed(changes))
    (warning,) = said()
    assert re.match(r"verl 0\.9\.1 \(algorithm\.subgroup\.checks=warn\): .*" + message, warning)


@pytest.mark.parametrize(("changes", "message"), IGNORED[::3])
def test_it_is_an_error_or_nothing_where_the_run_wants_that(said, changes, message):
    with pytest.raises(ConfigError, match=r"verl 0\.9\.1 \(algorithm\.subgroup\.checks=error\): .*" + message):
        check_run(changed(changes | {f"{SUBGROUP}.checks": "error"}))
    check_run(changed(changes | {f"{SUBGROUP}.checks": "off"}))
    assert said() == []


def test_the_version_is_the_one_that_is_tested_here():
    import verl

    assert verl.__version__ == findings.READ_OFF


def test_our_own_settings_are_errors_whatever_checks_says():
    for level in ("error", "warn", "off"):
        with pytest.raises(ConfigError, match=r"rollout\.n=16 is not"):
            wrong = {f"{ROLLOUT}.n": 16, f"{SUBGROUP}.strategy.rollouts_per_strategy": 8}
            check_run(changed(wrong | {f"{SUBGROUP}.checks": level}))


def test_the_legacy_trainer_has_no_dynamic_sampling(said):
    plain = {f"{SUBGROUP}.lam": 0, f"{ROLLOUT}.agent.agent_loop_manager_class": None, "trainer.use_v1": False}
    check_run(changed(plain))
    assert said() == []
    check_run(changed(plain | {"algorithm.filter_groups.enable": True}))
    (warning,) = said()
    assert "filter_groups.enable=True is ignored by the legacy trainer of trainer.use_v1=False: set" in warning


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # The old name beside the new one, or with the value that is in force anyway.
        {"custom_reward_function.path": "f.py", "reward.custom_reward_function.path": "f.py"},
        {"reward_model.enable": False, "reward_model.reward_manager": "naive", "custom_reward_function.name": "f"},
        {"reward_model.reward_kwargs": {"a": 1}, "reward.reward_kwargs": {"a": 1}},
        # Settings that verl follows.
        {"reward.reward_manager.name": "dapo", f"{OVERLONG}.enable": True},
        {"reward.reward_manager.name": "Mine", "reward.reward_manager.source": "importlib", f"{OVERLONG}.enable": True},
        {"reward.custom_reward_function.path": "f.py", "reward.custom_reward_function.name": "mine"},
        {"actor_rollout_ref.nccl_timeout": 600},
        {f"{ACTOR}.optim.clip_grad": 0.5},
        {f"{ACTOR}.optim.clip_grad": 0.5, f"{ACTOR}.grad_clip": 0.5},
        {f"{ACTOR}.clip_ratio_low": 0.1, f"{ACTOR}.clip_ratio_high": 0.3},
        {f"{ACTOR}.clip_ratio": 0.3, f"{ACTOR}.clip_ratio_low": None, f"{ACTOR}.clip_ratio_high": None},
        {f"{ACTOR}.clip_ratio": 0.3, f"{ACTOR}.clip_ratio_low": 0.3, f"{ACTOR}.clip_ratio_high": 0.3},
        {f"{ROLLOUT}.val_kwargs.do_sample": True, f"{ROLLOUT}.val_kwargs.temperature": 0.7},
        {f"{ROLLOUT}.val_kwargs.n": 4, f"{ROLLOUT}.val_kwargs.temperature": 0.7, f"{ROLLOUT}.repetition_penalty": 1.0},
        {f"{CORRECTION}.rollout_is": "token"},
        {f"{CORRECTION}.bypass_mode": True},
        {
            f"{CORRECTION}.bypass_mode": True,
            f"{CORRECTION}.loss_type": "reinforce",
            f"{ACTOR}.policy_loss.loss_mode": "bypass_mode",
        },
        {f"{ROLLOUT}.calculate_log_probs": False},
        {"algorithm.filter_groups.enable": True},
        {"algorithm.use_kl_in_reward": True},
        {"data.truncation": "left"},
        {"data.truncation": "right", "data.filter_overlong_prompts": True},
        {"critic.enable": False},
        {"trainer.v1.trainer_mode": "colocate_async"},
    ],
)
def test_no_false_alarm(said, changes):
    check_run(changed(changes))
    assert said() == []


def test_the_moved_keys_are_verls_own():
    """verl's migration moves each of them to where the message says."""
    from verl.experimental.reward_loop import migrate_legacy_reward_impl

    values = {"reward_model.enable": True, "reward_model.reward_kwargs": {"max_resp_len": 9}}
    for old, new in NEW_NAMES.items():
        value = values.get(old, "somewhere")
        migrated = migrate_legacy_reward_impl(changed({old: value}))
        assert OmegaConf.select(migrated, new) == value


def test_verls_loss_does_not_follow_clip_ratio():
    """The same loss whatever it is, while clip_ratio_high changes it."""
    import torch
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.utils.config import omega_conf_to_dataclass

    def loss(**settings):
        changes = {f"{ACTOR}.{key}": value for key, value in (settings | {"use_dynamic_bsz": True}).items()}
        actor = omega_conf_to_dataclass(changed(changes).actor_rollout_ref.actor)
        old, new, ones = torch.zeros(1, 2), torch.tensor([[0.5, -0.5]]), torch.ones(1, 2)
        return compute_policy_loss_vanilla(old, new, ones, ones, config=actor)[0].item()

    assert loss(clip_ratio=0.3) == loss() != loss(clip_ratio_high=0.3)


def test_verl_still_does_not_follow_them():
    """The modules of verl that would have to read the settings; where one does, its check is to go."""
    from verl.experimental.agent_loop import agent_loop
    from verl.experimental.reward_loop.reward_manager import gdpo, limited, naive, remote
    from verl.trainer import main_ppo
    from verl.trainer.ppo import ray_trainer
    from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base
    from verl.utils import distributed
    from verl.workers import engine_workers
    from verl.workers.engine.fsdp import transformer_impl

    def absent(word, *modules):
        return all(word not in inspect.getsource(module) for module in modules)

    assert absent("migrate_legacy", main_ppo, trainer_base) and absent("reward_model.reward_manager", trainer_base)
    assert absent("overlong_buffer_cfg", naive, gdpo, limited, remote)
    assert absent("grad_clip", engine_workers, transformer_impl)
    assert absent("nccl_timeout", engine_workers, transformer_impl, distributed)
    assert not absent("initialize_global_process_group_ray(timeout_second=None)", engine_workers)
    assert absent(".do_sample", agent_loop_tq, agent_loop)
    assert absent(".repetition_penalty", agent_loop_tq, agent_loop)
    assert not absent("repetition_penalty=1.0", agent_loop_tq)
    assert absent("bypass_mode(", trainer_base) and not absent("bypass_mode(", ray_trainer)
    assert absent("filter_groups", ray_trainer) and not absent("filter_groups", trainer_base)
    assert absent("truncation", agent_loop_tq, agent_loop)

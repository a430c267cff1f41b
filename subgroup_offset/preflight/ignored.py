"""Settings that verl accepts and does not follow, each read off the source of version ``findings.READ_OFF``.

They are no settings of this package; but a run that compares baselines is worth little if its reward, its clipping or
its correction is not what its config says. Only what a run has set away from verl's default is looked at.
"""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from subgroup_offset.config import ESTIMATOR_NAME
from subgroup_offset.preflight.findings import Findings

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_CORRECTION = "algorithm.rollout_correction"
# verl's reward managers but dapo: none of them reads reward.reward_kwargs.
_WITHOUT_OVERLONG_PENALTY = ("naive", "gdpo", "rate_limited", "remote")


def check(config: Any, findings: Findings) -> None:
    """Look through the settings of reward, actor, rollout, data and algorithm."""
    _check_reward(config, findings)
    _check_actor(config, findings)
    _check_correction(config, findings)
    _check_trainer(config, findings)
    _check_timeout(config, findings)
    _check_sampling(config, findings)
    _check_estimator(config, findings)
    _check_truncation(config, findings)


def _check_reward(config: Any, findings: Findings) -> None:
    reward = config.get("reward") or {}
    manager = reward.get("reward_manager") or {}
    if (
        OmegaConf.select(config, "reward.reward_kwargs.overlong_buffer_cfg.enable")
        and manager.get("source") == "register"
        and manager.get("name") in _WITHOUT_OVERLONG_PENALTY
    ):
        findings.quirk(
            "reward.reward_kwargs.overlong_buffer_cfg.enable=True is ignored by reward.reward_manager.name="
            f"{manager.name}: set reward.reward_manager.name=dapo, or enable to False."
        )
    function = reward.get("custom_reward_function") or {}
    if function.get("name") not in (None, "compute_score") and not function.get("path"):
        findings.quirk(
            f"reward.custom_reward_function.name={function['name']} is ignored without a path, and verl's own reward "
            "used: set reward.custom_reward_function.path to its file."
        )


def _check_actor(config: Any, findings: Findings) -> None:
    actor = config.actor_rollout_ref.actor
    grad_clip, optim = actor.get("grad_clip"), actor.get("optim") or {}
    clip_grad = optim.get("grad_clip") or optim.get("clip_grad")
    if grad_clip not in (None, 1.0) and grad_clip != clip_grad:
        findings.quirk(
            f"{_ACTOR}.grad_clip={grad_clip} is ignored, and gradients are clipped at "
            f"{_ACTOR}.optim.clip_grad={clip_grad}: set {_ACTOR}.optim.clip_grad={grad_clip}."
        )
    clip, low, high = actor.get("clip_ratio"), actor.get("clip_ratio_low"), actor.get("clip_ratio_high")
    if clip not in (None, 0.2) and None not in (low, high) and not clip == low == high:
        findings.quirk(
            f"{_ACTOR}.clip_ratio={clip} is ignored where clip_ratio_low={low} and clip_ratio_high={high} are set, as "
            f"they are by default: set {_ACTOR}.clip_ratio_low and {_ACTOR}.clip_ratio_high, and leave clip_ratio out."
        )


def _check_correction(config: Any, findings: Findings) -> None:
    correction = config.algorithm.get("rollout_correction") or {}
    weights, rejection = correction.get("rollout_is"), correction.get("rollout_rs")
    if not correction.get("bypass_mode"):
        if (weights or rejection) and not config.actor_rollout_ref.rollout.get("calculate_log_probs"):
            asked = f"rollout_is={weights}" if weights else f"rollout_rs={rejection}"
            findings.quirk(
                f"{_CORRECTION}.{asked} is ignored with {_ROLLOUT}.calculate_log_probs=False, which it compares with: "
                f"set {_ROLLOUT}.calculate_log_probs=True."
            )
        return
    loss_type = correction.get("loss_type", "ppo_clip")
    loss_mode = OmegaConf.select(config, f"{_ACTOR}.policy_loss.loss_mode")
    if (rejection or loss_type != "ppo_clip") and loss_mode != "bypass_mode" and config.trainer.get("use_v1", True):
        asked = f"rollout_rs={rejection}" if rejection else f"loss_type={loss_type}"
        findings.quirk(
            f"{_CORRECTION}.{asked} is ignored with {_CORRECTION}.bypass_mode=True, for which verl's current trainer "
            f"does not set up the loss: set {_ACTOR}.policy_loss.loss_mode=bypass_mode and repeat the setting under "
            f"+{_ACTOR}.policy_loss.rollout_correction, or set bypass_mode to False."
        )


def _check_trainer(config: Any, findings: Findings) -> None:
    if not config.trainer.get("use_v1", True) and OmegaConf.select(config, "algorithm.filter_groups.enable"):
        findings.quirk(
            "algorithm.filter_groups.enable=True is ignored by the legacy trainer of trainer.use_v1="
            f"{config.trainer.use_v1}: set trainer.use_v1=True, or enable to False."
        )


def _check_timeout(config: Any, findings: Findings) -> None:
    timeout = config.actor_rollout_ref.get("nccl_timeout")
    if timeout not in (None, 600):
        findings.quirk(
            f"actor_rollout_ref.nccl_timeout={timeout} is ignored, and processes wait for each other 30 minutes at "
            "most, torch's default: leave it out. What takes longer, as a download of a model does, is to be done on "
            "every node before the run (hf download)."
        )


def _check_sampling(config: Any, findings: Findings) -> None:
    """verl's agent loop worker takes temperature, top-p and top-k from the config, and no more."""
    rollout = config.actor_rollout_ref.rollout
    if not rollout.get("do_sample", True):
        findings.quirk(
            f"{_ROLLOUT}.do_sample=False is ignored, and training rollouts are sampled at {_ROLLOUT}.temperature="
            f"{rollout.temperature}: set {_ROLLOUT}.do_sample=True."
        )
    validation = rollout.get("val_kwargs") or {}
    if validation.get("do_sample") and validation.get("temperature") == 0:
        findings.quirk(
            f"{_ROLLOUT}.val_kwargs.do_sample=True is ignored with {_ROLLOUT}.val_kwargs.temperature=0, verl's "
            f"default, and validation greedy: set {_ROLLOUT}.val_kwargs.temperature (the paper's is 0.7), or do_sample "
            "to False."
        )


def _check_estimator(config: Any, findings: Findings) -> None:
    algorithm = config.algorithm
    if algorithm.get("adv_estimator") != ESTIMATOR_NAME:
        return
    if algorithm.get("use_pf_ppo"):
        findings.quirk(
            f"algorithm.use_pf_ppo=True is ignored with algorithm.adv_estimator={ESTIMATOR_NAME}, as with all but gae: "
            "set it to False."
        )


def _check_truncation(config: Any, findings: Findings) -> None:
    data = config.data
    if data.get("truncation") in ("right", "middle") and not data.get("filter_overlong_prompts"):
        findings.quirk(
            f"data.truncation={data.truncation} has no effect: verl's rollout cuts prompts over data.max_prompt_length="
            f"{data.max_prompt_length} from the left. Set data.filter_overlong_prompts=True to leave them out."
        )

"""Checks of what this package's estimator and rollout need of a run."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from subgroup_offset.config import ESTIMATOR_NAME, ConfigError, StrategyConfig, SubgroupConfig
from subgroup_offset.lam import lam_text
from subgroup_offset.preflight import counts, estimator, losses
from subgroup_offset.preflight.findings import Findings
from subgroup_offset.preflight.manager import MANAGER_KEY, MANAGER_NAME, Rollout, manager_name

_ROLLOUT = "actor_rollout_ref.rollout"
_STRATEGY = "algorithm.subgroup.strategy"


def check(config: Any, subgroup: SubgroupConfig, rollout: Rollout, findings: Findings) -> None:
    """Check a run that uses the estimator, the rollout or both."""
    estimator.check(config, rollout, findings)
    if rollout is Rollout.OURS:
        _check_rollout(config, subgroup, findings)
    elif subgroup.lam != 0 and rollout is Rollout.VERL and config.trainer.get("use_v1", True):
        findings.error(
            f"algorithm.subgroup.lam={lam_text(subgroup.lam)} needs subgroups, and verl's own rollout makes none: add "
            f"+{MANAGER_KEY}={MANAGER_NAME}, or set algorithm.subgroup.lam=0 for plain GRPO."
        )
    _check_methods(config, subgroup, rollout, findings)
    _check_sampling(config, rollout is Rollout.OURS and subgroup.two_stage, findings)
    _check_effect(config, subgroup, findings)


def check_unused(config: Any, findings: Findings) -> None:
    """Check a run with neither the estimator nor the rollout, which asks for no method either."""
    if config.algorithm.get("subgroup"):
        findings.warn(
            f"algorithm.subgroup is set, but algorithm.adv_estimator={config.algorithm.get('adv_estimator')} does not "
            f"read it: set algorithm.adv_estimator={ESTIMATOR_NAME}, or remove the section."
        )


def _check_rollout(config: Any, subgroup: SubgroupConfig, findings: Findings) -> None:
    if not config.trainer.get("use_v1", True):
        findings.error(
            f"trainer.use_v1={config.trainer.use_v1} runs verl's legacy trainer, without the TransferQueue that "
            f"{MANAGER_KEY}={manager_name(config)} writes to: set trainer.use_v1=True."
        )
    if subgroup.two_stage:
        rollout = config.actor_rollout_ref.rollout
        counts.check(subgroup.strategy, subgroup.lam, rollout.n, findings)
        _check_room(subgroup.strategy, rollout, findings)
    try:
        _load(subgroup)
    except ConfigError as error:
        findings.error(str(error))


def _check_methods(config: Any, subgroup: SubgroupConfig, rollout: Rollout, findings: Findings) -> None:
    """What the configured methods need, each and together."""
    methods = subgroup.methods()
    for name, method in methods.items():
        if (method.needs_labels or method.sees_groups) and rollout is Rollout.VERL:
            findings.error(
                f"algorithm.subgroup.method.{name} finds its rows by their labels, and verl's own rollout writes none: "
                f"add +{MANAGER_KEY}={MANAGER_NAME}, with algorithm.subgroup.partition=none for single-stage rollouts."
            )
        if method.sees_groups and _scores_later(config):
            findings.error(
                f"algorithm.subgroup.method.{name} needs the verdict on a rollout while its prompt is in the rollout's "
                "worker, and reward.reward_model.enable=True without a resource pool of its own scores it later: set "
                "reward.reward_model.enable_resource_pool=True."
            )
        method.check_run(config, findings)
    losses.check(config, methods, findings)
    _check_context(config, subgroup, rollout, findings)


def _scores_later(config: Any) -> bool:
    model = OmegaConf.select(config, "reward.reward_model")
    return bool(model and model.get("enable") and not model.get("enable_resource_pool"))


def _check_context(config: Any, subgroup: SubgroupConfig, rollout: Rollout, findings: Findings) -> None:
    """Rollouts that are trained under another prompt than they were sampled from."""
    by = "algorithm.subgroup.context=plain" if subgroup.context == "plain" else "algorithm.subgroup.method.oc_grpo"
    if subgroup.context == "sampled" and "oc_grpo" not in subgroup.method:
        return
    if not subgroup.two_stage or rollout is Rollout.VERL:
        findings.error(
            f"{by} trains rollouts with a preview under the plain prompt, and this run samples none: add "
            f"+{MANAGER_KEY}={MANAGER_NAME} with algorithm.subgroup.partition=strategy, or remove it."
        )
    replay = OmegaConf.select(config, "actor_rollout_ref.actor.router_replay.mode") or "disabled"
    if replay != "disabled" or config.actor_rollout_ref.rollout.get("enable_rollout_routing_replay"):
        findings.error(
            f"{by} changes where a row's tokens stand, by which router replay (actor_rollout_ref.actor."
            f"router_replay.mode={replay}, {_ROLLOUT}.enable_rollout_routing_replay) finds them: switch that off."
        )
    weights = (config.algorithm.get("rollout_correction") or {}).get("rollout_is")
    if weights and "oc_grpo" in subgroup.method:
        findings.error(
            f"algorithm.rollout_correction.rollout_is={weights} and algorithm.subgroup.method.oc_grpo cannot be used "
            "together, for both weigh by the plain prompt's probability over the sampled one's: set rollout_is to null."
        )
    elif weights:
        findings.warn(
            f"algorithm.rollout_correction.rollout_is={weights} with {by} weighs by the plain prompt's probability "
            "over the sampled one's, which is no difference of engines: algorithm.subgroup.method.oc_grpo does so with "
            "a floor. Set rollout_is to null for no weights."
        )
    if config.actor_rollout_ref.rollout.get("calculate_log_probs"):
        findings.note(
            f"{by}: verl's training/rollout_probs_diff_* and rollout_corr/* compare the plain prompt with the one that "
            "was sampled from, and are large by design."
        )


def _load(subgroup: SubgroupConfig) -> None:
    """Load the templates or the partition as a worker will."""
    if subgroup.two_stage:
        from subgroup_offset.strategy import load_templates

        load_templates(subgroup.strategy)
    else:
        from subgroup_offset.partition import make_partition

        make_partition(subgroup.partition, subgroup.partition_field, subgroup.partition_buckets)


def _check_room(strategy: StrategyConfig, rollout: Any, findings: Findings) -> None:
    """A prompt without room for its strategies runs single-stage; here no prompt would have any."""
    context = rollout.get("max_model_len") or rollout.prompt_length + rollout.response_length
    if strategy.max_tokens >= context:
        findings.error(
            f"{_STRATEGY}.max_tokens={strategy.max_tokens} leaves no room for a prompt in a context of {context} "
            "tokens (rollout.max_model_len, or data.max_prompt_length + data.max_response_length), and no strategy "
            f"would be sampled: set {_STRATEGY}.max_tokens lower or the context longer."
        )


def _check_sampling(config: Any, two_stage: bool, findings: Findings) -> None:
    """verl's server takes it from the config for a request that does not say, as verl's own rollouts do."""
    penalty = config.actor_rollout_ref.rollout.get("repetition_penalty", 1.0)
    if penalty in (None, 1.0):
        return
    ignored = f"{_ROLLOUT}.repetition_penalty={penalty} is ignored for rollouts, which verl samples with 1.0"
    if two_stage:
        findings.error(f"{ignored}, and would reach the strategy stage alone: remove it.")
    else:
        findings.quirk(f"{ignored}: remove it.")


def _check_effect(config: Any, subgroup: SubgroupConfig, findings: Findings) -> None:
    """Settings that are without effect with this estimator, or leave it without any."""
    algorithm = config.algorithm
    if config.actor_rollout_ref.rollout.n == 1:
        findings.warn(
            f"{_ROLLOUT}.n=1 gives {ESTIMATOR_NAME} groups of one rollout, whose advantages are all 0: "
            "set it to the number of rollouts a prompt (the paper's is 32)."
        )
    if subgroup.lam == 0 and subgroup.shuffle_offsets:
        findings.warn(
            "algorithm.subgroup.shuffle_offsets=True has no effect with algorithm.subgroup.lam=0, where no offset is "
            "used: set lam, or shuffle_offsets to false."
        )
    if algorithm.get("adv_estimator") != ESTIMATOR_NAME:
        return
    if algorithm.get("gamma", 1.0) not in (None, 1.0):
        findings.warn(
            f"algorithm.gamma={algorithm.gamma} has no effect with algorithm.adv_estimator={ESTIMATOR_NAME}, which "
            "takes a rollout's reward as a whole, as verl's grpo does: set it to 1.0."
        )
    if OmegaConf.select(config, "critic.enable"):
        findings.warn(
            f"critic.enable=True trains a critic that algorithm.adv_estimator={ESTIMATOR_NAME} never reads: set it to "
            "null or False."
        )

"""Checks of what this package's estimator and rollout need of a run."""

from __future__ import annotations

from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, ConfigError, StrategyConfig, SubgroupConfig
from subgroup_offset.preflight.findings import Findings

MANAGER_NAME = "subgroup_offset.rollout.StrategyAgentLoopManager"
_MANAGER_KEY = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
_STRATEGY = "algorithm.subgroup.strategy"


def has_our_manager(config: Any) -> bool:
    """Whether the run samples with this package's rollout."""
    return _manager(config) == MANAGER_NAME


def check(config: Any, subgroup: SubgroupConfig, findings: Findings) -> None:
    """Check a run that uses the estimator, the rollout or both."""
    manager = _manager(config)
    if manager == MANAGER_NAME:
        _check_rollout(config, subgroup, findings)
    elif manager is not None and str(manager).startswith("subgroup_offset."):
        findings.error(
            f"{_MANAGER_KEY}={manager} does not exist, which verl would find out after loading the models: "
            f"set it to {MANAGER_NAME}."
        )
    elif subgroup.lam != 0 and manager is None and config.trainer.get("use_v1", True):
        findings.error(
            f"algorithm.subgroup.lam={subgroup.lam:g} needs subgroups, and verl's own rollout makes none: add "
            f"+{_MANAGER_KEY}={MANAGER_NAME}, or set algorithm.subgroup.lam=0 for plain GRPO."
        )
    _check_effect(config, subgroup, findings)


def check_unused(config: Any, findings: Findings) -> None:
    """Check a run with neither the estimator nor the rollout."""
    if config.algorithm.get("subgroup"):
        findings.warn(
            f"algorithm.subgroup is set, but algorithm.adv_estimator={config.algorithm.get('adv_estimator')} does not "
            f"read it: set algorithm.adv_estimator={ESTIMATOR_NAME}, or remove the section."
        )


def _manager(config: Any) -> str | None:
    return (config.actor_rollout_ref.rollout.get("agent") or {}).get("agent_loop_manager_class")


def _check_rollout(config: Any, subgroup: SubgroupConfig, findings: Findings) -> None:
    estimator = config.algorithm.get("adv_estimator")
    if estimator != ESTIMATOR_NAME:
        findings.error(
            f"algorithm.adv_estimator={estimator} cannot read the labels that {_MANAGER_KEY}={MANAGER_NAME} writes: "
            f"set algorithm.adv_estimator={ESTIMATOR_NAME} (with algorithm.subgroup.lam=0 it is GRPO)."
        )
    if not config.trainer.get("use_v1", True):
        findings.error(
            f"trainer.use_v1={config.trainer.use_v1} runs verl's legacy trainer, without the TransferQueue that "
            f"{_MANAGER_KEY}={MANAGER_NAME} writes to: set trainer.use_v1=True."
        )
    if subgroup.two_stage:
        _check_count(subgroup.strategy, config.actor_rollout_ref.rollout.n, findings)
        _check_room(subgroup.strategy, config.actor_rollout_ref.rollout, findings)
    try:
        _load(subgroup)
    except ConfigError as error:
        findings.error(str(error))


def _load(subgroup: SubgroupConfig) -> None:
    """Load the templates or the partition as a worker will."""
    if subgroup.two_stage:
        from subgroup_offset.strategy import load_templates

        load_templates(subgroup.strategy)
    else:
        from subgroup_offset.partition import make_partition

        make_partition(subgroup.partition, subgroup.partition_field, subgroup.partition_buckets)


def _check_count(strategy: StrategyConfig, n: int, findings: Findings) -> None:
    k, z = strategy.num_strategies, strategy.rollouts_per_strategy
    if n == strategy.rollouts_per_prompt:
        return
    if n % k == 0 and n > 0:
        other = f"keep {n} rollouts with {_STRATEGY}.rollouts_per_strategy={n // k}"
    else:
        other = f"change {_STRATEGY}.num_strategies and {_STRATEGY}.rollouts_per_strategy to match"
    findings.error(
        f"actor_rollout_ref.rollout.n={n} is not num_strategies * rollouts_per_strategy = {k} * {z}: "
        f"set actor_rollout_ref.rollout.n={strategy.rollouts_per_prompt}, or {other}."
    )


def _check_room(strategy: StrategyConfig, rollout: Any, findings: Findings) -> None:
    """A prompt without room for its strategies runs single-stage; here no prompt would have any."""
    context = rollout.get("max_model_len") or rollout.prompt_length + rollout.response_length
    if strategy.max_tokens >= context:
        findings.error(
            f"{_STRATEGY}.max_tokens={strategy.max_tokens} leaves no room for a prompt in a context of {context} "
            "tokens (rollout.max_model_len, or data.max_prompt_length + data.max_response_length), and no strategy "
            f"would be sampled: set {_STRATEGY}.max_tokens lower or the context longer."
        )


def _check_effect(config: Any, subgroup: SubgroupConfig, findings: Findings) -> None:
    """Settings that leave lam, the offsets or the whole step without effect."""
    if config.actor_rollout_ref.rollout.n == 1:
        findings.warn(
            f"actor_rollout_ref.rollout.n=1 gives {ESTIMATOR_NAME} groups of one rollout, whose advantages are all 0: "
            "set it to the number of rollouts a prompt (the paper's is 32)."
        )
    if subgroup.lam == 0:
        if subgroup.shuffle_offsets:
            findings.warn(
                "algorithm.subgroup.shuffle_offsets=True has no effect with algorithm.subgroup.lam=0, where no offset "
                "is used: set lam, or shuffle_offsets to false."
            )
        return
    if not (subgroup.two_stage and has_our_manager(config)):
        return
    if subgroup.strategy.num_strategies == 1:
        findings.warn(
            f"{_STRATEGY}.num_strategies=1 makes one subgroup a prompt, whose offset is 0: "
            f"algorithm.subgroup.lam={subgroup.lam:g} has no effect. Set num_strategies to 2 or above."
        )
    elif subgroup.strategy.rollouts_per_strategy == 1:
        findings.warn(
            f"{_STRATEGY}.rollouts_per_strategy=1 makes each rollout a subgroup of its own: "
            f"algorithm.subgroup.lam={subgroup.lam:g} only scales GRPO's advantages by {1 - subgroup.lam:g}. "
            "Set rollouts_per_strategy to 2 or above."
        )

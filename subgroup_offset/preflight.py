"""Checks of a whole verl config before Ray starts, so that a contradiction costs seconds and no accelerator."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, ConfigError, StrategyConfig, SubgroupConfig

MANAGER_NAME = "subgroup_offset.rollout.StrategyAgentLoopManager"
_MANAGER_KEY = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"


def check_run(config: Any) -> None:
    """Check what this package needs of a run. A run that uses neither the estimator nor the rollout passes untouched.

    Args:
        config: the whole config of ``verl.trainer.main_ppo``.

    Raises:
        ConfigError: naming key, value and fix.
    """
    estimator = config.algorithm.get("adv_estimator")
    rollout = config.actor_rollout_ref.rollout
    manager = (rollout.get("agent") or {}).get("agent_loop_manager_class")
    ours = manager == MANAGER_NAME
    if estimator != ESTIMATOR_NAME and not ours:
        return
    subgroup = SubgroupConfig.from_algorithm(config.algorithm)
    if ours:
        _check_rollout(config, subgroup, estimator, rollout)
    elif subgroup.lam != 0 and manager is None and config.trainer.get("use_v1", True):
        raise ConfigError(
            f"algorithm.subgroup.lam={subgroup.lam:g} needs subgroups, and verl's own rollout makes none: add "
            f"+{_MANAGER_KEY}={MANAGER_NAME}, or set algorithm.subgroup.lam=0 for plain GRPO."
        )


def _check_rollout(config: Any, subgroup: SubgroupConfig, estimator: str, rollout: Any) -> None:
    if estimator != ESTIMATOR_NAME:
        raise ConfigError(
            f"algorithm.adv_estimator={estimator} cannot read the labels that {_MANAGER_KEY}={MANAGER_NAME} writes: "
            f"set algorithm.adv_estimator={ESTIMATOR_NAME} (with algorithm.subgroup.lam=0 it is GRPO)."
        )
    if not config.trainer.get("use_v1", True):
        raise ConfigError(
            f"trainer.use_v1={config.trainer.use_v1} runs verl's legacy trainer, which does not use {_MANAGER_KEY}: "
            "set trainer.use_v1=True."
        )
    if subgroup.two_stage:
        _check_strategies(subgroup.strategy, rollout)
    else:
        from subgroup_offset.partition import make_partition

        make_partition(subgroup.partition, subgroup.partition_field, subgroup.partition_buckets)


def _check_strategies(strategy: StrategyConfig, rollout: Any) -> None:
    from subgroup_offset.strategy import load_templates

    if rollout.n != strategy.rollouts_per_prompt:
        raise ConfigError(
            f"actor_rollout_ref.rollout.n={rollout.n} is not num_strategies * rollouts_per_strategy = "
            f"{strategy.num_strategies} * {strategy.rollouts_per_strategy}: set actor_rollout_ref.rollout.n="
            f"{strategy.rollouts_per_prompt}, or change algorithm.subgroup.strategy to match."
        )
    load_templates(strategy)


def install(config_module: ModuleType) -> None:
    """Run :func:`check_run` after verl's own ``validate_config`` (``verl.utils.config``). Twice is once."""
    validate_config: Callable[..., None] = config_module.validate_config
    if hasattr(validate_config, "__wrapped__"):
        return
    import functools

    @functools.wraps(validate_config)
    def validate_and_check(config: Any, *args: Any, **kwargs: Any) -> None:
        validate_config(config, *args, **kwargs)
        check_run(config)

    config_module.validate_config = validate_and_check

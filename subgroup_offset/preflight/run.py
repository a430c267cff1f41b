"""Runs the checks, and installs them behind verl's own."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, ConfigError, SubgroupConfig
from subgroup_offset.preflight import estimator, ignored, legacy_reward, olmo3, requirements
from subgroup_offset.preflight.findings import Findings
from subgroup_offset.preflight.manager import Rollout, rollout_of


def check_run(config: Any) -> None:
    """Check what this package needs of a run, and which of the run's own settings verl would not follow.

    Where the run asks for a method and says ``algorithm.adv_estimator=grpo``, the config says ``grpo_subgroup``
    afterwards.

    Args:
        config: the whole config of ``verl.trainer.main_ppo``.

    Raises:
        ConfigError: naming key, value and fix, for all that is wrong.
    """
    findings = Findings()
    concerned = config.algorithm.get("adv_estimator") == ESTIMATOR_NAME or estimator.asks_for_a_method(config)
    rollout = _rollout(config, concerned, findings)
    if not (concerned or rollout is Rollout.OURS):
        requirements.check_unused(config, findings)
        findings.report()
        return
    estimator.take_over(config, rollout, findings)
    subgroup = SubgroupConfig.from_algorithm(config.algorithm)
    requirements.check(config, subgroup, rollout, findings)
    legacy_reward.check(config, findings)
    ignored.check(config, findings)
    olmo3.check(config, findings)
    findings.report(subgroup.checks)


def _rollout(config: Any, concerned: bool, findings: Findings) -> Rollout:
    """Whose rollout it is; a manager that cannot be imported is only our business where the run uses this package."""
    try:
        return rollout_of(config)
    except ConfigError as error:
        if concerned:
            findings.error(str(error))
        return Rollout.OTHER


def check_as_main_ppo(config: Any) -> None:
    """verl's checks of a config and :func:`check_run`, as the start of ``verl.trainer.main_ppo`` would run them.

    The config is changed as a run's own would be. Quietly: what is said about a config that is right, the run itself
    will say. Imports verl, and torch with it.

    Raises:
        ConfigError: ours.
        Exception: verl's checks raise what they like, AssertionError included.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validate_config(config, need_reference_policy(config), need_critic(config))
        if not _is_layered(validate_config):  # verl's plugins may be switched off in this process
            check_run(config)


def validate_and_check(wrapped: Callable[..., None], instance: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Wrapper (in wrapt's form) of verl's ``validate_config(config, use_reference_policy, use_critic)``."""
    wrapped(*args, **kwargs)
    check_run(args[0] if args else kwargs["config"])


def install(config_module: ModuleType) -> None:
    """Run :func:`check_run` after ``validate_config`` of ``verl.utils.config``, whoever else has wrapped it before.

    Calling it again changes nothing.
    """
    import wrapt

    if not _is_layered(config_module.validate_config):
        wrapt.wrap_function_wrapper(config_module, "validate_config", validate_and_check)


def _is_layered(function: Any) -> bool:
    """Whether one of the layers around verl's function is ours."""
    while function is not None:
        if getattr(function, "_self_wrapper", None) is validate_and_check:
            return True
        function = getattr(function, "__wrapped__", None)
    return False

"""Runs the checks, and installs them behind verl's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, SubgroupConfig
from subgroup_offset.preflight import ignored, moved, ours
from subgroup_offset.preflight.findings import Findings


def check_run(config: Any) -> None:
    """Check what this package needs of a run, and which of the run's own settings verl would not follow.

    Args:
        config: the whole config of ``verl.trainer.main_ppo``.

    Raises:
        ConfigError: naming key, value and fix, for all that is wrong.
    """
    findings = Findings()
    if config.algorithm.get("adv_estimator") == ESTIMATOR_NAME or ours.has_our_manager(config):
        subgroup = SubgroupConfig.from_algorithm(config.algorithm)
        ours.check(config, subgroup, findings)
        moved.check(config, findings)
        ignored.check(config, findings)
    else:
        ours.check_unused(config, findings)
    findings.settle()


def install(config_module: ModuleType) -> None:
    """Run :func:`check_run` after verl's own ``validate_config`` (``verl.utils.config``). Twice is once."""
    validate_config: Callable[..., None] = config_module.validate_config
    if hasattr(validate_config, "__wrapped__"):
        return

    @functools.wraps(validate_config)
    def validate_and_check(config: Any, *args: Any, **kwargs: Any) -> None:
        validate_config(config, *args, **kwargs)
        check_run(config)

    config_module.validate_config = validate_and_check

"""Runs the checks, and installs them behind verl's own."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import warnings
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


def check_as_main_ppo(config: Any) -> None:
    """verl's checks of a config and :func:`check_run`, as the start of ``verl.trainer.main_ppo`` would run them.

    Quietly: what verl says about a config that is right, the run itself will say. Imports verl, and torch with it.

    Raises:
        ConfigError: ours.
        Exception: verl's checks raise what they like, AssertionError included.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # verl's own, for where install() has put check_run behind it, that would run twice.
        inspect.unwrap(validate_config)(config, need_reference_policy(config), need_critic(config))
        check_run(config)


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

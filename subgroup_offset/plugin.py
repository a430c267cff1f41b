"""The ``verl.plugins`` entry point.

verl imports this module inside ``import verl``, in the driver and in every Ray worker, and logs a failure at DEBUG
only, so that a user would later see no more than "Unknown advantage estimator". Two rules follow: whatever fails here
is logged at WARNING with its cause, and nothing heavy is imported. What concerns a verl module waits for its import.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType

logger = logging.getLogger("subgroup_offset")


def register() -> None:
    """Install everything that this package adds to a verl process. Calling it again changes nothing."""


def _guarded(what: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        logger.warning("subgroup_offset: %s failed (%s: %s)", what, type(error).__name__, error, exc_info=True)


def _when_imported(module: str, what: str, action: Callable[[ModuleType], None]) -> None:
    """Run ``action`` once ``module`` is imported (now, if it is); a failure of it is logged, never raised."""
    import wrapt

    wrapt.when_imported(module)(lambda loaded: _guarded(what, lambda: action(loaded)))


def _register_estimators(core_algos: ModuleType) -> None:
    from subgroup_offset import estimators

    estimators.register()


def _register_losses(core_algos: ModuleType) -> None:
    from subgroup_offset.methods import losses

    losses.register(core_algos)


def _hook_metrics(tracking: ModuleType) -> None:
    from subgroup_offset import metrics

    metrics.install(tracking)


def _hook_validation(config_module: ModuleType) -> None:
    from subgroup_offset import preflight

    preflight.install(config_module)


def _configure_log() -> None:
    from subgroup_offset import logs

    logs.configure()


def _activate_cpu() -> None:
    from subgroup_offset import cpu

    if cpu.requested():
        cpu.activate()
    elif cpu.on_command_line():
        cpu.expect_no_accelerator()


def _install() -> None:
    _guarded("configuring the log", _configure_log)
    _when_imported("verl.trainer.ppo.core_algos", "registering the advantage estimator", _register_estimators)
    _when_imported("verl.trainer.ppo.core_algos", "registering the policy losses", _register_losses)
    _when_imported("verl.utils.tracking", "adding step metrics to verl's logger", _hook_metrics)
    _when_imported("verl.utils.config", "adding the checks before a run", _hook_validation)
    _guarded("setting up the CPU platform", _activate_cpu)


# verl only *loads* the entry point, it does not call it: importing this module is what counts.
_guarded("loading the plugin", _install)

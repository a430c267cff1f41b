"""verl, vLLM and Ray on machines without an accelerator. Inert unless ``VERL_PLATFORM=cpu``.

The pieces, each with the reason for it, are :data:`subgroup_offset.cpu.hooks.HOOKS` (what must be adjusted where verl
or vLLM has no setting for it) and :mod:`subgroup_offset.cpu.platform` (verl's own extension point for hardware).
The configuration keys of a CPU run are ``configs/platform/cpu.yaml``, switched on by ``+platform=cpu``.
"""

from __future__ import annotations

import logging
import os
import sys

PLATFORM_NAME = "cpu"


def requested() -> bool:
    """Whether this process was told to run without an accelerator."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == PLATFORM_NAME


def on_command_line() -> bool:
    """Whether this process's own overrides ask for ``configs/platform/cpu.yaml``, which Hydra reads after verl."""
    return any(argument.lstrip("+") == f"platform={PLATFORM_NAME}" for argument in sys.argv[1:])


def expect_no_accelerator() -> None:
    """Keep verl from warning, while it is imported, that there is no accelerator, and that it will be told otherwise.

    verl looks for its platform at import, and :class:`subgroup_offset.cpu.driver.UseCPUPlatform` corrects it later.
    """
    logging.getLogger("verl.plugin.platform.platform_manager").addFilter(_says_something_else)


def _says_something_else(record: logging.LogRecord) -> bool:
    expected = ("No supported accelerator", "Platform '%s' (%s) is registered but not", "Replacing already-initialised")
    return not str(record.msg).startswith(expected)


def activate() -> None:
    """Register the platform with verl and install the hooks. Doing it twice changes nothing."""
    from subgroup_offset.cpu import hooks, platform

    platform.register()
    hooks.install()

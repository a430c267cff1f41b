"""verl, vLLM and Ray on machines without an accelerator. Inert unless ``VERL_PLATFORM=cpu``.

The pieces, each with the reason for it, are :data:`subgroup_offset.cpu.hooks.HOOKS` (what must be adjusted where verl
or vLLM has no setting for it) and :mod:`subgroup_offset.cpu.platform` (verl's own extension point for hardware).
The configuration keys of a CPU run are ``configs/platform/cpu.yaml``, switched on by ``+platform=cpu``.
"""

from __future__ import annotations

import os

PLATFORM_NAME = "cpu"


def requested() -> bool:
    """Whether this process was told to run without an accelerator."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == PLATFORM_NAME


def activate() -> None:
    """Register the platform with verl and install the hooks. Doing it twice changes nothing."""
    from subgroup_offset.cpu import hooks, platform

    platform.register()
    hooks.install()

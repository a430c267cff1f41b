"""Makes ``+platform=cpu`` alone enough: the driver's own process, before verl reads its platform."""

from __future__ import annotations

import os
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from subgroup_offset.cpu import PLATFORM_NAME, activate


class UseCPUPlatform(Callback):
    """Hydra callback of ``configs/platform/cpu.yaml``.

    verl resolves its platform while ``main_ppo`` is imported, before Hydra has composed anything, so the driver may
    hold a CUDA platform by now. Ray's processes get ``VERL_PLATFORM`` from the run's ``runtime_env`` and start right.
    """

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        os.environ["VERL_PLATFORM"] = PLATFORM_NAME
        for name, value in config.ray_kwargs.ray_init.runtime_env.env_vars.items():
            os.environ.setdefault(name, str(value))
        activate()
        from verl.plugin.platform import get_platform, set_platform

        from subgroup_offset.cpu.platform import PlatformCPU

        if not isinstance(get_platform(), PlatformCPU):
            set_platform(PlatformCPU())

"""The host's processor as a verl platform, through verl's own registry of hardware."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from subgroup_offset.cpu import PLATFORM_NAME, requested
from subgroup_offset.cpu.device import CPUDevice, cpu


class PlatformCPU(PlatformBase):
    """A logical accelerator that is the host itself: Ray counts it as ``GPU``, torch computes on ``cpu``."""

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> CPUDevice:
        return cpu

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        # Never chosen by detection: a machine whose driver is broken must not train on its processor unasked.
        return requested()

    def current_device(self) -> Any:
        return cpu.current_device()

    def device_count(self) -> int:
        return cpu.device_count()

    def set_device(self, device_index: int) -> None:
        """There is one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Work on the host is done when the call returns."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The settings are CUDA's."""

    def empty_cache(self) -> None:
        """The host's allocator keeps no cache of its own."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def ray_resource_name(self) -> str:
        # Ray's own resource, as a logical one: `ray start --num-gpus=1` makes a node with one training rank.
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        # No device memory to share: verl then sends weights to vLLM through shared host memory.
        return False

    def cudart(self) -> Any:
        return None


def register() -> None:
    """Make ``VERL_PLATFORM=cpu`` known to verl."""
    if PlatformRegistry.get(PLATFORM_NAME) is not PlatformCPU:
        PlatformRegistry.register(PLATFORM_NAME)(PlatformCPU)

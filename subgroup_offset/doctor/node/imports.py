"""What a trainer's worker imports, one stage after the other: torch, verl, the plugin, vLLM, the model's tokenizer.

A stage that fails does not stop the next. One that ends the whole process or hangs is known by having begun.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

ESTIMATOR = "grpo_subgroup"
PACKAGE = "subgroup_offset"
_LONGEST_ERROR = 500


def emit(**facts: Any) -> None:
    """One line of the answer."""
    print(f"\n@@doctor@@{json.dumps(facts)}", flush=True)


def one_line(error: BaseException) -> str:
    """An error's type and text, short enough to be read in a list."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_ERROR]


def stage(name: str, action: Callable[[], Any]) -> None:
    """Run a stage and say how it went: ``{name: {"value": ...}}`` or ``{name: {"error": ...}}``."""
    emit(began=name)
    try:
        emit(**{name: {"value": action()}})
    except BaseException as error:  # SystemExit included: a library may call it
        emit(**{name: {"error": one_line(error)}})


def torch() -> dict[str, Any]:
    """What torch was built for and what it sees. Devices are asked for only where nvidia-smi cannot tell."""
    import torch

    count = torch.cuda.device_count()
    devices = []
    if shutil.which("nvidia-smi") is None:
        for properties in map(torch.cuda.get_device_properties, range(count)):
            devices.append({"name": properties.name, "memory": properties.total_memory})
    return {"build": torch.version.cuda or torch.version.hip, "count": count, "gpus": devices}


def verl() -> str:
    """``import verl``, which loads the plugins: its version."""
    import verl

    return verl.__version__


def layers(function: Any) -> set[str]:
    """The modules whose code runs when ``function`` is called: its own and those of all wrappers around it."""
    modules = set()
    while function is not None:
        wrapper = getattr(function, "_self_wrapper", function)
        modules.add(getattr(wrapper, "__globals__", {}).get("__name__", ""))
        function = getattr(function, "__wrapped__", None)
    return modules


def plugin() -> dict[str, Any]:
    """Whether verl has our estimator, and which of our hooks are in place."""
    core_algos = importlib.import_module("verl.trainer.ppo.core_algos")
    tracking = importlib.import_module("verl.utils.tracking")
    config = importlib.import_module("verl.utils.config")
    hooked = {
        "verl.utils.config.validate_config": config.validate_config,
        "verl.utils.tracking.Tracking.log": vars(tracking.Tracking)["log"],
    }
    hooks = {name: any(m.split(".")[0] == PACKAGE for m in layers(f)) for name, f in hooked.items()}
    if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
        from verl.plugin.platform import PlatformRegistry

        hooks["the platform `cpu`"] = PlatformRegistry.get("cpu") is not None
    return {
        "registered": ESTIMATOR in core_algos.ADV_ESTIMATOR_REGISTRY,
        "hooks": hooks,
        "import_error": import_error(f"{PACKAGE}.plugin"),
    }


def import_error(module: str) -> str | None:
    """Why a module cannot be imported: verl says so at DEBUG only."""
    try:
        importlib.import_module(module)
    except Exception as error:
        return one_line(error)
    return None


def vllm() -> str:
    """The module of verl that serves rollouts with vLLM, and so everything that it needs: vLLM's version."""
    importlib.import_module("verl.workers.rollout.vllm_rollout.vllm_async_server")
    return importlib.import_module("vllm").__version__


def tokenizers(models: list[dict]) -> dict[str, str | None]:
    """Load each model's config and tokenizer as verl does, through transformers: model -> error or None."""
    from transformers import AutoConfig, AutoTokenizer

    errors: dict[str, str | None] = {}
    for model in models:
        options = {"trust_remote_code": model["trust_remote_code"]}
        try:
            AutoConfig.from_pretrained(model["config"], **options)
            AutoTokenizer.from_pretrained(model["tokenizer"], **options)
            errors[model["path"]] = None
        except Exception as error:
            errors[model["path"]] = one_line(error)
    return errors


def main(request: dict) -> None:
    """All stages that are asked for."""
    stage("torch", torch)
    stage("verl", verl)
    stage("plugin", plugin)
    if request["vllm"]:
        stage("vllm", vllm)
    if request["models"]:
        stage("tokenizers", lambda: tokenizers(request["models"]))


if __name__ == "__main__":
    main(json.load(sys.stdin))
    # Some libraries start threads or processes that keep an interpreter from ending.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

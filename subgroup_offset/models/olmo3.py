"""Gives the Olmo 3 of the installed transformers a rotary embedding for each type of layer, if it has one for all.

For ``actor_rollout_ref.model.external_lib=subgroup_offset.models.olmo3``: verl imports it in every process that loads
a model, before it does. A transformers that is right by itself stays as it is. vLLM has an Olmo 3 of its own, which
``subgroup_offset.preflight.olmo3`` looks at.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import transformers
import wrapt
from transformers.models.olmo3 import modeling_olmo3

from subgroup_offset.models.rotary import FULL, SLIDING, RotaryByLayerType, scales

logger = logging.getLogger(__name__)


def correct() -> bool:
    """Correct the classes of ``modeling_olmo3`` where they scale sliding-window layers; says whether it had to.

    Models that exist already stay as they are.

    Raises:
        RuntimeError: if the classes are built in another way than this correction knows.
    """
    if not scales(SLIDING):
        return False
    rotary, attention = _classes()
    # Olmo3Model looks the name up when it is built, and hands what it returns to every layer.
    modeling_olmo3.Olmo3RotaryEmbedding = partial(RotaryByLayerType, rotary=rotary)
    forward = attention.forward
    attention.forward = wrapt.FunctionWrapper(forward, _with_own_rotation)
    if scales(SLIDING) or not scales(FULL):
        modeling_olmo3.Olmo3RotaryEmbedding, attention.forward = rotary, forward
        raise RuntimeError(_unknown("its sliding layers are scaled all the same, or its full ones no longer"))
    logger.info("Olmo 3 of transformers %s: RoPE is scaled on full-attention layers only", transformers.__version__)
    return True


def _with_own_rotation(wrapped: Any, attention: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Attention of one layer, with cosine and sine of its type."""
    rotations = kwargs.get("position_embeddings")
    if isinstance(rotations, dict):
        kwargs = kwargs | {"position_embeddings": rotations[attention.attention_type]}
    return wrapped(*args, **kwargs)


def _classes() -> tuple[type, type]:
    names = ("Olmo3RotaryEmbedding", "Olmo3Attention")
    missing = [name for name in names if not isinstance(getattr(modeling_olmo3, name, None), type)]
    if missing:
        raise RuntimeError(_unknown(f"it has no class {' and no '.join(missing)}"))
    return modeling_olmo3.Olmo3RotaryEmbedding, modeling_olmo3.Olmo3Attention


def _unknown(what: str) -> str:
    return (
        f"Olmo 3 of transformers {transformers.__version__} scales the RoPE of its sliding-window layers, which the "
        f"released model does not, and cannot be corrected here: {what}. Training it would be off-policy to what vLLM "
        "samples. Install transformers 5.9 or 5.10, with which the correction was tried."
    )


correct()

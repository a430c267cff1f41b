"""Rotary position embedding of Olmo 3: YaRN on the full-attention layers, plain RoPE on the sliding-window ones.

Olmo 3 was extended to long contexts that way (its report ablates scaling the sliding layers too, and rejects it). A
version of transformers with one rotary embedding for all layers scales the sliding ones as well. The model then is
another one than was released and than vLLM samples from, and a training on its log-probabilities is off-policy from
the first step, without a message.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import Olmo3Config
from transformers.models.olmo3 import modeling_olmo3

FULL, SLIDING = "full_attention", "sliding_attention"
# It moves the frequencies and scales cosine and sine, so that a few tokens show it.
_PROBE = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "attention_factor": 1.5}


def layer_parameters(rope_parameters: Mapping[str, Any], layer_type: str) -> dict[str, Any]:
    """``rope_parameters`` of an Olmo 3 config as they hold for one type of layer.

    Args:
        rope_parameters: as in config.json, one set for the model, or one for each type of layer.
        layer_type: ``full_attention`` or ``sliding_attention``.
    """
    if layer_type in rope_parameters:
        return dict(rope_parameters[layer_type])
    if layer_type == FULL:
        return dict(rope_parameters)
    return {"rope_type": "default", "rope_theta": rope_parameters["rope_theta"]}


class RotaryByLayerType(nn.Module):
    """The model's own rotary embedding, once for each type of layer.

    Each has a config of its own, from which transformers fills its frequencies again after loading weights.
    """

    def __init__(self, config: Olmo3Config, rotary: type[nn.Module], device: torch.device | None = None) -> None:
        super().__init__()
        self.of_type = nn.ModuleDict()
        for layer_type in sorted(set(config.layer_types)):
            own = copy.copy(config)
            own.rope_parameters = layer_parameters(config.rope_parameters, layer_type)
            self.of_type[layer_type] = rotary(own, device=device)

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Cosine and sine (batch, tokens, head_dim), by type of layer."""
        return {layer_type: rotary(x, position_ids) for layer_type, rotary in self.of_type.items()}


def scales(layer_type: str) -> bool:
    """Whether this process's Olmo 3 scales the RoPE of such layers: its outputs with YaRN and without, compared."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
        torch.manual_seed(0)
        scaled = _probe_model(layer_type, _PROBE)
        plain = _probe_model(layer_type, None)
        plain.load_state_dict(scaled.state_dict())
        ids = torch.arange(24)[None]
        outputs = [model(input_ids=ids, use_cache=False).last_hidden_state for model in (scaled, plain)]
    return not torch.allclose(*outputs, atol=1e-6)


def _probe_model(layer_type: str, rope_scaling: Mapping[str, Any] | None) -> nn.Module:
    """A layer of each type, described as the released config.json does; only attention of ``layer_type`` adds to it."""
    config = Olmo3Config(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        layer_types=[SLIDING, FULL],
        rope_theta=10000.0,
        rope_scaling=rope_scaling and dict(rope_scaling),
        pad_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    model = modeling_olmo3.Olmo3Model(config).float().eval()
    for layer, own_type in zip(model.layers, config.layer_types, strict=True):
        if own_type != layer_type:
            layer.self_attn.o_proj.weight.zero_()
    return model

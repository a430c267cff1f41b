"""A tiny Olmo 3 with the released model's rotary settings, and its log-probabilities."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Olmo3Config

from subgroup_offset.models.rotary import FULL, SLIDING

# Of allenai/Olmo-3-1025-7B.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "attention_factor": 1.2079441541679836,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
PLAIN = {"rope_type": "default", "rope_theta": 500000.0}
BY_TYPE = {FULL: YARN, SLIDING: PLAIN}
ALL_POSITIONS = 65536


def _as_released() -> dict[str, Any]:
    """As config.json has them."""
    scaling = {key: value for key, value in YARN.items() if key != "rope_theta"}
    return {"rope_scaling": scaling, "rope_theta": YARN["rope_theta"]}


def tiny(rope_parameters: dict = YARN, **sizes) -> Olmo3Config:
    """Eight layers of which two are full-attention ones, heads of the released model's width."""
    sizes = {"hidden_size": 256, "num_attention_heads": 2, "num_hidden_layers": 8, "sliding_window": 16} | sizes
    return Olmo3Config(
        vocab_size=64,
        intermediate_size=32,
        max_position_embeddings=ALL_POSITIONS,
        **({"rope_parameters": copy.deepcopy(rope_parameters)} if FULL in rope_parameters else _as_released()),
        pad_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
        **sizes,
    )


def random_model(config: Olmo3Config) -> torch.nn.Module:
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if parameter.dim() == 1 else 0.0, std=0.2)
    return model


IDS = torch.arange(40) * 7 % 64


def log_probs(model: torch.nn.Module) -> torch.Tensor:
    """Of the second token of IDS and all that follow."""
    with torch.no_grad():
        logits = model(input_ids=IDS[None]).logits[0]
    return logits.log_softmax(-1)[:-1].gather(1, IDS[1:, None])[:, 0]

"""The two models of the recipes by their config.json, which is all that sizes and arguments need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QWEN3_8B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 12288,
    "max_position_embeddings": 32768,
    "max_window_layers": 36,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
OLMO3_7B: dict[str, Any] = {
    "architectures": ["Olmo3ForCausalLM"],
    "model_type": "olmo3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "eos_token_id": 100257,
    "pad_token_id": 100277,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
    "max_position_embeddings": 65536,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "attention_factor": 1.2079441541679836,
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "yarn",
    },
    "rope_theta": 500000,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 100278,
}
CONFIGS = {"qwen3_8b": QWEN3_8B, "olmo3_7b": OLMO3_7B}


def write_model(recipe: str, directory: Path) -> Path:
    """A directory with the model's config, its generation_config and a small tokenizer, without weights."""
    from subgroup_offset.toy.tokenizer import build_tokenizer

    build_tokenizer().save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps(CONFIGS[recipe]), "utf-8")
    generation = {"do_sample": False, "eos_token_id": CONFIGS[recipe]["eos_token_id"], "max_new_tokens": 2048}
    (directory / "generation_config.json").write_text(json.dumps(generation), "utf-8")
    return directory

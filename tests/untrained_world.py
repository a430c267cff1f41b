"""A toy world without its warm start: sound files of data, tokenizer, config and weights in seconds."""

from __future__ import annotations

from pathlib import Path


def write_untrained_world(root: Path) -> Path:
    """Write toy-train.parquet, toy-val.parquet (8 rows each) and model/ into a directory, and return it."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from subgroup_offset.toy import write_data
    from subgroup_offset.toy.tokenizer import build_tokenizer

    write_data(root, 8, 8)
    tokenizer = build_tokenizer()
    config = Qwen3Config(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, intermediate_size=32)
    Qwen3ForCausalLM(config).save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    return root

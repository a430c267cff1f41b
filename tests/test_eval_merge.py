"""verl's own merger on shards that verl's own checkpoint manager wrote, from two ranks."""

from __future__ import annotations

import os

import pytest
import torch
from fsdp_checkpoint import write_fsdp_checkpoint
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from subgroup_offset.evaluation.checkpoint import find_checkpoint
from subgroup_offset.evaluation.merge import merged
from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.toy.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=False,
    )
    directory = tmp_path_factory.mktemp("model")
    Qwen3ForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.slow
def test_merged_weights_are_the_saved_ones(model, tmp_path):
    step = tmp_path / "global_step_5"
    write_fsdp_checkpoint(model, step)
    checkpoint = find_checkpoint(step)
    directory = merged(checkpoint)
    saved, found = load_file(model / "model.safetensors"), load_file(directory / "model.safetensors")
    assert saved.keys() == found.keys() and len(saved) > 20
    for name, weight in saved.items():
        # verl's merger rounds to bfloat16.
        assert found[name].dtype == torch.bfloat16 and torch.equal(found[name], weight.bfloat16()), name
    text = "What is 7 times 8?"
    assert AutoTokenizer.from_pretrained(directory).encode(text) == build_tokenizer().encode(text)
    whole = find_checkpoint(directory)
    assert whole.directory == directory and not whole.sharded and whole.step == 5
    # Merged once, and again only for other shards.
    made = (directory / "model.safetensors").stat().st_ino
    assert merged(checkpoint) == directory and (directory / "model.safetensors").stat().st_ino == made
    os.utime(step / "actor" / "model_world_size_2_rank_1.pt", (1, 1))
    assert merged(checkpoint) == directory and (directory / "model.safetensors").stat().st_ino != made
    assert sorted(path.name for path in step.iterdir()) == ["actor", "merged_hf"]


@pytest.mark.slow
def test_shards_that_cannot_be_merged(tmp_path):
    actor = tmp_path / "global_step_1" / "actor"
    actor.mkdir(parents=True)
    (actor / "fsdp_config.json").write_text('{"world_size": 1}')
    (actor / "model_world_size_1_rank_0.pt").write_bytes(b"no weights")
    with pytest.raises(EvaluationError, match="cannot be merged: verl's merger ended with 1"):
        merged(find_checkpoint(actor))
    assert [path.name for path in actor.parent.iterdir()] == ["actor"]

"""Which weights a path stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subgroup_offset.evaluation.checkpoint import TRACKER, find_checkpoint
from subgroup_offset.evaluation.plan import EvaluationError


def write_model(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (directory / name).write_text("{}")
    return directory


def write_shards(step: Path, ranks: int = 2) -> Path:
    (step / "actor" / "huggingface").mkdir(parents=True)
    (step / "actor" / "huggingface" / "config.json").write_text("{}")
    (step / "actor" / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    for rank in range(ranks):
        (step / "actor" / f"model_world_size_{ranks}_rank_{rank}.pt").write_bytes(b"x" * rank)
    return step


def write_run(checkpoints: Path, *steps: int) -> None:
    for step in steps:
        write_shards(checkpoints / f"global_step_{step}")
    (checkpoints / TRACKER).write_text(str(steps[-1]))


def test_a_model(tmp_path):
    model = write_model(tmp_path / "model")
    found = find_checkpoint(model)
    assert found.directory == model and not found.sharded and found.run is None and found.step is None
    assert sorted(found.fingerprint()) == ["config.json", "model.safetensors", "tokenizer.json"]
    before = found.fingerprint()
    (model / "model.safetensors").write_text("other")
    assert found.fingerprint() != before
    (model / "README.md").write_text("more")
    (model / "model.safetensors").unlink()
    with pytest.raises(EvaluationError, match=r"has a config.json, but no weights \(\*.safetensors or"):
        find_checkpoint(model)


@pytest.mark.parametrize("given", [".", "actor"])
def test_a_checkpoint_of_verl(tmp_path, given):
    step = write_shards(tmp_path / "global_step_12")
    found = find_checkpoint(step / given)
    assert found.directory == step / "actor" and found.sharded and found.step == 12 and found.run is None
    shards = [f"model_world_size_2_rank_{rank}.pt" for rank in range(2)]
    assert sorted(found.fingerprint()) == ["huggingface/config.json", *shards]


def test_a_checkpoint_with_the_whole_model(tmp_path):
    step = write_shards(tmp_path / "global_step_3")
    (step / "actor" / "huggingface" / "model.safetensors").write_text("{}")
    found = find_checkpoint(step)
    assert found.directory == step / "actor" / "huggingface" and not found.sharded and found.step == 3


@pytest.mark.parametrize("checkpoints", [".", "checkpoints", "checkpoints/project/experiment"])
def test_a_run(tmp_path, checkpoints):
    write_run(tmp_path / "run" / checkpoints, 2, 10, 4)
    found = find_checkpoint(tmp_path / "run")
    assert found.step == 4 and found.sharded and found.run == tmp_path / "run"
    assert find_checkpoint(tmp_path / "run", step=10).directory.parent.name == "global_step_10"
    with pytest.raises(EvaluationError, match="has no checkpoint of step 5: there are steps 2, 4, 10"):
        find_checkpoint(tmp_path / "run", step=5)


def test_what_cannot_be_used(tmp_path):
    def refused(path, message, **kwargs):
        with pytest.raises(EvaluationError, match=message):
            find_checkpoint(path, **kwargs)

    refused(tmp_path / "absent", "is no directory")
    refused(Path("+platform=cpu"), "is no directory: .* Overrides come after the checkpoint")
    refused(tmp_path, "is neither a model .* nor a checkpoint .* trainer.save_freq above 0")
    refused(write_model(tmp_path / "model"), "--step 3 chooses among a run's checkpoints", step=3)
    step = write_shards(tmp_path / "global_step_1", ranks=3)
    (step / "actor" / "model_world_size_3_rank_1.pt").unlink()
    refused(step, "lacks 1 of 3 shards, model_world_size_3_rank_1.pt")
    (step / "actor" / "fsdp_config.json").write_text("{}")
    refused(step, r"does not say world_size")
    (step / "actor" / "fsdp_config.json").unlink()
    refused(step, "is no FSDP checkpoint: .*--backend megatron")
    (step / "actor" / "lora_train_meta.json").write_text("{}")
    refused(step, "is a LoRA checkpoint")
    for name in ("a", "b"):
        write_run(tmp_path / "two" / "checkpoints" / "p" / name, 1)
    refused(tmp_path / "two", "holds the checkpoints of 2 runs: give one of .*/p/a, .*/p/b")
    write_run(tmp_path / "broken", 1)
    (tmp_path / "broken" / TRACKER).write_text("")
    refused(tmp_path / "broken", "says '', no step: give one with --step")
    assert find_checkpoint(tmp_path / "broken", step=1).step == 1

"""A real evaluation on the CPU: a run's sharded checkpoint, merged by verl, sampled by its replicas in three starts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch
from eval_samples import row, write
from failing_loop import ENDLESS, FAILING, PROBLEM
from fsdp_checkpoint import write_fsdp_checkpoint
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoTokenizer

from subgroup_offset.evaluation.checkpoint import TRACKER, find_checkpoint
from subgroup_offset.evaluation.evaluate import Grading, evaluate_checkpoint
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.merge import merged
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey, SamplingPlan
from subgroup_offset.evaluation.problems import read_problems
from subgroup_offset.evaluation.run_config import Sampling
from subgroup_offset.evaluation.samples import OVERALL, read_samples
from subgroup_offset.toy.tokenizer import build_tokenizer

pytestmark = pytest.mark.slow

SAMPLING = Sampling(samples=2, max_prompt_length=64, max_response_length=16)
TOTAL = 64 * SAMPLING.samples


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory) -> Path:
    """The directory of a run with a checkpoint of two ranks."""
    directory = tmp_path_factory.mktemp("run")
    write_fsdp_checkpoint(toy / "model", directory / "checkpoints" / "global_step_3")
    (directory / "checkpoints" / TRACKER).write_text("3")
    return directory


def test_merged_weights_are_the_saved_ones(toy, run):
    checkpoint = find_checkpoint(run)
    directory = merged(checkpoint)
    saved, found = load_file(toy / "model" / "model.safetensors"), load_file(directory / "model.safetensors")
    assert found.keys() <= saved.keys() and len(found) > 20  # tied weights are there once
    for name, weight in found.items():
        # verl's merger rounds to bfloat16.
        assert weight.dtype == torch.bfloat16 and torch.equal(weight, saved[name].bfloat16()), name
    text = "What is 7 times 8?"
    assert AutoTokenizer.from_pretrained(directory).encode(text) == build_tokenizer().encode(text)
    whole = find_checkpoint(directory)
    assert whole.directory == directory and not whole.sharded and whole.step == 3
    made = (directory / "model.safetensors").stat().st_ino
    assert merged(checkpoint) == directory and (directory / "model.safetensors").stat().st_ino == made


def test_other_shards_are_merged_again_and_nothing_stays_of_a_failure(tmp_path):
    actor = tmp_path / "global_step_1" / "actor"
    (actor.parent / "merged_hf").mkdir(parents=True)
    (actor.parent / "merged_hf" / "merged_from.json").write_text('{"of": [1, 2]}')
    actor.mkdir()
    (actor / "fsdp_config.json").write_text('{"world_size": 1}')
    (actor / "model_world_size_1_rank_0.pt").write_bytes(b"no weights")
    with pytest.raises(EvaluationError, match="cannot be merged: verl's merger ended with 1"):
        merged(find_checkpoint(actor))
    assert sorted(path.name for path in actor.parent.iterdir()) == ["actor", "merged_hf"]


def test_an_evaluation_in_three_starts(toy, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    console = Console(record=True, width=200)
    evaluation = run / "evaluation"
    plan = SamplingPlan(tuple(read_problems(toy, ["toy-val"])), 1, SAMPLING.samples)
    problems = {problem.id: problem for problem in plan.problems}

    def start(*overrides: str, sampling: Sampling = SAMPLING):
        settings = {"data_dir": toy, "benchmarks": ["toy-val"], "replicas": 1, "sampling": sampling}
        overrides = ("+platform=cpu", *overrides)
        return evaluate_checkpoint(run, None, **settings, overrides=overrides, grading=Grading(console=console))

    # What is refused before leaves nothing that a second try would have to agree with.
    with pytest.raises(EvaluationError, match="are longer than 10 tokens"):
        start(sampling=Sampling(samples=2, max_prompt_length=10, max_response_length=16))
    assert not (evaluation / "evaluation.json").exists()

    # A run that ends at once.
    with pytest.raises(EvaluationError) as failed:
        start("++trainer.here=${there}")
    assert "Interpolation key 'there' not found" in str(failed.value)  # the end of its log
    assert f"0 of {TOTAL} samples are there; the same command goes on" in str(failed.value)

    # A real one, which goes on with what is missing; one sample fails.
    done = [row(key, "Answer: 7", problems[key.problem].reference) for key in list(plan.keys())[:5]]
    write(evaluation / "samples", done)
    (tmp_path / "loops.yaml").write_text("- {name: single_turn_agent, _target_: failing_loop.FailingAgentLoop}")
    with pytest.raises(EvaluationError) as failed:
        start(f"actor_rollout_ref.rollout.agent.agent_loop_config_path={tmp_path / 'loops.yaml'}")
    assert "1 requests failed: RuntimeError: a sample of this test fails" in str(failed.value)
    assert f"{TOTAL - 1} of {TOTAL} samples are there" in str(failed.value)
    text = console.export_text()
    assert f"{TOTAL - 5} of {TOTAL} samples to generate" in text and f"samples {TOTAL - 1}/{TOTAL}" in text
    rows = dict(read_generations(evaluation / "samples"))
    lost = SampleKey("toy-val", PROBLEM, 0, FAILING)
    assert set(plan.keys()) - set(rows) == {lost}
    assert [rows[key] for key in list(plan.keys())[:5]] == done
    for key in list(plan.keys())[5:]:
        if key == lost:
            continue
        problem, made = problems[key.problem], rows[key]
        assert made["reference"] == problem.reference
        chat = build_tokenizer().apply_chat_template(problem.chat, add_generation_prompt=True)["input_ids"]
        assert made["prompt_tokens"] == len(chat) and 0 < made["response_tokens"] <= 16
        assert made["truncated"] <= (made["response_tokens"] == 16)
        assert made["reward"] in (-1.0, 1.0) and made["reward_correct"] == (made["reward"] > 0)
    endless = rows[lost._replace(sample=ENDLESS)]
    assert endless["truncated"] and endless["response_tokens"] == 16
    # The model knows some of the times table: its own weights were sampled from, its prompts understood.
    assert sum(made.get("reward_correct", False) for made in rows.values()) / TOTAL > 0.1
    seeds = re.findall(r"rollout\.seed=(\d+)", (evaluation / "run/hydra/.hydra/overrides.yaml").read_text())
    assert seeds == ["10000"]  # the first start's was 0

    # Another evaluation is refused; the third start has nothing to make, and grades.
    with pytest.raises(EvaluationError, match="max_response_length: 16 there, 8 now"):
        start(sampling=Sampling(samples=2, max_prompt_length=64, max_response_length=8))
    with pytest.raises(EvaluationError, match=r"val_kwargs\.top_k: -1 there, 5 now"):
        start("actor_rollout_ref.rollout.val_kwargs.top_k=5")
    write(evaluation / "samples", [row(lost, "none", problems[PROBLEM].reference)])
    outcome = start()
    assert f"All {TOTAL} samples are there" in console.export_text()
    assert outcome.counts[OVERALL]["samples"] == TOTAL and not outcome.replicas.counts["missing_replicas"].any()
    graded = read_samples(evaluation / "graded.jsonl")
    assert len(graded) == TOTAL and not graded["correct"].isna().any()
    record = json.loads((evaluation / "evaluation.json").read_text())
    assert [entry["missing"] for entry in record["starts"]] == [TOTAL, TOTAL - 5] and record["settings"]["step"] == 3

    write(evaluation / "samples", [row(lost._replace(replica=7))])
    with pytest.raises(EvaluationError, match="1 samples are not of this evaluation"):
        start()

"""The way of an evaluation from its command to verl and back, with a verl run that refuses its config at once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from eval_samples import row, write
from rich.console import Console
from test_eval_problems import write_benchmark

from subgroup_offset.evaluation.evaluate import evaluate_checkpoint
from subgroup_offset.evaluation.plan import EvaluationError, SamplingPlan
from subgroup_offset.evaluation.problems import read_problems
from subgroup_offset.evaluation.run_config import Sampling
from subgroup_offset.evaluation.samples import OVERALL
from subgroup_offset.toy.tokenizer import build_tokenizer

REFUSED = "actor_rollout_ref.actor.use_dynamic_bsz=False"
SAMPLING = Sampling(samples=2, max_prompt_length=512, max_response_length=64)


@pytest.fixture
def model(tmp_path) -> Path:
    from transformers import Qwen3Config

    directory = tmp_path / "model"
    Qwen3Config(architectures=["Qwen3ForCausalLM"]).save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
    (directory / "model.safetensors").write_bytes(b"no run gets so far as to read them")
    return directory


@pytest.mark.slow
def test_starts_and_their_traces(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_benchmark(tmp_path, "aime24")
    plan = SamplingPlan(tuple(read_problems(tmp_path, ["aime24"])), 2, 2)
    console = Console(record=True, width=200)

    def start(*overrides: str, sampling: Sampling = SAMPLING):
        settings = {"data_dir": tmp_path, "benchmarks": ["aime24"], "replicas": 2, "sampling": sampling}
        overrides = ("+platform=cpu", *overrides)
        return evaluate_checkpoint(model, tmp_path / "out", **settings, overrides=overrides, console=console)

    # What is refused before leaves nothing that a second try would have to agree with.
    with pytest.raises(EvaluationError, match="are longer than 100 tokens"):
        start(sampling=Sampling(samples=2, max_prompt_length=100, max_response_length=64))
    assert not (tmp_path / "out" / "evaluation.json").exists()

    with pytest.raises(EvaluationError) as failed:
        start(REFUSED)
    assert "actor.ppo_micro_batch_size" in str(failed.value)  # the end of verl's log
    assert "0 of 8 samples are there; the same command goes on" in str(failed.value)
    assert "8 of 8 samples to generate" in console.export_text()

    done = list(plan.keys())[:5]
    write(tmp_path / "out" / "samples", [row(key, f"Answer: {key.sample}") for key in done])
    with pytest.raises(EvaluationError, match="5 of 8 samples are there"):
        start(REFUSED)
    assert "3 of 8 samples to generate" in console.export_text()
    rows = pq.read_table(tmp_path / "out" / "run" / "rows-1.parquet").to_pylist()
    assert [row["extra_info"]["samples"] for row in rows] == [[1], [0, 1]]
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert [entry["missing"] for entry in record["starts"]] == [8, 3]
    seeds = re.findall(r"seed=(\d+)", (tmp_path / "out/run/hydra/.hydra/overrides.yaml").read_text())
    assert seeds == ["10000"]  # the first start's was 0

    with pytest.raises(EvaluationError, match="max_response_length: 64 there, 32 now"):
        start(REFUSED, sampling=Sampling(samples=2, max_prompt_length=512, max_response_length=32))
    with pytest.raises(EvaluationError, match=r"val_kwargs\.top_k: -1 there, 5 now"):
        start(REFUSED, "actor_rollout_ref.rollout.val_kwargs.top_k=5")

    write(tmp_path / "out" / "samples", [row(key, "Answer: 56") for key in list(plan.keys())[5:]])
    outcome = start()
    assert "All 8 samples are there" in console.export_text()
    assert outcome.counts[OVERALL]["samples"] == 8 and not outcome.replicas.counts["missing_replicas"].any()

    write(tmp_path / "out" / "samples", [row(next(plan.keys())._replace(replica=7))])
    with pytest.raises(EvaluationError, match="1 samples are not of this evaluation"):
        start()

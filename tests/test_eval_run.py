"""A real evaluation on the CPU: the four benchmarks, a run's sharded checkpoint, verl and vLLM, cut off and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from fsdp_checkpoint import write_fsdp_checkpoint

from subgroup_offset.cluster.processes import hear_interrupts
from subgroup_offset.data.prepare import prepare
from subgroup_offset.evaluation.checkpoint import TRACKER
from subgroup_offset.evaluation.generations import SampleCounter, read_generations
from subgroup_offset.evaluation.problems import BENCHMARKS, read_problems
from subgroup_offset.evaluation.samples import OVERALL, read_samples

PROGRAM = "import typer; from subgroup_offset.evaluation.eval_command import evaluate; typer.run(evaluate)"
SAMPLES = 2
TOTAL = 4 * 30 * SAMPLES
RESPONSE = 32


@pytest.fixture
def run(toy, tmp_path) -> Path:
    """The directory of a run with a checkpoint."""
    directory = tmp_path / "run"
    write_fsdp_checkpoint(toy / "model", directory / "checkpoints" / "global_step_3")
    (directory / "checkpoints" / TRACKER).write_text("3")
    return directory


def command(run: Path, data: Path, *overrides: str) -> list[str]:
    options = ["--replicas=1", f"--samples={SAMPLES}", "--max-prompt-length=1700", f"--max-response-length={RESPONSE}"]
    return [sys.executable, "-c", PROGRAM, str(run), f"--data-dir={data}", *options, "+platform=cpu", *overrides]


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.slow
def test_four_benchmarks_cut_off_and_resumed(run, shared_data, tmp_path):
    data, samples = tmp_path / "data", run / "evaluation" / "samples"
    for name in BENCHMARKS:
        prepare(name, source=str(shared_data / f"{name}.jsonl"), output=data)

    # Few sequences at once, so that there is a middle to cut.
    started = command(run, data, "actor_rollout_ref.rollout.max_num_seqs=8")
    with (tmp_path / "first.txt").open("w") as output:
        first = subprocess.Popen(started, stdout=output, stderr=subprocess.STDOUT, preexec_fn=hear_interrupts)
        counter = SampleCounter(samples)
        while counter.count() < TOTAL // 10:
            assert first.poll() is None, (tmp_path / "first.txt").read_text()
            time.sleep(0.2)
        processes = family(first.pid)
        os.kill(first.pid, signal.SIGINT)
        assert first.wait(timeout=120) == 130
    assert "The same command goes on" in (tmp_path / "first.txt").read_text()
    assert processes and not [process for process in processes if process.is_running()]
    before = dict(read_generations(samples))
    assert TOTAL // 10 <= len(before) < TOTAL

    # Other engine settings, the same evaluation.
    done = subprocess.run(command(run, data), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{TOTAL - len(before)} of {TOTAL} samples to generate" in done.stdout
    assert "INCOMPLETE" not in done.stdout

    # Everything is there once, and what was finished before the cut is as it was.
    rows = dict(read_generations(samples))
    assert len(rows) == TOTAL and SampleCounter(samples).count() == TOTAL
    assert all(rows[key] == row for key, row in before.items())
    problems = {(p.benchmark, p.id): p for p in read_problems(data)}
    assert Counter((key.benchmark, key.problem) for key in rows) == dict.fromkeys(problems, SAMPLES)
    for key, row in rows.items():
        assert row["reference"] == problems[key.benchmark, key.problem].reference
        assert 0 < row["response_tokens"] <= RESPONSE and row["prompt_tokens"] > 200
        assert row["truncated"] <= (row["response_tokens"] == RESPONSE)
        assert row["reward"] in (-1.0, 1.0) and row["reward_correct"] == (row["reward"] > 0)
    assert any(row["truncated"] for row in rows.values())
    asked = [row["extra_info"] for row in pq.read_table(run / "evaluation/run/rows-1.parquet").to_pylist()]
    again = {(extra["benchmark"], extra["id"], extra["replica"], s) for extra in asked for s in extra["samples"]}
    assert again == set(rows) - set(before)

    # Graded and counted.
    graded = read_samples(run / "evaluation" / "graded.jsonl")
    assert len(graded) == TOTAL and not graded["correct"].isna().any()
    results = json.loads((run / "evaluation" / "results.json").read_text())
    assert results["counts"][OVERALL]["samples"] == TOTAL
    assert results["counts"][OVERALL]["truncated"] == sum(row["truncated"] for row in rows.values())
    metrics = {(row["benchmark"], row["metric"]): row for row in results["metrics"]}
    assert {name for name, _ in metrics} == {*BENCHMARKS, OVERALL}
    assert metrics[OVERALL, "pass@1"]["problems"] == 120
    share = graded["correct"].mean()
    assert metrics[OVERALL, "pass@1"]["value"] == pytest.approx(share)

    # A third start generates nothing; other settings are refused.
    other = subprocess.run([*command(run, data), "--temperature=1"], capture_output=True, text=True, timeout=300)
    assert other.returncode == 1 and "temperature: 0.7 there, 1.0 now" in other.stderr
    third = subprocess.run(command(run, data), capture_output=True, text=True, timeout=300)
    assert third.returncode == 0 and f"All {TOTAL} samples are there" in third.stdout
    record = json.loads((run / "evaluation" / "evaluation.json").read_text())
    assert len(record["starts"]) == 2 and record["settings"]["step"] == 3

"""A real study on the CPU, from the first command to the report: verl, FSDP, vLLM, Ray, the weight sync between them.

Its training is killed, its evaluation interrupted, and the same command goes on each time. A start takes a minute or
more, so one study answers many questions.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from subgroup_offset.cluster.job_record import JobRecord
from subgroup_offset.cluster.launch import read_run_steps
from subgroup_offset.cluster.processes import hear_interrupts
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.samples import read_samples
from subgroup_offset.strategy import extract_preview
from subgroup_offset.strategy.dump import Rollout, read_rollouts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
K = Z = 4
PROMPTS = 8
STEPS = 3
#: 64 problems of toy-val, 2 replicas of 16 samples.
SAMPLES = 64 * 2 * 16
#: Names the study in the environment of every process that comes of it.
MARK = "STUDY_TEST"

STEP_METRICS = {
    *(f"subgroup/{k}" for k in ("informative_share", "term_ratio", "abs_offset", "constant_groups", "success_rate")),
    *(f"subgroup/{k}" for k in ("rows_total", "rows_masked", "rows_nonfinite", "groups")),
    *(f"strategy/{k}" for k in ("usable_per_candidate", "empty_slots", "jaccard_distance", "token_share")),
    *(f"strategy/{k}" for k in ("seconds_mean", "seconds_max", "failed_requests", "overlong_prompts")),
}


class Finished:
    """A run that has ended: its directory, its logged training steps and its rollouts."""

    def __init__(self, directory: Path, rollouts: Path) -> None:
        logged = read_run_steps(directory)
        self.directory, self._rollouts = directory, rollouts
        self.validation = [s for s in logged if s.step == 0]
        self.training = [s for s in logged if s.step > 0]

    def rollouts(self, step: int) -> dict[str, list[Rollout]]:
        groups: dict[str, list[Rollout]] = defaultdict(list)
        for rollout in read_rollouts(self._rollouts / f"{step}.jsonl"):
            groups[rollout.prompt].append(rollout)
        return groups


class Study:
    """``scripts/toy_study`` with one run of Contrast, started as often as it takes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.job = directory / "runs" / "job"
        self.outputs: list[str] = []
        self._overrides = [
            f"data.train_batch_size={PROMPTS}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
            f"trainer.validation_data_dir={directory}/validation",
            "trainer.save_freq=1",
            "actor_rollout_ref.rollout.val_kwargs.n=2",
        ]
        self._env = {**os.environ, "METHODS": "contrast", "SEEDS": "1", "STEPS": str(STEPS), MARK: str(directory)}

    def start(self, disturb: Callable[[psutil.Process], None] | None = None) -> int:
        """Run the script, with what is to happen to it meanwhile; its exit code."""
        path = self.directory / f"start_{len(self.outputs) + 1}.txt"
        with path.open("w") as output:
            script = psutil.Popen(
                [SCRIPTS / "toy_study", self.directory, *self._overrides],
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=hear_interrupts,
            )
        try:
            if disturb is not None:
                disturb(script)
            return script.wait(timeout=1200)
        finally:
            for process in [script, *script.children(recursive=True)] if script.is_running() else []:
                process.terminate()
            self.outputs.append(path.read_text())

    def processes(self) -> set[str]:
        """Names of the processes that came of this study and are there still, by the environment they inherit."""
        found = set()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.directory):
                    found.add(process.name())
        return found

    def kill_training(self, script: psutil.Process) -> None:
        """As the kernel does when memory runs out: the training's process alone, with no time to clean up."""
        tracker = self.job / "checkpoints" / "latest_checkpointed_iteration.txt"
        _wait_until(lambda: tracker.exists() and tracker.read_text(), script)
        assert "raylet" in self.processes()
        os.kill(JobRecord.load(self.job).pid, signal.SIGKILL)

    def interrupt_evaluation(self, script: psutil.Process) -> None:
        """Ctrl-C once a first part of the samples is there."""
        samples = self.job / "evaluation" / "samples"
        _wait_until(lambda: sum(path.read_bytes().count(b"\n") for path in samples.glob("*")) >= SAMPLES // 20, script)
        evaluation = next(p for p in script.children() if "eval" in p.cmdline())
        evaluation.send_signal(signal.SIGINT)


def _wait_until(condition: Callable[[], Any], script: psutil.Process) -> None:
    while not condition():
        assert script.poll() is None, "the script ended before its time"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def study(toy, tmp_path_factory) -> Study:
    """A study that was killed while it trained, interrupted while it evaluated, and then left in peace."""
    study = Study(tmp_path_factory.mktemp("study"))
    assert study.start(study.kill_training) == 1, study.outputs[-1]
    study.killed = JobRecord.load(study.job)
    assert study.start(study.interrupt_evaluation) == 130, study.outputs[-1]
    study.interrupted = dict(read_generations(study.job / "evaluation" / "samples"))
    assert study.start() == 0, study.outputs[-1]
    return study


@pytest.fixture(scope="module")
def contrast(study) -> Finished:
    return Finished(study.job, study.directory / "rollouts" / "job")


def test_a_killed_training_is_resumed_and_a_finished_one_left_alone(study):
    assert (study.killed.state, study.killed.exit_code) == ("failed", -signal.SIGKILL)
    assert "ended with exit code -9 at step" in study.outputs[0]
    record = JobRecord.load(study.job)
    assert (record.state, record.attempts) == ("finished", 2)  # the third start had nothing to train
    assert (record.step, record.total_steps, record.validation_step) == (STEPS, STEPS, STEPS)
    assert record.validation and all(0 <= value <= 1 for value in record.validation.values())
    log = (study.job / "log.txt").read_text(errors="replace")
    assert f"Resuming from {study.job}/checkpoints/global_step_" in log.rpartition("start 2")[2]
    assert (study.job / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == str(STEPS)


def test_an_interrupted_evaluation_goes_on_with_what_is_missing(study):
    assert SAMPLES // 20 <= len(study.interrupted) < SAMPLES
    assert "The same command goes on" in study.outputs[1]
    assert f"{SAMPLES - len(study.interrupted)} of {SAMPLES} samples to generate" in study.outputs[2]
    rows = dict(read_generations(study.job / "evaluation" / "samples"))
    assert len(rows) == SAMPLES and all(rows[key] == row for key, row in study.interrupted.items())


def test_no_process_is_left(study):
    assert study.processes() == set()


def test_the_study_is_evaluated_and_reported(study):
    graded = read_samples(study.job / "evaluation" / "graded.jsonl")
    assert len(graded) == SAMPLES and not graded["correct"].isna().any()
    assert set(graded["benchmark"]) == {"toy-val"}
    report = (study.directory / "report" / "report.md").read_text()
    row = next(line for line in report.splitlines() if line.startswith("| contrast (lam=-0.3) |"))
    assert f" {100 * graded['correct'].mean():.1f} " in row
    html = (study.directory / "report" / "report.html").read_text()
    assert "toy-val" in html and "recall the times table" in html  # a preview, in the browser of subgroups


def test_every_prompt_reaches_the_estimator_with_k_subgroups_of_z(contrast):
    assert [s.step for s in contrast.training] == list(range(1, STEPS + 1))
    for step in contrast.training:
        m = step.metrics
        assert m["subgroup/groups"] == PROMPTS
        assert m["subgroup/rows_total"] == m["subgroup/rows_counted"] == PROMPTS * K * Z
        assert m["subgroup/subgroups_per_group_min"] == m["subgroup/subgroups_per_group_max"] == K
        assert m["subgroup/rollouts_per_subgroup_min"] == m["subgroup/rollouts_per_subgroup_max"] == Z


def test_every_step_metric_is_in_verls_log(contrast):
    for step in contrast.training:
        assert set(step.metrics) >= STEP_METRICS
        assert step.metrics["strategy/prompts"] == PROMPTS
        assert step.metrics["strategy/usable_per_candidate"] > 0.85
        assert 0 < step.metrics["strategy/token_share"] < 1
        assert 0 < step.metrics["strategy/seconds_mean"] <= step.metrics["strategy/seconds_max"]
        assert step.metrics["strategy/failed_requests"] == 0


def test_rollouts_of_a_slot_share_its_preview(contrast):
    for step in contrast.training:
        groups = contrast.rollouts(step.step)
        assert len(groups) == PROMPTS
        for group in groups.values():
            assert sorted(r.session for r in group) == list(range(K * Z))
            inputs = defaultdict(set)
            for rollout in group:
                inputs[rollout.session // Z].add(rollout.input)
            assert all(len(of_slot) == 1 for of_slot in inputs.values())
            previews = {extract_preview(of_slot.pop()) for of_slot in inputs.values()}
            assert len(previews) > 1


def test_the_logged_dynamics_follow_from_the_logged_rollouts(contrast):
    """An independent computation: informative share and mean |offset| in plain Python from verl's rollout dump."""
    for step in contrast.training:
        informative, offsets = 0, []
        for group in contrast.rollouts(step.step).values():
            mean = sum(r.score for r in group) / len(group)
            slots = [[r for r in group if r.session // Z == k] for k in range(K)]
            rates = [sum(r.score > 0 for r in slot) / Z for slot in slots]
            informative += max(rates) - min(rates) >= 0.375
            offsets += [abs(sum(r.score for r in slot) / Z - mean) for slot in slots for _ in slot]
        assert step.metrics["subgroup/informative_share"] == pytest.approx(informative / PROMPTS)
        assert step.metrics["subgroup/abs_offset"] == pytest.approx(sum(offsets) / len(offsets), abs=1e-6)


def test_the_policy_is_updated(contrast):
    assert all(s.metrics["actor/grad_norm"] > 0 for s in contrast.training)
    # The first step's rollouts come from the weights that are trained: vLLM and FSDP agree on them.
    assert all(s.metrics["training/rollout_probs_diff_mean"] < 1e-3 for s in contrast.training)


def test_validation_is_single_stage(study, contrast):
    rows = [json.loads(line) for line in (study.directory / "validation" / "job" / "0.jsonl").read_text().splitlines()]
    assert rows and not any("[KEY" in row["input"] for row in rows)
    assert contrast.validation and not any(
        k.startswith(("subgroup/", "strategy/")) for k in contrast.validation[0].metrics
    )

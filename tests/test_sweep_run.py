"""A real sweep: two trainings of the toy world, the first of which is killed, and the same sweep started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import yaml
from toy_run import toy_overrides

from subgroup_offset.cluster.job_record import JobRecord
from subgroup_offset.cluster.launch import read_run_steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

LAMS = {"lam=-0.3": -0.3, "lam=0.3": 0.3}
KILLED, OTHER = LAMS
STEPS = 3
PROMPTS = 4
K = Z = 2


def command(toy: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        "-m",
        *toy_overrides(toy, PROMPTS),
        f"algorithm.subgroup.lam={','.join(map(str, LAMS.values()))}",
        f"algorithm.subgroup.strategy.num_strategies={K}",
        f"algorithm.subgroup.strategy.rollouts_per_strategy={Z}",
        "algorithm.subgroup.strategy.num_candidates=4",
        f"actor_rollout_ref.rollout.n={K * Z}",
        "actor_rollout_ref.rollout.val_kwargs.n=1",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=1",
        f"trainer.test_freq={STEPS}",
        "trainer.val_before_train=False",
        "trainer.rollout_data_dir=rollouts",
    ]


def processes_of(root: Path) -> set[str]:
    """Names of the processes that a sweep in this directory has started, by the environment they inherit."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SWEEP_TEST") == str(root):
                found.add(process.name())
    return found


def wait_for_checkpoint(sweep: subprocess.Popen, job: Path) -> None:
    tracker = job / "checkpoints" / "latest_checkpointed_iteration.txt"
    while not (tracker.exists() and tracker.read_text()):
        assert sweep.poll() is None, "the sweep ended before the job had a checkpoint"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def sweeps(toy, tmp_path_factory) -> SimpleNamespace:
    root = tmp_path_factory.mktemp("sweep")
    directory = root / "outputs" / "sweeps" / "contrast" / "toy"
    env = {**os.environ, "SWEEP_TEST": str(root)}
    outputs, codes, records, during = [], [], [], set()
    for start in (1, 2):
        with (root / f"start_{start}.txt").open("w") as output:
            sweep = subprocess.Popen(command(toy), cwd=root, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            if start == 1:
                wait_for_checkpoint(sweep, directory / KILLED)
                during = processes_of(root)
                # As the kernel does when memory runs out: this process alone, with no time to clean up.
                os.kill(JobRecord.load(directory / KILLED).pid, signal.SIGKILL)
            codes.append(sweep.wait())
        finally:
            if sweep.poll() is None:
                sweep.send_signal(signal.SIGINT)
                sweep.wait()
        outputs.append((root / f"start_{start}.txt").read_text())
        records.append({job: JobRecord.load(directory / job) for job in LAMS})
    return SimpleNamespace(root=root, directory=directory, outputs=outputs, codes=codes, records=records, during=during)


def test_the_exit_code_tells_whether_a_job_failed(sweeps):
    assert sweeps.codes == [1, 0], "\n".join(sweeps.outputs)


def test_a_killed_job_does_not_keep_the_others_from_their_turn(sweeps):
    first = sweeps.records[0]
    assert {job: record.state for job, record in first.items()} == {
        KILLED: "failed",
        OTHER: "finished",
    }
    assert first[KILLED].exit_code == -signal.SIGKILL
    assert f"1 of 2 jobs failed:\n{KILLED} ended with exit code -9 at step" in sweeps.outputs[0]


def test_the_second_start_resumes_that_job_and_no_other(sweeps):
    before, after = sweeps.records
    assert {record.state for record in after.values()} == {"finished"}
    assert {job: record.attempts for job, record in after.items()} == {KILLED: 2, OTHER: 1}
    assert before[OTHER] == after[OTHER]
    log = (sweeps.directory / KILLED / "log.txt").read_text(errors="replace")
    resumed = log.rpartition("start 2")[2]
    assert f"Resuming from {sweeps.directory}/{KILLED}/checkpoints/global_step_" in resumed


@pytest.mark.parametrize("job", LAMS)
def test_every_job_trained_its_steps_with_its_own_settings(sweeps, job):
    directory = sweeps.directory / job
    steps = read_run_steps(directory)
    assert [s.step for s in steps] == list(range(1, STEPS + 1))
    for m in (s.metrics for s in steps):  # the resumed steps' subgroups too
        assert m["subgroup/groups"] == PROMPTS and m["subgroup/rows_total"] == PROMPTS * K * Z
        assert m["subgroup/subgroups_per_group_min"] == m["subgroup/subgroups_per_group_max"] == K
        assert m["subgroup/rollouts_per_subgroup_min"] == m["subgroup/rollouts_per_subgroup_max"] == Z
    config = yaml.safe_load((directory / "hydra" / ".hydra" / "config.yaml").read_text())
    assert config["algorithm"]["subgroup"]["lam"] == LAMS[job]
    assert config["trainer"]["experiment_name"] == f"toy-{job}"
    assert (directory / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == str(STEPS)
    assert {path.name for path in (sweeps.root / "rollouts" / job).iterdir()} == {f"{s}.jsonl" for s in (1, 2, 3)}
    record = sweeps.records[1][job]
    assert (record.step, record.total_steps, record.validation_step) == (STEPS, STEPS, STEPS)
    assert record.validation and all(0 <= value <= 1 for value in record.validation.values())


def test_the_jobs_leave_no_process_behind(sweeps):
    assert "raylet" in sweeps.during
    assert processes_of(sweeps.root) == set()

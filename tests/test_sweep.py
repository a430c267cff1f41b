"""Sweeps by a real ``-m`` command line: order, states, failing jobs, and starting the same sweep again."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from sweep_tools import Workplace

from subgroup_offset.launch import read_run_steps

LAMS = "algorithm.subgroup.lam=-0.3,0,0.3"


@pytest.fixture
def workplace(tmp_path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture(scope="module")
def twice(tmp_path_factory) -> SimpleNamespace:
    """A sweep of three jobs whose second one fails after step 2, and the same sweep started again."""
    place = Workplace(tmp_path_factory.mktemp("twice"))
    order = place.tell("fail-0")
    first = place.run(LAMS)
    records = {job: place.record(job) for job in ("lam=-0.3", "lam=0", "lam=0.3")}
    begun = place.started()
    order.unlink()
    second = place.run(LAMS)
    return SimpleNamespace(place=place, first=first, second=second, records=records, begun=begun)


def test_jobs_run_in_order_each_in_a_process_of_its_own(twice):
    assert [job["lam"] for job in twice.begun] == [-0.3, 0, 0.3]
    assert len({job["pid"] for job in twice.begun}) == 3
    # No checkpoint of another job is resumed, although Hydra's experiment and checkpoint directory are equal for all.
    assert [job["from"] for job in twice.begun] == [0, 0, 0]


def test_a_failing_job_does_not_end_the_sweep_and_is_named_at_the_end(twice):
    assert [twice.records[job]["state"] for job in twice.records] == ["finished", "failed", "finished"]
    assert twice.first.returncode == 1
    log = twice.place.sweep / "lam=0" / "log.txt"
    assert f"1 of 3 jobs failed:\nlam=0 ended with exit code 1 at step 2 of 3: {log}\n" in twice.first.stderr
    assert "told to fail at lam=0" in log.read_text()


def test_the_record_says_how_far_a_job_came(twice):
    record = twice.records["lam=0"]
    assert record["exit_code"] == 1 and record["attempts"] == 1 and record["pid"] is None
    assert (record["step"], record["total_steps"], record["validation_step"]) == (2, 3, 2)
    assert record["validation"] == {"val-core/tiny/acc/mean@2": 2}
    assert f"control={twice.place.control}" in record["overrides"]


def test_the_same_sweep_again_skips_finished_jobs_and_resumes_the_others(twice):
    assert twice.second.returncode == 0, twice.second.stderr
    again = twice.place.started()[3:]
    assert [(job["lam"], job["from"]) for job in again] == [(0, 2)]
    assert twice.place.record("lam=0")["attempts"] == 2
    assert {twice.place.record(job)["state"] for job in twice.records} == {"finished"}


def test_a_resumed_job_keeps_the_metrics_and_the_log_of_its_first_start(twice):
    directory = twice.place.sweep / "lam=0"
    steps = read_run_steps(directory)
    assert [(s.step, s.metrics["start"]) for s in steps] == [(1, 0), (2, 0), (3, 2)]
    assert not (directory / "metrics.earlier.jsonl").exists()
    log = (directory / "log.txt").read_text()
    assert log.index("told to fail") < log.index("start 2")


def test_without_a_terminal_each_change_is_a_line(twice):
    lines = [line.partition("] ")[2] for line in twice.first.stdout.splitlines() if line.startswith("[")]
    of_one = [line for line in lines if line.startswith("lam=0:")]
    assert of_one == [
        "lam=0: pending, step 0/3",
        "lam=0: running, step 0/3",
        "lam=0: running, step 1/3, tiny/acc/mean@2 1.000",
        "lam=0: running, step 2/3, tiny/acc/mean@2 2.000",
        "lam=0: failed, step 2/3, tiny/acc/mean@2 2.000",
    ]
    assert "lam=0.3: finished before, step 3/3, tiny/acc/mean@2 3.300" in twice.second.stdout


def test_a_job_whose_other_overrides_differ_is_refused_before_anything_runs(twice):
    before = twice.place.started()
    refused = twice.place.run(LAMS, "trainer.total_training_steps=5")
    assert refused.returncode == 1
    assert "belongs to a job with other overrides" in refused.stderr
    assert "Given now, not recorded: trainer.total_training_steps=5." in refused.stderr
    assert "another hydra.sweep.dir" in refused.stderr and "Traceback" not in refused.stderr
    assert twice.place.started() == before


def test_two_keys_in_batches_with_a_failing_first_job(workplace):
    """Hydra's basic sweeper ends at a failed job when it has batches; here the rest still runs."""
    workplace.tell("fail--0.3")
    overrides = ["algorithm.subgroup.lam=-0.3,0.3", "data.seed=1,2", "trainer.total_training_steps=2"]
    done = workplace.run(*overrides, "hydra.sweeper.max_batch_size=1")
    started = [(job["lam"], job["seed"]) for job in workplace.started()]
    assert started == [(-0.3, 1), (-0.3, 2), (0.3, 1), (0.3, 2)]
    states = {path.parent.name: json.loads(path.read_text())["state"] for path in workplace.sweep.glob("*/job.json")}
    assert states == {
        "lam=-0.3,seed=1": "failed",
        "lam=-0.3,seed=2": "failed",
        "lam=0.3,seed=1": "finished",
        "lam=0.3,seed=2": "finished",
    }
    assert done.returncode == 1
    assert "2 of 4 jobs failed:\nlam=-0.3,seed=1 ended" in done.stderr and "\nlam=-0.3,seed=2 ended" in done.stderr


def test_retries_resume_a_failed_job_at_once(workplace):
    workplace.tell("fail-0")
    done = workplace.run("algorithm.subgroup.lam=0,0.3", "hydra.launcher.retries=1", "trainer.total_training_steps=3")
    assert done.returncode == 0, done.stderr
    assert [(job["lam"], job["from"]) for job in workplace.started()] == [(0, 0), (0, 2), (0.3, 0)]


def test_a_job_over_its_time_is_ended_and_has_failed(workplace):
    workplace.tell("hold-0")
    done = workplace.run("algorithm.subgroup.lam=0", "hydra.launcher.timeout=1")
    assert done.returncode == 1 and "job was still going after 1 s" in done.stderr
    assert workplace.record("job")["state"] == "failed"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("hydra.launcher.timeout=0", "hydra.launcher.timeout=0 is no time to train in"),
        ("hydra.launcher.retries=-1", "hydra.launcher.retries=-1 is negative"),
        ("hydra.launcher.module=no.such.module", "hydra.launcher.module=no.such.module cannot be imported"),
        ("hydra.sweep.subdir=../elsewhere", "hydra.sweep.subdir=../elsewhere gives '../elsewhere'"),
        ("hydra.sweep.subdir=one", "Two jobs would share"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(workplace, override, message):
    refused = workplace.run(LAMS, override)
    assert refused.returncode == 1
    assert message in refused.stderr and "Traceback" not in refused.stderr
    assert workplace.started() == []


def test_checkpoints_of_another_run_are_not_resumed(workplace):
    foreign = workplace.root / "mine" / "lam=0.3" / "latest_checkpointed_iteration.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("2")
    refused = workplace.run(LAMS, "trainer.default_local_dir=mine")
    assert refused.returncode == 1
    assert f"lam=0.3: {foreign.parent} holds checkpoints of a run that is not part of this sweep" in refused.stderr
    assert workplace.started() == []

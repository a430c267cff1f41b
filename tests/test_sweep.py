"""Sweeps by a real ``-m`` command line: order, states, failing jobs, and starting the same sweep again."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from sweep_tools import Workplace

from subgroup_offset.cluster.launch import read_run_steps

SWEEP = ("algorithm.subgroup.lam=-0.3,0,0.3", "data.seed=7")


@pytest.fixture(scope="module")
def twice(tmp_path_factory) -> SimpleNamespace:
    """A sweep of three jobs whose second one fails after step 2, and the same sweep started again."""
    place = Workplace(tmp_path_factory.mktemp("twice"))
    order = place.tell("fail-0")
    first = place.run(*SWEEP)
    records = {job: place.record(job) for job in ("lam=-0.3", "lam=0", "lam=0.3")}
    begun = place.started()
    order.unlink()
    second = place.run(*SWEEP)
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
    assert "told to fail at lam=0" in log.read_text() and "Traceback" not in twice.first.stderr


def test_the_record_says_how_far_a_job_came(twice):
    record = twice.records["lam=0"]
    assert record["exit_code"] == 1 and record["attempts"] == 1 and record["pid"] is None
    assert (record["step"], record["total_steps"], record["validation_step"]) == (2, 3, 2)
    assert record["validation"] == {"val-core/tiny/acc/mean@2": 2}
    assert record["overrides"] == [f"control={twice.place.control}", "algorithm.subgroup.lam=0", "data.seed=7"]


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
    assert "lam=0: running, start 2, step 3/3" in twice.second.stdout


def test_a_hydra_program_that_sweeps_nothing_loads_nothing_of_this_package():
    code = """
import sys
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
print([c.__name__ for c in Plugins.instance().discover(Launcher) if "subgroup" in c.__module__])
print(sorted({"subgroup_offset.cluster", "filelock", "psutil", "rich", "torch", "verl", "ray"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["['SubgroupOffsetLauncher']", "[]"]

"""A sweep that is ended, by Ctrl-C, by SIGTERM or by the hard way, and started again; and two at once."""

from __future__ import annotations

import os
import signal

import psutil
import pytest
from sweep_tools import Workplace, read_until

LAMS = "algorithm.subgroup.lam=0,0.3"
HELD = "lam=0: running, step 2/3"


@pytest.fixture
def workplace(tmp_path) -> Workplace:
    return Workplace(tmp_path)


def end(*pids: int) -> None:
    for pid in pids:
        process = psutil.Process(pid)
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_ends_its_job_and_records_it_as_to_be_resumed(workplace, number):
    workplace.tell("hold-0")
    sweep = workplace.start(LAMS)
    read_until(sweep, HELD)
    (job,) = workplace.started()
    sweep.send_signal(number)
    output, errors = sweep.communicate(timeout=120)
    assert sweep.returncode == 130
    assert "The same command goes on with the sweep" in output and "Traceback" not in errors
    assert not psutil.pid_exists(job["pid"])
    record = workplace.record("lam=0")
    assert (record["state"], record["step"]) == ("pending", 2)
    assert workplace.record("lam=0.3")["attempts"] == 0


def test_a_killed_sweep_is_not_started_beside_its_own_job_and_goes_on_once_that_has_ended(workplace):
    workplace.tell("hold-0")
    sweep = workplace.start(LAMS)
    read_until(sweep, HELD)
    (job,) = workplace.started()
    try:
        beside = workplace.run(LAMS)
        assert beside.returncode == 1 and f"Another sweep runs in {workplace.sweep}" in beside.stderr
        assert "Traceback" not in beside.stderr
        sweep.kill()
        sweep.communicate()
        refused = workplace.run(LAMS)
        assert refused.returncode == 1
        assert f"lam=0: its process {job['pid']} of an earlier start" in refused.stderr
        assert workplace.record("lam=0")["state"] == "running"
    finally:
        end(job["pid"])
    (workplace.control / "hold-0").unlink()
    done = workplace.run(LAMS)
    assert done.returncode == 0, done.stderr
    assert "lam=0: its last start" in done.stdout and "was cut off at step 2" in done.stdout
    assert [(job["lam"], job["from"]) for job in workplace.started()] == [(0, 0), (0, 2), (0.3, 0)]
    assert workplace.record("lam=0")["state"] == "finished"


def test_a_terminal_shows_a_table(workplace):
    here, there = os.openpty()
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__), "TERM": "xterm", "COLUMNS": "100"}
    sweep = workplace.start(LAMS, "trainer.total_training_steps=1", stdout=there, stderr=there, env=env)
    os.close(there)
    shown = b""
    try:
        while chunk := os.read(here, 4096):
            shown += chunk
    except OSError:  # how a terminal ends on Linux
        pass
    assert sweep.wait(timeout=120) == 0
    text = shown.decode()
    assert "last validation" in text and "┃" in text
    last_table = text[text.rindex("┏") :]
    assert last_table.count("finished") == 2 and "1/1" in last_table and "tiny/acc/mean@2 1.300" in last_table

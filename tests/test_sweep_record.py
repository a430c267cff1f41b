"""``job.json``: written whole, read back, and telling a process that still runs from one that is gone."""

import os
import subprocess
import sys

import psutil
import pytest

from subgroup_offset.sweep.record import JobRecord
from subgroup_offset.sweep.settings import SweepError


def new_record() -> JobRecord:
    return JobRecord(["-m", "program"], ["lam=0"], "/checkpoints")


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert JobRecord.load(tmp_path / "job") is None
    record = new_record()
    record.start()
    record.log(2, {"val-core/x/acc/mean@2": 0.5, "lr": 0.1})
    record.log(3, {"lr": 0.1})
    record.save(tmp_path / "job")
    assert JobRecord.load(tmp_path / "job") == record
    assert record.validation == {"val-core/x/acc/mean@2": 0.5}
    assert (record.state, record.step, record.validation_step) == ("running", 3, 2)
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["job.json"]


@pytest.mark.parametrize("text", ['{"program": [', "{}", '{"unknown": 1}', "[]"])
def test_a_file_that_is_no_record_is_named(tmp_path, text):
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(SweepError, match=r"job\.json is no record of a job"):
        JobRecord.load(tmp_path)


def test_an_unknown_state_is_named(tmp_path):
    record = new_record()
    record.state = "done"
    record.save(tmp_path)
    with pytest.raises(SweepError, match=r"state='done' is unknown: use one of pending, running, finished, failed"):
        JobRecord.load(tmp_path)


def test_a_running_process_is_found_until_it_ends():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    record = new_record()
    record.start()
    record.runs_as(process.pid)
    assert record.process() == psutil.Process(process.pid)
    process.communicate(b"\n")
    assert record.process() is None


def test_a_later_process_of_the_same_id_is_another():
    record = new_record()
    record.start()
    record.runs_as(os.getpid())
    assert record.process() is not None
    record.pid_created -= 3600
    assert record.process() is None


def test_a_process_on_another_machine_is_not_looked_for():
    record = new_record()
    record.start()
    record.runs_as(os.getpid())
    record.host = "another"
    assert record.process() is None


@pytest.mark.parametrize(("finished", "state"), [(True, "finished"), (False, "failed")])
def test_an_ended_attempt_has_no_process(finished, state):
    record = new_record()
    record.start()
    record.runs_as(os.getpid())
    record.end(0 if finished else 1, finished)
    assert (record.state, record.pid, record.process()) == (state, None, None)

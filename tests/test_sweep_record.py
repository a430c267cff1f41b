"""``job.json``: written whole, read back, and telling a process that still runs from one that is gone."""

import os
import subprocess
import sys

import pytest

from subgroup_offset.cluster.job_record import JobRecord, SweepError


def started_record(pid: int) -> JobRecord:
    record = JobRecord(["-m", "program"], ["lam=0"], "/checkpoints")
    record.start()
    record.runs_as(pid)
    return record


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert JobRecord.load(tmp_path / "job") is None
    record = started_record(os.getpid())
    record.log(2, {"val-core/x/acc/mean@2": 0.5, "lr": 0.1})
    record.log(3, {"lr": 0.1})
    record.save(tmp_path / "job")
    assert JobRecord.load(tmp_path / "job") == record
    assert record.validation == {"val-core/x/acc/mean@2": 0.5}
    assert (record.state, record.step, record.validation_step) == ("running", 3, 2)
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["job.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"program": [', "Expecting"),
        ("{}", "missing"),
        ('{"unknown": 1}', "unknown"),
        ("[]", "mapping"),
        ('{"program": [], "overrides": [], "checkpoints": "", "state": "done"}', "state='done' is none of pending, "),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path, text, why):
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(SweepError, match=rf"job\.json is no record of a job \(.*{why}"):
        JobRecord.load(tmp_path)


def test_a_running_process_is_found_until_it_ends():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    record = started_record(process.pid)
    assert record.running_process() == process.pid
    process.communicate(b"\n")
    assert record.running_process() is None


@pytest.mark.parametrize("change", [{"pid_created": 0.0}, {"host": "another"}, {"state": "finished"}])
def test_another_process_of_the_same_id_is_not_taken_for_it(change):
    record = started_record(os.getpid())
    assert record.running_process() == os.getpid()
    vars(record).update(change)
    assert record.running_process() is None


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1), ("pending", None)])
def test_an_ended_attempt_has_no_process(state, code):
    record = started_record(os.getpid())
    record.end(state, code)
    assert (record.state, record.exit_code, record.pid) == (state, code, None)

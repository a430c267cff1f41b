"""Following a training process: reading its log while it is written, failures, time limits, and ending it."""

import json
import sys
import time

import psutil
import pytest

from subgroup_offset import launch
from subgroup_offset.launch import RunFailed, TrainingRun, read_steps


def test_half_written_records_are_left_for_later(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_steps(path) == []
    record = json.dumps({"step": 1, "data": {"x": 0.5}})
    path.write_text(f"{record}\n{record[:9]}")
    steps = read_steps(path)
    assert len(steps) == 1 and steps[0].step == 1 and steps[0].metrics == {"x": 0.5}


def test_a_bad_override_fails_with_the_end_of_the_log(tmp_path):
    run = TrainingRun(tmp_path, ["--config-name=contrast", "no.such.key=1"])
    with pytest.raises(RunFailed, match=r"exit code 1\. Its log: .*log\.txt[\s\S]*no\.such\.key"):
        run.wait(timeout=120)


@pytest.mark.slow  # waits out the grace that a stopped run has
def test_a_run_over_its_time_is_ended_with_its_children(tmp_path, monkeypatch):
    script = tmp_path / "sleeper.py"
    script.write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )

    real = launch.subprocess.Popen
    monkeypatch.setattr(launch.subprocess, "Popen", lambda command, **kw: real([sys.executable, str(script)], **kw))
    run = TrainingRun(tmp_path, [])
    while not (children := psutil.Process(run.pid).children(recursive=True)):
        time.sleep(0.05)
    with pytest.raises(RunFailed, match="still going after 1 s"):
        run.wait(timeout=1)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)

"""Following a training process: reading its log while it is written, failures, time limits, and ending it."""

import json
import sys
import time

import psutil
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.cluster import launch
from subgroup_offset.cluster.launch import (
    LoggedStep,
    RunFailed,
    TrainingRun,
    hydra_quoted,
    merge_steps,
    read_run_steps,
    read_steps,
)

LOGGING = """
import json, os, sys
arguments = dict(a.lstrip("+").split("=", 1) for a in sys.argv[1:])
path = arguments["ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH"].strip("'")
print(os.getcwd(), os.environ.get("COLOUR"))
with open(path, "wb") as log:
    for step in range(int(arguments["first"]), int(arguments["last"]) + 1):
        log.write(json.dumps({"step": step, "data": {"first": arguments["first"]}}).encode() + b"\\n")
sys.exit(int(arguments.get("code", 0)))
"""


@pytest.fixture
def program(tmp_path) -> list[str]:
    """A program that logs steps ``first`` to ``last`` and ends with ``code``."""
    path = tmp_path / "program.py"
    path.write_text(LOGGING)
    return [str(path)]


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


def test_a_resumed_run_appends_to_the_log_and_goes_on_with_the_metrics(tmp_path, program):
    directory = tmp_path / "run"
    with pytest.raises(RunFailed, match="exit code 3"):
        TrainingRun(directory, ["first=1", "last=4", "code=3"], program=program, env={"COLOUR": "red"}).wait()
    resumed = TrainingRun(directory, ["first=3", "last=5"], program=program, cwd=tmp_path, resume=True)
    assert [s.step for s in resumed.wait()] == [3, 4, 5]
    steps = read_run_steps(directory)
    assert [(s.step, s.metrics["first"]) for s in steps] == [(1, "1"), (2, "1"), (3, "3"), (4, "3"), (5, "3")]
    assert steps == read_steps(resumed.metrics)
    assert resumed.log.read_text() == f"{directory} red\n{tmp_path} None\n"
    TrainingRun(directory, ["first=1", "last=1"], program=program).wait()
    assert [s.step for s in read_run_steps(directory)] == [1]


def test_what_a_crashed_process_left_running_is_ended(tmp_path):
    script = tmp_path / "crash.py"
    script.write_text(
        "import subprocess, sys, os, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "while not os.path.exists('seen'): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    run = TrainingRun(tmp_path / "run", [], program=[str(script)])
    while not run.tail():
        time.sleep(0.01)
    child = psutil.Process(int(run.tail()))
    follow = run.follow()
    (tmp_path / "run" / "metrics.jsonl").write_text(json.dumps({"step": 1, "data": {}}) + "\n")
    next(follow)
    (tmp_path / "run" / "seen").touch()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunFailed, match="exit code -9"):
        patch.setattr(launch, "_GRACE_SECONDS", 0.1)
        list(follow)
    child.wait(timeout=60)  # it sleeps for longer


STEPS = st.integers(0, 9).flatmap(
    lambda first: st.integers(0, 5).map(lambda count: [LoggedStep(first + i, {"x": first}) for i in range(count)])
)


@given(STEPS, STEPS)
def test_merged_steps_rise_and_end_with_the_later_ones(earlier, later):
    merged = merge_steps(earlier, later)
    steps = [s.step for s in merged]
    assert steps == sorted(set(steps))
    if later:
        assert merged[len(merged) - len(later) :] == later
        assert {s.step for s in earlier if s.step < later[0].step} <= set(steps)
    else:
        assert merged == earlier
    # Folding twice, as after a crash between writing and removing, changes nothing.
    assert merge_steps(earlier, merged) == merged


def test_a_validation_at_the_resumed_step_does_not_drop_its_training_metrics():
    merged = merge_steps([LoggedStep(4, {"reward": 1.0, "val": 0.1})], [LoggedStep(4, {"val": 0.2})])
    assert merged == [LoggedStep(4, {"reward": 1.0, "val": 0.2})]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_any_text_can_be_the_value_of_an_override(text):
    (override,) = OverridesParser.create().parse_overrides([f"key={hydra_quoted(text)}"])
    assert override.value() == text

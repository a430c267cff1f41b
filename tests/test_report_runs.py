"""Runs are found and read as far as they are there."""

import json

import pytest
from report_runs import config, metrics, validation, write_hydra, write_lines, write_run

from subgroup_offset.reports.locate import ReportError
from subgroup_offset.reports.runs import load_runs


def missing(run):
    return " ".join(what for what, _ in run.missing)


def log(path, *steps):
    write_lines(path, [{"step": step, "data": metrics(step, 0.0)} for step in steps])
    return path


def test_a_complete_run(tmp_path):
    (run,) = load_runs([write_run(tmp_path / "whole", lam=-0.3, pass_rate=0.5)])
    assert (run.name, run.method.label, run.model_name) == ("whole", "contrast (lam=-0.3)", "Tiny-1B")
    assert list(run.steps.index) == [0, 1, 2, 3, 4, 5, 6]
    assert (run.state, run.total_steps, run.log_name) == ("finished", 6, "metrics.jsonl")
    assert list(run.strategy_files) == list(run.rollout_files) == [1, 2, 3, 4, 5, 6]
    assert run.config.overrides == ["algorithm.subgroup.lam=-0.3", "data.seed=1"]
    assert list(run.series("strategy/seconds_max").head(2).items()) == [(1, 3.5), (2, 4.5)]
    assert not run.missing


def test_a_run_in_progress_with_a_half_written_line(tmp_path):
    directory = write_run(tmp_path / "going", steps=3)
    with (directory / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "data": {"actor/entr')
    (run,) = load_runs([directory])
    assert run.steps.index[-1] == 3
    assert run.state == "in progress, or ended early"
    assert "Left out of metrics.jsonl: a half-written last line: 1" in missing(run)


def test_a_whole_last_line_needs_no_line_break(tmp_path):
    directory = write_run(tmp_path / "whole")
    path = directory / "metrics.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    (run,) = load_runs([directory])
    assert run.steps.index[-1] == 6
    assert "half" not in missing(run)


def test_lines_and_values_that_cannot_be_used_are_left_out_and_named(tmp_path):
    directory = write_run(tmp_path / "odd", steps=2)
    lines = [
        "no JSON",
        json.dumps([1]),
        '{"step": 3, "data": {"actor/entropy": NaN, "a": "b", "critic/score/mean": 1}}',
    ]
    with (directory / "metrics.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    (run,) = load_runs([directory])
    assert run.steps.iloc[-1].dropna().to_dict() == {"critic/score/mean": 1.0}
    assert "lines that cannot be read: 2, the first" in missing(run)
    assert "actor/entropy at 1 steps" in missing(run)


def test_a_resumed_run_has_the_steps_of_both_starts(tmp_path):
    directory = write_run(tmp_path / "resumed", steps=4, accuracy=None)
    (directory / "metrics.jsonl").rename(directory / "metrics.earlier.jsonl")
    write_lines(directory / "metrics.jsonl", [{"step": 4, "data": {"critic/score/mean": 9.0}}])
    (run,) = load_runs([directory])
    assert list(run.steps.index) == [1, 2, 3, 4]
    assert run.steps.at[4, "critic/score/mean"] == 9.0
    assert run.steps.at[4, "actor/entropy"] > 0


def test_a_sweep_stands_for_its_jobs(tmp_path):
    for lam in (0.0, 0.3):
        write_run(tmp_path / "sweep" / f"lam={lam:g}", lam=lam)
    job = {"program": [], "overrides": [], "checkpoints": "", "total_steps": 40, "of_another_version": 1}
    waiting = tmp_path / "sweep" / "lam=-0.3"
    for directory, state in ((waiting, "pending"), (tmp_path / "sweep" / "lam=0.3", "running")):
        directory.mkdir(exist_ok=True)
        (directory / "job.json").write_text(json.dumps({**job, "state": state}))
    runs = {run.name: run for run in load_runs([tmp_path / "sweep", tmp_path / "sweep" / "lam=0"])}
    assert set(runs) == {"lam=0", "lam=0.3", "lam=-0.3"}
    assert (runs["lam=0.3"].state, runs["lam=0.3"].total_steps) == ("running", 40)
    assert runs["lam=-0.3"].state == "pending"
    assert "Logged steps" in missing(runs["lam=-0.3"])
    assert "composed config" in missing(runs["lam=-0.3"])


def test_a_broken_job_record_and_config_are_noted(tmp_path):
    directory = write_run(tmp_path / "broken")
    (directory / "job.json").write_text("{")
    (directory / "hydra" / ".hydra" / "config.yaml").write_text("a: [")
    (run,) = load_runs([directory])
    assert run.settings is None and run.method.direction == "other"
    assert "A readable job.json" in missing(run)
    assert "config.yaml cannot be read" in missing(run)


def test_tensorboard_only(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    directory = tmp_path / "plain"
    write_hydra(directory / ".hydra", config(directory, None), [])
    writer = tensorboard.SummaryWriter(str(directory / "tensorboard_log" / "project" / "plain"))
    for step in (1, 2, 3):
        for key, value in {**metrics(step, None), **validation(0.25)}.items():
            writer.add_scalar(key, value, step)
    writer.add_scalar("actor/entropy", float("nan"), 4)
    writer.close()
    (run,) = load_runs([directory])
    assert run.log_name == "tensorboard"
    assert (run.method.label, run.steps.index[-1]) == ("grpo", 4)
    assert dict(run.series("critic/score/mean")) == pytest.approx({1: -0.3, 2: -0.2, 3: -0.1})
    assert dict(run.series("val-core/math_dapo/acc/mean@8"))[3] == 0.25
    assert "actor/entropy at 1 steps" in missing(run)


def test_without_a_config_event_files_make_runs_of_their_own(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for name in ("a", "b"):
        writer = tensorboard.SummaryWriter(str(tmp_path / "tensorboard_log" / "project" / name))
        writer.add_scalar("actor/entropy", 0.5, 1)
        writer.close()
    assert [run.name for run in load_runs([tmp_path])] == ["a", "b"]


def test_logs_under_verls_own_names(tmp_path):
    alone = tmp_path / "one"
    log(alone / "project" / "name.jsonl", 1, 2)
    write_hydra(alone / ".hydra", config(alone), [])
    (run,) = load_runs([alone])
    assert (run.log_name, run.steps.index[-1]) == ("name.jsonl", 2)
    log(alone / "project" / "other.jsonl", 1)
    with pytest.raises(ReportError, match=r"2 logs of verl's file logger.*project/name.jsonl, project/other.jsonl"):
        load_runs([alone])
    files = [alone / "project" / "name.jsonl", alone / "project" / "other.jsonl"]
    assert [run.steps.index[-1] for run in load_runs(files)] == [2, 1]
    (tmp_path / "two").mkdir()
    log(tmp_path / "two" / "x.jsonl", 1)
    log(tmp_path / "two" / "y.jsonl", 1)
    assert [run.name for run in load_runs([tmp_path / "two"])] == ["x.jsonl", "y.jsonl"]


def test_a_log_outside_of_the_run_is_a_run_of_its_own(tmp_path):
    directory = write_run(tmp_path / "run", pass_rate=0.5)
    (directory / "metrics.jsonl").rename(tmp_path / "moved.jsonl")
    (run,) = load_runs([directory])
    assert run.log_name is None and "Logged steps." in missing(run)
    (moved,) = load_runs([tmp_path / "moved.jsonl"])
    assert (moved.log_name, moved.steps.index[-1]) == ("moved.jsonl", 6)


def test_relative_directories_start_where_the_run_did(tmp_path):
    directory = write_run(tmp_path / "run", changes={"trainer__rollout_data_dir": "dumps/here"})
    (directory / "rollouts").rename(tmp_path / "kept")
    (tmp_path / "elsewhere" / "dumps").mkdir(parents=True)
    (tmp_path / "kept").rename(tmp_path / "elsewhere" / "dumps" / "here")
    (directory / "hydra" / ".hydra" / "hydra.yaml").write_text(f"hydra: {{runtime: {{cwd: {tmp_path}/elsewhere}}}}")
    (run,) = load_runs([directory])
    assert run.rollout_files[6] == tmp_path / "elsewhere" / "dumps" / "here" / "6.jsonl"


def test_names_have_as_many_parents_as_needed(tmp_path):
    paths = [write_run(tmp_path / parent / "run") for parent in ("a", "b")]
    assert [run.name for run in load_runs([*paths, paths[0]])] == ["a/run", "b/run"]


@pytest.mark.parametrize("content", [None, {}, {"notes.txt": "x"}, {"some.jsonl": '{"a": 1}\n'}])
def test_a_path_without_a_run_is_refused(tmp_path, content):
    path = tmp_path / "nothing"
    for name, text in ({} if content is None else content).items():
        path.mkdir(exist_ok=True)
        (path / name).write_text(text)
    if content == {}:
        path.mkdir()
    with pytest.raises(ReportError, match="nothing is not there" if content is None else "nothing holds no run"):
        load_runs([path])


def test_runs_without_anything_to_report_are_refused(tmp_path):
    write_hydra(tmp_path / "run" / ".hydra", config(tmp_path / "run"), [])
    with pytest.raises(ReportError, match="none of which has logged a step or been evaluated"):
        load_runs([tmp_path / "run"])


def test_the_number_of_steps_is_read_from_the_log_where_the_config_has_none(tmp_path):
    directory = write_run(tmp_path / "run", steps=2, changes={"trainer__total_training_steps": None})
    (directory / "log.txt").write_text("...\nTotal training steps: 17\n")
    (run,) = load_runs([directory])
    assert (run.total_steps, run.state) == (17, "in progress, or ended early")


@pytest.mark.parametrize(("lam", "direction"), [(-0.3, "contrast"), (0.0, "anchor"), (None, "grpo")])
def test_a_run_that_took_over_grpo_is_the_method_it_trained_with(tmp_path, lam, direction):
    """Hydra writes the config before the start of the run changes the estimator."""
    (run,) = load_runs([write_run(tmp_path / "run", lam=lam, changes={"algorithm__adv_estimator": "grpo"})])
    assert run.method.direction == direction

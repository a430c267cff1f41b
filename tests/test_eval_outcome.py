"""Grading and counting of samples, and ``eval --from``."""

from __future__ import annotations

import json
import re

import pytest
import typer
from eval_samples import plan, row, write
from typer.testing import CliRunner

from subgroup_offset.evaluation.eval_command import evaluate
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.outcome import grade_samples
from subgroup_offset.evaluation.samples import OVERALL, ExpectedSamples, read_samples

RIGHT, WRONG, NONE = "So.\nAnswer: 56", "Answer: $57$", "I do not know"
WHOLE = plan(replicas=2, samples=2, a=2, b=1)

app = typer.Typer()
app.command()(evaluate)


def response_of(key) -> str:
    """Sample 0 of replica 0 is right, sample 1 has no answer, all of replica 1 is wrong; b is right throughout."""
    if key.benchmark == "b":
        return RIGHT
    return WRONG if key.replica else (RIGHT, NONE)[key.sample]


def rows(**more):
    return [row(key, response_of(key), **more) for key in WHOLE.keys()]  # noqa: SIM118


def invoke(*arguments) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return f"{result.exit_code}\n{result.output}"


def test_the_metrics_of_known_samples(tmp_path):
    known = {"truncated": False, "response_tokens": 10, "reward": -1.0, "reward_correct": False}
    write(tmp_path / "samples", rows(**known))
    outcome = grade_samples(
        read_generations(tmp_path / "samples"),
        tmp_path,
        ExpectedSamples(samples=2, replicas=2, problems={"a": 2, "b": 1}),
    )
    values = {(r.benchmark, r.metric): r.value for r in outcome.summary.itertuples()}
    # a: half of replica 0's samples are right, none of replica 1's.
    assert values["a", "pass@1"] == pytest.approx(0.25) and values["a", "pass@2"] == pytest.approx(0.5)
    assert values["b", "pass@1"] == values["b", "pass@2"] == 1
    assert values[OVERALL, "pass@1"] == pytest.approx(0.625) and values[OVERALL, "pass@2"] == pytest.approx(0.75)
    assert outcome.counts["a"] == {
        "samples": 8,
        "ungraded": 0,
        "truncated": 0,
        "reward_correct": 0,
        "mean_response_tokens": 10,
        "reasons": {"equal": 2, "different": 4, "no answer found": 2},
    }
    graded = read_samples(tmp_path / "graded.jsonl")
    assert len(graded) == WHOLE.total and graded["correct"].sum() == 6
    first = json.loads((tmp_path / "graded.jsonl").read_text().splitlines()[0])
    assert first["extracted"] == "56" and first["reason"] == "equal" and "response" not in first
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["samples_per_replica"] == 2 and len(results["metrics"]) == 6
    assert results["counts"][OVERALL]["samples"] == 12


def test_generations_made_elsewhere(tmp_path):
    source = tmp_path / "mine.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in rows()))
    output = invoke("--from", source, "--output", tmp_path / "out", "--replicas", 2, "--samples", 2)
    assert output.startswith("0\n"), output
    assert re.search(r"overall\W+62\.5\W", output) and "pass@2" in output
    assert "INCOMPLETE" not in output and "UNGRADED" not in output
    assert len(read_samples(tmp_path / "out" / "graded.jsonl")) == WHOLE.total
    # The same again, and another file into the same directory.
    assert invoke("--from", source, "--output", tmp_path / "out", "--replicas", 2, "--samples", 2).startswith("0\n")
    other = invoke("--from", source, "--output", tmp_path / "out")
    assert other.startswith("1\n") and "replicas: 2 there, nothing now" in other


def test_what_is_missing_is_prominent(tmp_path):
    source = tmp_path / "mine.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in rows()[:-3]))
    output = invoke("--from", source, "--output", tmp_path / "out")
    assert output.startswith("0\n"), output
    assert "INCOMPLETE: missing problems 0, missing replicas 1, incomplete replicas 1, unused samples 1" in output


def test_undecided_verdicts_are_prominent(tmp_path):
    # A comparison that takes longer than it may: undecided, not wrong.
    items = [*rows()[:-1], rows()[-1] | {"response": r"Answer: \sum_{k=1}^{10^9} \sin(k^2)"}]
    source = tmp_path / "mine.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in items))
    output = invoke("--from", source, "--output", tmp_path / "out", "--time-limit", 0.5)
    graded = read_samples(tmp_path / "out" / "graded.jsonl")
    assert graded["correct"].isna().sum() == 1
    assert "1 UNGRADED" in output and "counted as wrong" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either a checkpoint to sample from, or generations with --from"),
        (["model", "--from", "x.jsonl"], "Give either"),
        (["--from", "absent.jsonl", "--output", "out"], "absent.jsonl is not there"),
        (["--from", "absent.jsonl"], "Give --output DIR"),
        (["absent"], "absent is no directory"),
    ],
)
def test_commands_that_cannot_be(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    output = invoke(*arguments)
    assert output.startswith("1\n") and message in output
    assert "Traceback" not in output


def test_samples_that_cannot_be_graded(tmp_path):
    source = tmp_path / "mine.jsonl"
    source.write_text(json.dumps(rows()[0] | {"reference": " "}) + "\n")
    output = invoke("--from", source, "--output", tmp_path / "out")
    assert output.startswith("1\n") and "('a', 'a-0', 0, 0): reference=' ' is empty" in output
    source.write_text("")
    output = invoke("--from", source, "--output", tmp_path / "other")
    assert output.startswith("1\n") and "There is no sample to grade" in output


def test_a_directory_in_use(tmp_path):
    from filelock import FileLock

    source = tmp_path / "mine.jsonl"
    source.write_text(json.dumps(rows()[0]) + "\n")
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / "evaluation.lock"):
        output = invoke("--from", source, "--output", tmp_path / "out")
    assert output.startswith("1\n") and "Another evaluation runs in" in output

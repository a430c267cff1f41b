"""The demonstration: what it may overwrite, and the prompt that it shows."""

from __future__ import annotations

import pytest
from report_runs import PREVIEW, write_lines
from typer.testing import CliRunner

from subgroup_offset import demo
from subgroup_offset.cli import app
from subgroup_offset.cluster.launch import LoggedStep


class Stopped(Exception):
    """In place of the training."""


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Runs the command up to where the training would start; what it printed, and whether it has come so far."""
    built = []

    def training(directory, overrides):
        assert list(directory.iterdir()) == [directory / demo.MARKER]
        raise Stopped

    monkeypatch.setattr(demo, "_toy_world", lambda: built.append("toy") or tmp_path)
    monkeypatch.setattr(demo, "TrainingRun", training)

    def run(output):
        built.clear()
        result = CliRunner().invoke(app, ["demo", "--output", str(output)])
        return (
            " ".join(result.output.replace("│", " ").split()),
            built == ["toy"],
            isinstance(result.exception, Stopped),
        )

    return run


def test_a_new_and_an_empty_directory_are_taken(start, tmp_path):
    (tmp_path / "empty").mkdir()
    for output in (tmp_path / "a" / "new", tmp_path / "empty"):
        assert start(output)[1:] == (True, True)
        assert (output / demo.MARKER).is_file()


def test_an_earlier_demo_is_replaced_whole(start, tmp_path):
    output, kept = tmp_path / "demo", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    start(output)
    (output / "rollouts").mkdir()
    (output / "rollouts" / "1.jsonl").touch()
    (output / "log.txt").touch()
    (output / "link").symlink_to(kept)
    assert start(output)[1:] == (True, True)
    assert (kept / "file").exists()


def test_a_directory_that_is_a_link_stays_one(start, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "demo").symlink_to(tmp_path / "disk")
    for _ in range(2):
        assert start(tmp_path / "demo")[1:] == (True, True)
    assert (tmp_path / "demo").is_symlink()


@pytest.mark.parametrize("name", ["thesis.tex", ".git", "log.txt"])
def test_what_no_demo_has_written_is_refused_and_kept(start, tmp_path, name):
    output = tmp_path / "precious"
    output.mkdir()
    (output / name).write_text("years of work")
    said, built, reached = start(output)
    assert "is not marked as an earlier demo's" in said and "give a directory that is new or empty" in said
    assert not built and not reached
    assert (output / name).read_text() == "years of work"


def test_a_file_is_refused(start, tmp_path):
    (tmp_path / "file").write_text("text")
    said, built, _ = start(tmp_path / "file")
    assert "is a file: give a directory" in said and not built
    assert (tmp_path / "file").read_text() == "text"


def test_what_came_there_while_the_toy_world_was_built_is_kept(start, tmp_path, monkeypatch):
    output = tmp_path / "demo"

    def build():
        output.mkdir()
        (output / "other").touch()
        return tmp_path

    monkeypatch.setattr(demo, "_toy_world", build)
    said, _, reached = start(output)
    assert "is not marked" in said and not reached and (output / "other").exists()


def test_the_prompt_of_table_6_and_its_credit(tmp_path, capsys, monkeypatch):
    """Successes as in the paper's case, 6, 4, 1 and 0 of 8, beside a prompt whose subgroups are all alike."""
    monkeypatch.setattr(demo, "Z", 8)
    rows = [{"uid": f"flat_{i}_0", "input": "q", "output": "o", "score": 1.0 if i % 8 < 4 else -1.0} for i in range(32)]
    for i in range(32):
        won = i % 8 < (1, 6, 0, 4)[i // 8]
        given = f"q\n{PREVIEW.format(i // 8)}"
        rows.append({"uid": f"case_{i}_0", "input": given, "output": "o", "score": 1.0 if won else -1.0})
    write_lines(tmp_path / "3.jsonl", rows)
    prompt = demo.most_informative(tmp_path / "3.jsonl", 3)
    assert (prompt.uid, [slot.success for slot in prompt.slots]) == ("case", ["1/8", "6/8", "0/8", "4/8"])
    credit = demo.credit(prompt, -0.3)
    # Rewards of -1 and 1: mean -0.3125, sample std 0.96512..., offset of the best subgroup 0.8125.
    std = (32 / 31 * (1 - 0.3125**2)) ** 0.5
    assert credit[1] == pytest.approx([(r + 0.3125 + 0.3 * 0.8125) / std for r in (1, -1)], abs=1e-5)
    assert credit[2][0] is None  # it had no success
    assert len({failure for _, failure in demo.credit(prompt, 0.0)}) == 1  # lam = 0: the same for every failure
    demo._print_prompt(tmp_path, [LoggedStep(3, {})])
    assert "idea 1" in capsys.readouterr().out


def test_the_plot_takes_what_was_logged(tmp_path):
    steps = [LoggedStep(step, {"critic/score/mean": 0.1 * step}) for step in (1, 2)]
    demo._plot(steps, tmp_path / "dynamics.png", "Toy world, $K$=4")
    assert (tmp_path / "dynamics.png").read_bytes().startswith(b"\x89PNG")

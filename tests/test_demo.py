"""What the demonstration may overwrite."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from subgroup_offset import demo
from subgroup_offset.cli import app


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

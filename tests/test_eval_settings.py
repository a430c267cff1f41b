"""``evaluation.json``: one evaluation a directory."""

from __future__ import annotations

import json

import pytest

from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.settings import FILE_NAME, EvaluationRecord

SETTINGS = {"checkpoint": "/m", "temperature": 0.7, "files": {"a": [1, 2]}, "verl": {"rollout.dtype": "float32"}}


def begin(directory, **other) -> EvaluationRecord:
    record = EvaluationRecord.read(directory)
    record.agree(SETTINGS | other, directory)
    return record


def test_the_same_settings_go_on(tmp_path):
    record = begin(tmp_path)
    record.starts.append({"missing": 3})
    record.save(tmp_path)
    assert begin(tmp_path, files={"a": (1, 2)}) == record
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_nothing_is_written_before_it_is_saved(tmp_path):
    begin(tmp_path)
    assert not list(tmp_path.iterdir())
    begin(tmp_path, temperature=1.0).save(tmp_path)
    with pytest.raises(EvaluationError, match="temperature"):
        begin(tmp_path)


def test_every_difference_is_named(tmp_path):
    begin(tmp_path).save(tmp_path)
    with pytest.raises(EvaluationError) as error:
        begin(tmp_path, temperature=1.0, files={"b": [1, 2]}, verl={"rollout.dtype": None})
    first, *lines, last = str(error.value).splitlines()
    assert first == f"{tmp_path} holds an evaluation with other settings:" and "another --output" in last
    assert lines == [
        "  files.a: [1, 2] there, nothing now",
        "  files.b: nothing there, [1, 2] now",
        "  temperature: 0.7 there, 1.0 now",
        "  verl.rollout.dtype: float32 there, nothing now",
    ]
    assert json.loads((tmp_path / FILE_NAME).read_text())["settings"] == SETTINGS


def test_directories_that_hold_something_else(tmp_path):
    (tmp_path / FILE_NAME).write_text("{}")
    with pytest.raises(EvaluationError, match="is no record of an evaluation"):
        begin(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "a.jsonl").touch()
    with pytest.raises(EvaluationError, match=r"holds samples, but there is no evaluation\.json"):
        begin(tmp_path)

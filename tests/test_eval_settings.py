"""``evaluation.json``: one evaluation a directory."""

from __future__ import annotations

import json

import pytest

from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.settings import FILE_NAME, EvaluationRecord

SETTINGS = {"checkpoint": "/m", "temperature": 0.7, "files": {"a": [1, 2]}, "verl": {"rollout.dtype": "float32"}}


def test_the_same_settings_go_on(tmp_path):
    record = EvaluationRecord.open(tmp_path, SETTINGS)
    record.starts.append({"missing": 3})
    record.save(tmp_path)
    again = EvaluationRecord.open(tmp_path, SETTINGS | {"files": {"a": (1, 2)}})
    assert again == record
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_nothing_is_written_before_it_is_saved(tmp_path):
    EvaluationRecord.open(tmp_path, SETTINGS)
    assert not list(tmp_path.iterdir())
    EvaluationRecord.open(tmp_path, SETTINGS | {"temperature": 1.0}).save(tmp_path)
    with pytest.raises(EvaluationError, match="temperature"):
        EvaluationRecord.open(tmp_path, SETTINGS)


def test_every_difference_is_named(tmp_path):
    EvaluationRecord.open(tmp_path, SETTINGS).save(tmp_path)
    other = SETTINGS | {"temperature": 1.0, "files": {"b": [1, 2]}, "verl": {"rollout.dtype": None}}
    with pytest.raises(EvaluationError) as error:
        EvaluationRecord.open(tmp_path, other)
    lines = str(error.value).splitlines()
    assert lines[1:-1] == [
        "  files.a: [1, 2] there, nothing now",
        "  files.b: nothing there, [1, 2] now",
        "  temperature: 0.7 there, 1.0 now",
        "  verl.rollout.dtype: float32 there, nothing now",
    ]
    assert "another --output" in lines[-1]
    assert json.loads((tmp_path / FILE_NAME).read_text())["settings"] == SETTINGS


def test_what_is_no_record(tmp_path):
    (tmp_path / FILE_NAME).write_text("{}")
    with pytest.raises(EvaluationError, match="is no record of an evaluation"):
        EvaluationRecord.open(tmp_path, SETTINGS)


def test_samples_of_nobody_knows_what(tmp_path):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "a.jsonl").touch()
    with pytest.raises(EvaluationError, match=r"holds samples, but there is no evaluation\.json"):
        EvaluationRecord.open(tmp_path, SETTINGS)

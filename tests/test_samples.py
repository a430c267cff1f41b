"""The table of graded samples: what is read, refused, left out and counted."""

import json

import numpy as np
import pandas as pd
import pytest
from graded import by_hand

from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.samples import (
    COLUMNS,
    ExpectedSamples,
    SamplesError,
    complete_replicas,
    read_samples,
    validate_samples,
)

SMALL = {"aime": {"1": ["10", "0?"], "2": ["11", "00"]}}


def lines(frame: pd.DataFrame) -> str:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_read_back(tmp_path, suffix):
    frame = by_hand({"aime": {"01": ["1?0"], "2": ["000"]}, "hmmt": {"2024-01-01": ["111"]}})
    path = tmp_path / f"samples.{suffix}"
    extra = frame.assign(response="text").sample(frac=1, random_state=0)
    extra.to_parquet(path) if suffix == "parquet" else path.write_text(lines(extra))
    found = read_samples(path)
    pd.testing.assert_frame_equal(found, validate_samples(frame))
    assert list(found.columns) == list(COLUMNS) and found["correct"].dtype == "boolean"
    assert set(found["problem"]) == {"01", "2", "2024-01-01"}  # names stay what they are
    assert found["correct"].isna().sum() == 1


def test_a_file_that_is_still_being_written(tmp_path, caplog):
    path = tmp_path / "samples.jsonl"
    path.write_text(lines(by_hand(SMALL)) + '{"benchmark": "ai')
    assert len(read_samples(path)) == 8
    assert f"{path}, line 9 is unfinished" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"benchmark": "ai\n', r"samples.jsonl, line 1: no JSON"),
        ("[1]\n", r"samples.jsonl, line 1: no JSON object, but list"),
        ('\n{"benchmark": "a", "problem": "1", "replica": 0, "sample": 0}\n', r"samples.jsonl, line 2: no 'correct'"),
        (
            '\n{"benchmark": "a", "problem": "1", "replica": 0, "sample": 0, "correct": 2}\n',
            r"samples.jsonl: row 2: cor",
        ),
        ("", r"samples.jsonl: the table has no rows"),
    ],
)
def test_lines_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "samples.jsonl"
    path.write_text(text)
    with pytest.raises(EvaluationError, match=message):
        read_samples(path)


def test_files_of_another_kind(tmp_path):
    with pytest.raises(SamplesError, match=r"not \.csv"):
        read_samples(tmp_path / "samples.csv")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("benchmark", None, "row 3: benchmark=None is no name"),
        ("benchmark", "overall", "benchmark 'overall' is what the mean"),
        ("problem", "", "row 3: problem='' is no name"),
        ("problem", 1.5, "row 3: problem=1.5 is no name"),
        ("replica", 1.5, "row 3: replica=1.5 is no whole number"),
        ("replica", np.nan, "row 3: replica=nan"),
        ("sample", True, "row 3: sample=True"),
        ("sample", "1", "row 3: sample='1'"),
        ("correct", "True", "row 3: correct='True' is no verdict"),
        ("correct", 0.5, "row 3: correct=0.5 is no verdict"),
    ],
)
def test_values_that_are_refused(column, value, message):
    frame = by_hand(SMALL).astype(object)
    frame.at[3, column] = value
    with pytest.raises(SamplesError, match=message):
        validate_samples(frame)


def test_repeated_samples_are_refused():
    frame = by_hand(SMALL)
    both = pd.concat([frame, frame.iloc[[2, 5]]], ignore_index=True)
    with pytest.raises(
        SamplesError, match=r"2 rows repeat a sample, row 8 \(benchmark=aime, problem=1, replica=1, sam"
    ):
        validate_samples(both)


def test_missing_column_names_those_that_are_there():
    with pytest.raises(SamplesError, match=r"'correct' is missing: it has .*corect"):
        validate_samples(by_hand(SMALL).rename(columns={"correct": "corect"}))


@pytest.mark.parametrize("kind", [bool, "boolean", int, float, object, "int8"])
def test_verdicts_of_any_numeric_kind(kind):
    frame = by_hand({"aime": {"1": ["10"]}})
    frame["correct"] = frame["correct"].astype(kind)
    assert validate_samples(frame)["correct"].tolist() == [True, False]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_verdicts(missing):
    frame = by_hand(SMALL)
    frame.loc[frame["correct"].isna(), "correct"] = missing
    run = complete_replicas(frame)
    assert run.counts.loc["aime", "ungraded"] == 1 and run.table["right"].sum() == 3


def test_everything_complete(caplog):
    run = complete_replicas(by_hand({"aime": {"1": ["10", "01"], "2": ["11", "00"]}}))
    assert run.samples == 2 and not caplog.records
    assert run.counts.loc["aime"].tolist() == [2, 4, 8, 0, 0, 0, 0, 0]
    right, sizes = run.stack("aime")
    assert right.tolist() == [[1, 1], [2, 0]] and sizes.tolist() == [2, 2]


def test_a_run_in_progress(caplog):
    """Problem 1 is done, 2 has one whole and one begun replica, 3 only a begun one, 4 nothing yet; hmmt is to come."""
    frame = by_hand({"aime": {"1": ["10", "??"], "2": ["11", "1"], "3": ["1"]}})
    run = complete_replicas(frame, ExpectedSamples(samples=2, replicas=2, problems={"aime": 4, "hmmt": 2}))
    assert run.counts.loc["aime"].to_dict() == {
        "problems": 2,
        "replicas": 3,
        "samples": 6,
        "ungraded": 2,
        "missing_problems": 2,
        "missing_replicas": 5,
        "incomplete_replicas": 2,
        "unused_samples": 2,
    }
    assert run.counts.loc["hmmt"].tolist() == [0, 0, 0, 0, 2, 4, 0, 0]
    right, sizes = run.stack("aime", ungraded_right=True)
    assert right.tolist() == [[1, 2], [2, 0]] and sizes.tolist() == [2, 1]
    assert run.stack("hmmt")[0].shape == (0, 0)
    assert "9 replicas are missing (2 of them begun, with 2 samples), and 4 problems have none" in caplog.text
    assert "2 of 6 samples have no verdict" in caplog.text
    inferred = complete_replicas(frame).counts.loc["aime"]
    assert inferred["missing_problems"] == 1 and inferred["missing_replicas"] == 3


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (ExpectedSamples(samples=1), r"replica \(aime, 1, 0\) has 2 samples, more than the 1 planned"),
        (ExpectedSamples(samples=3), r"no replica has all 3 samples \(the fullest has 2\)"),
        (
            ExpectedSamples(replicas=1),
            "2 problems of up to 2 replicas, more than the 2 of 1 planned",
        ),
        (
            ExpectedSamples(problems={"aime": 1}),
            "2 problems of up to 2 replicas, more than the 1 of 2 planned",
        ),
        (
            ExpectedSamples(problems={"aime24": 2}),
            "2 problems of up to 2 replicas, more than the 0 of 2 planned",
        ),
    ],
)
def test_a_table_that_does_not_fit_the_plan(plan, message):
    with pytest.raises(SamplesError, match=message):
        complete_replicas(by_hand(SMALL), plan)


def test_replicas_of_a_benchmark_that_has_not_begun():
    run = complete_replicas(by_hand({"aime": {"1": ["1", "0", "1"]}}), ExpectedSamples(problems={"aime": 1, "hmmt": 2}))
    assert run.counts["missing_replicas"].to_dict() == {"aime": 0, "hmmt": 6}

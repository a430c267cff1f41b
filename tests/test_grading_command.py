"""``subgroup-offset grade``: real files in, tables and graded files out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from subgroup_offset.evaluation.grade_command import grade

# As verl dumps them in validation.
ROWS = [
    {"input": "a", "output": "Answer: 34", "gts": "34", "score": 1.0, "acc": True, "uid": "p_0_0"},
    {"input": "a", "output": "**Answer:** 34.", "gts": "34", "score": -1.0, "acc": False, "uid": "p_1_0"},
    {"input": "a", "output": "Answer: $34$ or $35$", "gts": "34", "score": 1.0, "acc": True, "uid": "p_2_0"},
    {"input": "a", "output": "Answer: 35", "gts": "34", "score": -1.0, "acc": False, "uid": "p_3_0"},
    {"input": "b", "output": "so \ud83d \u2028 34", "gts": "34", "score": -1.0, "acc": False, "uid": "q_0_0"},
    {"input": "b", "output": "Answer: 9^{9^{9^9}}", "gts": "34", "score": -1.0, "acc": False, "uid": "q_1_0"},
    {"input": "c", "output": "Answer: 1\nAnswer: \\sqrt{8}", "gts": "2\\sqrt{2}", "score": -1.0, "uid": "r_0_0"},
]
REASONS = ["equal", "equal", "more than one answer", "different", "no answer found", "too large to evaluate", "equal"]
CORRECT = [True, True, False, False, False, None, True]


@pytest.fixture
def run(tmp_path):
    """Run the command on rows (or lines) in a terminal of 200 columns."""
    app = typer.Typer()
    app.command()(grade)

    def run(rows, *arguments):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / "1.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(path), *map(str, arguments)])

    return run


def read(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def test_counts_and_graded_rows(run, tmp_path):
    output = tmp_path / "new" / "graded.jsonl"
    result = run(ROWS, "--output", output)
    assert result.exit_code == 0, result.output
    for text in ("7 responses", "accuracy 0.4286 (3 of 7)", "1 UNDECIDED", "of which the last counts: 1"):
        assert text in result.output
    graded = read(output)
    assert [row["reason"] for row in graded] == REASONS
    assert [row["correct"] for row in graded] == CORRECT
    assert [row["extracted"] for row in graded][4] is None
    assert graded[6]["method"] == "symbolic" and graded[6]["extracted"] == "\\sqrt{8}"
    for row, old in zip(graded, ROWS, strict=True):
        assert {key: row[key] for key in old} == old
    assert [path.name for path in output.parent.iterdir()] == ["graded.jsonl"]


def test_without_undecided_nothing_is_said_of_them(run):
    result = run(ROWS[:2])
    assert "UNDECIDED" not in result.output
    assert "accuracy 1.0000 (2 of 2)" in result.output


def test_examples_name_the_line(run):
    output = run(ROWS, "--show", 1).output
    assert "line 1: 34, reference 34" in output
    assert "line 2" not in output  # one example of each reason
    assert "line 3: $34$ or $35$, reference 34" in output
    assert "line 5: none, reference 34" in output


def test_compare_shows_where_the_reward_differs(run, tmp_path):
    result = run(ROWS, "--compare", "--show", 3, "--output", tmp_path / "graded.jsonl")
    assert result.exit_code == 0, result.output
    for text in (
        "3 disagreements",
        "right here only: spelled otherwise than the reference",
        "right for math_dapo only: more than one answer",
        "accuracy by math_dapo 0.2857 (2 of 7)",
        "line 2: 34., reference 34, math_dapo read **34.",
    ):
        assert text in result.output
    assert [row["math_dapo"] for row in read(tmp_path / "graded.jsonl")] == [True, False, True, *[False] * 4]


def test_a_graded_file_can_be_graded_again(run, tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    run(ROWS[:5], "--output", first)
    result = run(first.read_text("utf-8").rstrip("\n").split("\n"), "--output", second)
    assert "earlier grading, which are replaced: 5" in result.output
    assert read(first) == read(second)


def test_other_columns(run):
    row = {"text": "Answer: 34", "response": "Answer: 35", "truth": 34, "answer": "35"}
    assert "accuracy 1.0000" in run([row]).output  # response and answer
    assert "accuracy 1.0000" in run([row], "--response-column", "text", "--reference-column", "truth").output
    assert "accuracy 0.0000" in run([row], "--reference-column", "truth").output


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no rows"),
        ([ROWS[0], "{"], "1.jsonl, line 2: no JSON"),
        ([ROWS[0], "[1]"], "1.jsonl, line 2: no JSON object, but list"),
        ([ROWS[0], "", {"output": "Answer: 1"}], "line 3: there is no column 'gts'; the row has output"),
        ([{"text": "Answer: 1", "gts": "1"}], "line 1: no column output or response; the row has text, gts. Say"),
        ([{"output": "Answer: 1"}], "--reference-column NAME"),
        ([{"output": None, "gts": "1"}], "line 1: output=None is no text"),
        ([{"output": "Answer: 1", "gts": None}], "line 1: gts=None is no answer"),
        ([{"output": "Answer: 1", "gts": ["1"]}], "line 1: gts=['1'] is no answer"),
        ([{"output": "Answer: 1", "gts": True}], "line 1: gts=True is no answer"),
        ([{"output": "Answer: 1", "gts": " "}], "line 1: gts=' ' is empty"),
        ([{"output": "Answer: 1", "gts": "\\frac{1"}], "cannot be read"),
    ],
)
def test_bad_files_are_named_and_nothing_is_written(run, tmp_path, rows, message):
    result = run(rows, "--output", tmp_path / "graded.jsonl")
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "graded.jsonl").exists()


def test_the_file_itself_is_no_output(run, tmp_path):
    result = run(ROWS, "--output", tmp_path / "1.jsonl")
    assert result.exit_code == 1 and "give another name" in result.output
    assert read(tmp_path / "1.jsonl") == ROWS


def test_a_file_that_is_not_there(tmp_path):
    app = typer.Typer()
    app.command()(grade)
    result = CliRunner().invoke(app, [str(tmp_path / "none.jsonl")])
    assert result.exit_code == 1 and "is not a file" in result.output


def test_the_command_is_light():
    code = (
        "import sys, subgroup_offset.evaluation.grade_command; "
        "print([m for m in ('rich.table', 'pandas', 'sympy', 'torch', 'verl') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"

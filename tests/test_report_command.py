"""``subgroup-offset report`` from the command line."""

import subprocess
import sys

import pytest
import typer
from report_runs import config, write_hydra, write_lines, write_run
from typer.testing import CliRunner

from subgroup_offset.reports.command import report


@pytest.fixture
def run():
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("report")(report)
    return lambda *arguments: CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_it_writes_both_files_and_says_so(run, tmp_path):
    write_run(tmp_path / "sweep" / "zero")
    write_run(tmp_path / "sweep" / "contrast", lam=-0.3, steps=2)
    result = run(tmp_path / "sweep", "--output", tmp_path / "out", "--title", "Mine", "--prompts", 2, "--smooth", 0)
    assert result.exit_code == 0, result.output
    assert f"2 runs: wrote {tmp_path}/out/report.html" in result.output
    html = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<h1>Mine</h1>" in html and "at most 2 prompts" in html
    assert "policy entropy<" in html  # and no EMA
    assert (tmp_path / "out" / "report.md").exists() and (tmp_path / "out" / "report_dynamics-0.png").exists()
    again = run(tmp_path / "sweep" / "zero", "--output", tmp_path / "out")
    assert again.exit_code == 0 and "1 run: wrote" in again.output


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "is not there: give the directory of a run or of a sweep"),
        (lambda path: path.mkdir(), "holds no run, and neither do the directories in it: there is no metrics.jsonl"),
        (lambda path: write_lines(path, [{"a": 1}]), "is no log of verl's file logger"),
        (lambda path: write_hydra(path / ".hydra", config(path), []), "none of which has logged a step"),
    ],
)
def test_errors_name_the_directory_and_what_is_missing(run, tmp_path, make, said):
    path = tmp_path / "somewhere"
    make(path)
    result = run(path, "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert str(path) in result.output and said in result.output
    assert "Traceback" not in result.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [["--smooth", 1], ["--prompts", 0]])
def test_options_out_of_range_are_refused(run, tmp_path, option):
    assert run(tmp_path, *option).exit_code == 2


def test_a_run_with_nothing_but_an_evaluation(run, tmp_path):
    directory = write_run(tmp_path / "run", pass_rate=0.5)
    (directory / "metrics.jsonl").unlink()
    for name in ("hydra", "strategy", "rollouts"):
        (directory / name).rename(tmp_path / name)
    result = run(directory, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "| run | 50.0 | 60.0 |" in text
    for said in ("Logged steps.", "The composed config"):
        assert said in text


def test_importing_the_command_is_light():
    heavy = "{'torch', 'verl', 'ray', 'matplotlib', 'pandas', 'numpy', 'jinja2', 'hydra', 'omegaconf'}"
    code = f"import sys, subgroup_offset.reports.command; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_report_needs_neither_torch_nor_verl(tmp_path):
    write_run(tmp_path / "zero", pass_rate=0.5)
    code = (
        "import sys; from pathlib import Path; from subgroup_offset.reports.write import write_report\n"
        f"write_report([Path({str(tmp_path / 'zero')!r})], Path({str(tmp_path / 'out')!r}), title='t')\n"
        "print(sorted({'torch', 'verl', 'ray', 'vllm'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"

"""``subgroup-offset report`` from the command line: what it refuses, what it makes of little, and what it imports."""

import subprocess
import sys

import pytest
from report_runs import config, write_hydra, write_lines, write_run
from typer.testing import CliRunner

from subgroup_offset.cli import app


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "is not there: give the directory of a run or of a sweep"),
        (lambda path: path.mkdir(), "holds no run, and neither do the directories in it: there is no metrics.jsonl"),
        (lambda path: write_lines(path, [{"a": 1}]), "is no log of verl's file logger"),
        (lambda path: write_hydra(path / ".hydra", config(path), []), "none of which has logged a step"),
    ],
)
def test_errors_name_the_directory_and_what_is_missing(tmp_path, make, why):
    path = tmp_path / "somewhere"
    make(path)
    result = run(path, "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert str(path) in result.output and why in result.output
    assert "Traceback" not in result.output and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [["--smooth", 1], ["--prompts", 0]])
def test_options_out_of_range_are_refused(tmp_path, option):
    assert run(tmp_path, *option).exit_code == 2


def imported(code, modules):
    code = f"import sys; {code}\nprint(sorted({modules!r} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_command_line_is_light():
    heavy = {"torch", "verl", "ray", "matplotlib", "pandas", "numpy", "jinja2", "hydra", "omegaconf"}
    assert imported("import subgroup_offset.reports.command", heavy) == ["[]"]
    assert imported("import subgroup_offset.cli", {"pandas", "matplotlib"}) == ["[]"]
    assert imported("import subgroup_offset.reports.inspect", {"torch", "verl", "pandas", "matplotlib"}) == ["[]"]


def test_a_run_with_nothing_but_an_evaluation_and_neither_torch_nor_verl(tmp_path):
    directory = write_run(tmp_path / "run", pass_rate=0.5)
    (directory / "metrics.jsonl").unlink()
    for name in ("hydra", "strategy", "rollouts"):
        (directory / name).rename(tmp_path / name)
    code = f"sys.argv = ['', 'report', {str(directory)!r}, '--output', {str(tmp_path / 'out')!r}]\n"
    code += "from subgroup_offset.cli import app\napp(standalone_mode=False)"
    line, heavy = imported(code, {"torch", "verl", "ray", "vllm"})
    assert "1 run: wrote" in line and heavy == "[]"
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert all(part in text for part in ("| run | 50.0 | 60.0 |", "Logged steps.", "The composed config"))

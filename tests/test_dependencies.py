"""Everything that is imported is declared: in the base, or in the extra that its room needs."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"subgroup_offset", "hydra_plugins"}
#: Rooms, and single files, that need more than the base.
EXTRAS = {"evaluation": "eval", "reports": "report", "data": "data", "toy": "cpu", "demo.py": "cpu"}


def declared(extra: str | None) -> set[str]:
    """Names of the distributions that the base and an extra ask for."""
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    todo = [extra] if extra else []
    while todo:
        more = [Requirement(text) for text in PROJECT["optional-dependencies"][todo.pop()]]
        todo += [name for one in more if one.name == PROJECT["name"] for name in one.extras]
        wanted += more
    return {canonicalize_name(one.name) for one in wanted}


def imported(path: Path) -> Iterator[str]:
    """Top-level names of what a file imports from outside of this project and the standard library."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            top = name.split(".")[0]
            if top not in OWN and top not in sys.stdlib_module_names:
                yield top


DISTRIBUTIONS = importlib.metadata.packages_distributions()
FILES = sorted(path for room in OWN for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_file_imports_is_declared(path):
    part = path.relative_to(ROOT).parts[1]
    known = declared(EXTRAS.get(part))
    for name in imported(path):
        candidates = {canonicalize_name(one) for one in DISTRIBUTIONS.get(name, [name])}
        assert candidates & known, f"{path} imports {name}, which {EXTRAS.get(part, 'the base')} does not declare"


@pytest.mark.parametrize(
    ("verb", "package", "extra"),
    [
        (["eval", "model", "--output", "out"], "pandas", "eval"),
        (["grade", "file.jsonl"], "pebble", "eval"),
        (["report", "log.jsonl"], "matplotlib", "report"),
        (["data", "aime24", "--source", "file.jsonl"], "pyarrow", "data"),
        (["demo"], "matplotlib", "cpu"),
    ],
)
def test_a_verb_whose_extra_is_missing_names_it(verb, package, extra, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\n')
    (tmp_path / "file.jsonl").write_text(
        '{"problem": "1+1?", "answer": "2", "output": "Answer: $\\\\sqrt{4}$", "gts": "2"}\n'
    )
    for name in [name for name in sys.modules if name.split(".")[0] in {package, "subgroup_offset"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    app = importlib.import_module("subgroup_offset.cli").app
    done = CliRunner().invoke(app, verb)
    assert done.exit_code == 1 and f"{package} is not installed" in done.output
    assert f'pip install "subgroup-offset[{extra}]"' in done.output


def test_the_readme_names_the_extras():
    named = re.findall(r"^\| `\[(\w+)\]` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])

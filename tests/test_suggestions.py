"""Every command that a message, a help text or a page names can be typed: it is parsed here, as the shell would."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import PAGES, ROOT
from typer import BadParameter
from typer.main import get_command

from subgroup_offset.cli import app

CLI = get_command(app)
UsageError = BadParameter.__mro__[1]  # of the click that typer brings
# Up to what cannot be part of it: the end of the line or of the quotation, or the shell's next command.
COMMAND = re.compile(r"subgroup-offset((?:[ \t]+[^\s`;|&#]+)*)")
MODULE = re.compile(r"python -m (subgroup_offset(?:\.\w+)*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+\b")
# Of verl's model merger, whose command line is in evaluation/.
NOT_OURS = {"--backend", "--local_dir", "--target_dir"}


def strings(path: Path) -> Iterator[str]:
    """All texts in a Python file, docstrings among them; what is formatted in stands as VALUE."""
    inside = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            yield "".join(v.value if isinstance(v, ast.Constant) else "VALUE" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def sources() -> dict[str, list[str]]:
    """The texts of the package, the pages and the scripts, by file."""
    found = {str(p.relative_to(ROOT)): list(strings(p)) for p in sorted((ROOT / "subgroup_offset").rglob("*.py"))}
    for path in (*PAGES.values(), *sorted((ROOT / "scripts").iterdir())):
        if path.is_file() and path.suffix in ("", ".md", ".sh"):
            found[str(path.relative_to(ROOT))] = [path.read_text("utf-8").replace("\\\n", " ")]
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each command that a text names."""
    for match in COMMAND.finditer(text):
        words = match[1].split()
        # In prose it ends with the word before a comma, a period, a bracket.
        end = next((i for i, word in enumerate(words) if re.search(r"\w[,.:)]+$", word)), len(words))
        line = " ".join(words[: end + 1])
        yield [word for word in shlex.split(line.rstrip(",.:)")) if word != "$@"]


NAMED = [(name, args) for name, texts in sources().items() for text in texts for args in commands(text) if args]


def parse(args: list[str]) -> None:
    verb, *rest = args
    assert verb in CLI.commands, f"there is no command {verb!r}: {', '.join(CLI.commands)}"
    if rest:  # alone it is only named
        CLI.commands[verb].make_context(verb, rest)


@pytest.mark.parametrize(("where", "args"), NAMED, ids=[f"{where}: {' '.join(args)}" for where, args in NAMED])
def test_a_command_that_is_named_parses(where, args):
    if re.match(r"\w", args[0]):
        parse(args)


def test_the_commands_are_found():
    known = {" ".join(args) for _, args in NAMED}
    for line in (
        "eval RUN",
        "data VALUEVALUE --output VALUE",
        "data $b",
        "grade FILE --compare",
        "inspect DIR --informative",
    ):
        assert line in known


@pytest.mark.parametrize("line", ["dat aime24", "data aime24 --splitt val", "data a b", "eval run --samples many"])
def test_what_does_not_parse_is_noticed(line):
    with pytest.raises((AssertionError, UsageError)):
        parse(line.split())


def test_modules_that_are_named_can_be_run():
    named = {module for texts in sources().values() for text in texts for module in MODULE.findall(text)}
    assert "subgroup_offset.toy" in named
    for module in named:
        assert find_spec(module) is not None, module
        assert not find_spec(module).submodule_search_locations or find_spec(f"{module}.__main__"), module


def test_options_that_messages_name_exist():
    params = [param for command in CLI.commands.values() for param in command.params]
    ours = {option for param in params for option in [*param.opts, *param.secondary_opts]}
    texts = {
        name: texts
        for name, texts in sources().items()
        if re.match(r"subgroup_offset/(data|evaluation|reports|cli\.py|demo\.py)", name)
    }
    named = {option: name for name, found in texts.items() for text in found for option in OPTION.findall(text)}
    assert "--max-prompt-length" in named
    assert {option: name for option, name in named.items() if option not in ours | NOT_OURS} == {}

"""Every command of the pages can be given, and every Python block runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig
from packaging.requirements import Requirement
from pages import PAGES, ROOT, blocks, prose
from test_suggestions import UsageError, parse
from verl.trainer.ppo import core_algos

from subgroup_offset.config import ConfigError
from subgroup_offset.metrics import STEP_METRICS
from subgroup_offset.paths import config_dir
from subgroup_offset.preflight import check_run

SUBSTITUTED = re.compile(r"\$\([^)]*\)|\$\w+")  # by the shell, to something without blanks
GROUPS = {path.name for path in config_dir().iterdir() if path.is_dir()}


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of each command of a block, loops undone, and VALUE for what the shell would put in."""
    for line in text.replace("\\\n", " ").splitlines():
        kept = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("$", "\0"), line)
        line = SUBSTITUTED.sub("VALUE", kept).replace("\0", "$").replace(";", " ; ")
        words = shlex.split(line, comments=True)
        if words[:1] == ["for"]:
            words = words[words.index("do") + 1 : words.index("done") - 1]
        if words:
            yield words


COMMANDS = [
    (page, words)
    for page in PAGES
    for block in blocks(page)
    if block.language == "bash"
    for words in command_lines(block.text)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A directory with the files that the pages have their readers write."""
    directory = tmp_path_factory.mktemp("reader")
    for block in (block for page in PAGES for block in blocks(page) if block.title):
        path = directory / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
    return directory


@pytest.fixture
def reader(files, monkeypatch) -> Path:
    """The same as the working directory, from which Python imports."""
    monkeypatch.syspath_prepend(files)
    monkeypatch.chdir(files)
    return files


@cache
def base(name: str, groups: tuple[str, ...]) -> DictConfig:
    """A config with its groups chosen. Each is composed once, for it takes a second."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(name, list(groups), return_hydra_config=True)


def check_main_ppo(arguments: list[str]) -> None:
    """Compose what ``main_ppo`` would run with, of a sweep the first job, and check it as a run's start does."""
    args = get_args_parser().parse_args(arguments)
    overrides = [first_job(override) for override in OverridesParser.create().parse_overrides(args.overrides)]
    groups = [o for o in overrides if (key := o.lstrip("+").partition("=")[0]) in GROUPS or "/" in key]
    if args.config_dir:
        groups.append(f"hydra.searchpath=[file://{Path(args.config_dir).absolute()}]")
    config = base(args.config_name or "ppo_trainer", tuple(groups)).copy()
    settings = OverridesParser.create().parse_overrides([o for o in overrides if o not in groups])
    ConfigLoaderImpl._apply_overrides_to_config(settings, config)
    check_run(config)


def first_job(override: Override) -> str:
    swept = override.is_sweep_override()
    value = next(override.sweep_string_iterator()) if swept else override.get_value_element_as_str()
    return f"{override.get_key_element()}={value}"


def check_script(script: str, arguments: list[str]) -> None:
    source = (ROOT / script).read_text("utf-8")
    if script.startswith("scripts/cluster_"):
        check_main_ppo(arguments)
    for option in (word for word in arguments if word.startswith("--") and script.endswith(".py")):
        assert re.search(rf"\b{option[2:].replace('-', '_')}: (?:Annotated|int|float)", source), (
            f"{script} has no {option}"
        )


def check_command(words: list[str]) -> None:
    """Parse a command as its program would, without running it."""
    match [word for i, word in enumerate(words) if i or not re.match(r"[A-Z_]+=", word)]:
        case ["subgroup-offset", verb, *arguments]:
            parse([verb, *arguments])
            if verb in ("doctor", "eval"):
                config = arguments.index("--config-name") if "--config-name" in arguments else 0
                check_main_ppo(arguments[config:] if config else [word for word in arguments if word[0] == "+"])
        case ["python", "-m", "verl.trainer.main_ppo", *arguments]:
            check_main_ppo(arguments)
        case ["pip", "install", requirement]:
            Requirement(requirement)
        case [first, *_] if first in ("python", "srun") or re.match(r"[A-Z_]+=|scripts/", first):
            script = next(i for i, word in enumerate(words) if word.startswith(("scripts/", "examples/")))
            check_script(words[script], words[script + 1 :])
        case _:
            raise AssertionError(f"nothing checks a command of this kind: {shlex.join(words)}")


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {shlex.join(words)}" for page, words in COMMANDS])
def test_a_command_can_be_given(page, words, reader):
    check_command(words)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("subgroup-offset inspect DIR --informatif", UsageError),
        ("subgroup-offset doctor --config-name contrast +recipe=qwen", HydraException),
        ("python -m verl.trainer.main_ppo +subgroup_offset=contrats", HydraException),
        ("python -m verl.trainer.main_ppo --config-name contrast algorithm.subgroup.lamb=0.3", HydraException),
        ("python -m verl.trainer.main_ppo --config-name contrast algorithm.subgroup.std=sampel", ConfigError),
        ("python -m verl.trainer.main_ppo --config-nme contrast", SystemExit),
        ("scripts/demonstrate", FileNotFoundError),
        ("python scripts/bench_rollout.py OUTPUT --round 5", AssertionError),
        ("NNODES=2 scripts/cluster_ray_start.sh --config-name contrast +recipe=qwen3_9b", HydraException),
        ("make all", AssertionError),
    ],
)
def test_what_cannot_be_given_is_noticed(line, error, reader):
    with pytest.raises(error):
        check_command(shlex.split(line))


def overrides_in_prose() -> list[tuple[str, str]]:
    """Whole overrides of a run's config in running text; shortened keys and messages are none."""
    override = r"\+{0,2}(?:algorithm|actor_rollout_ref|data|trainer|ray_kwargs|reward|hydra)\.[\w.]+=[^\s`…]+"
    found = [(page, span) for page in PAGES for span in re.findall(r"`([^`\n]+)`", prose(page))]
    return [(page, span) for page, span in found if re.fullmatch(rf"{override}(?: {override})*", span)]


@pytest.mark.parametrize(("page", "span"), overrides_in_prose())
def test_an_override_in_running_text_is_one(page, span):
    config = base("contrast", ()).copy()
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(span.split()), config)


def test_the_commands_are_found():
    assert len(overrides_in_prose()) > 10
    lines = {shlex.join(words) for _, words in COMMANDS}
    assert {"scripts/demo", "subgroup-offset data VALUE"} <= lines
    assert any(line.endswith("'trainer.experiment_name=lam${algorithm.subgroup.lam}'") for line in lines)


WITH_CODE = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs(page, reader, monkeypatch):
    """Its blocks one after another, as a reader would; those with a title are files, which the others import."""
    monkeypatch.setattr(core_algos, "ADV_ESTIMATOR_REGISTRY", dict(core_algos.ADV_ESTIMATOR_REGISTRY))
    STEP_METRICS.drain()
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks(page)):
        if block.language == "python" and not block.title:
            exec(compile(block.text, f"{page}, block {number}", "exec"), names)
    STEP_METRICS.drain()


def test_the_estimator_of_the_page_computes_what_it_says(reader, monkeypatch):
    import numpy as np
    import torch

    from subgroup_offset.labels import RolloutLabel

    monkeypatch.setattr(core_algos, "ADV_ESTIMATOR_REGISTRY", dict(core_algos.ADV_ESTIMATOR_REGISTRY))
    names: dict[str, Any] = {}
    (code,) = [b.text for b in blocks("docs/extend.md") if "register_adv_est" in b.text]
    exec(code, names)
    uid = [RolloutLabel("p", slot, session).encode() for session, slot in enumerate((0, 0, 1))] + ["pad0"]
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [0, 0]])
    rewards = torch.tensor([[0.0, 1.0], [0.5, 0.0], [0.0, -1.0], [0.0, 0.0]])
    advantages, _ = names["best_of_subgroup"](rewards, mask, index=np.array(uid, dtype=object))
    assert advantages.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]


def test_pages_with_code():
    assert WITH_CODE == ["docs/extend.md", "docs/methods.md", "docs/own_trainer.md"]

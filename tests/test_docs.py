"""What the pages name is there: links, files, methods, settings, messages, metrics."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from method_cases import advantages
from omegaconf import OmegaConf
from pages import PAGES, ROOT, prose, tables
from test_suggestions import strings
from verl.trainer.ppo import core_algos

from subgroup_offset.config import StrategyConfig, SubgroupConfig
from subgroup_offset.methods import known_methods, method_class
from subgroup_offset.metrics import STEP_METRICS, StepMetrics
from subgroup_offset.partition import FinishedRollout
from subgroup_offset.paths import config_dir
from subgroup_offset.rollout.context import ROWS_NOT_SWAPPED, ROWS_SWAPPED
from subgroup_offset.rollout.manager import StrategyAgentLoopManager
from subgroup_offset.strategy.stats import StageStats


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (PAGES[page].parent / path).resolve() if path else PAGES[page]
        assert file.exists() and file.is_relative_to(ROOT), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), target


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page):
    for path in re.findall(r"`((?:subgroup_offset|scripts|configs|docs)/[\w./]*\w)", prose(page)):
        assert (ROOT / path).exists(), path


def test_every_page_is_linked_from_the_readme():
    assert set(re.findall(r"\]\((docs/\w+\.md)\)", prose("README.md"))) == set(PAGES) - {"README.md"}


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"README.md"}))
def test_a_page_says_first_whom_it_is_for(page):
    title, blank, first = PAGES[page].read_text("utf-8").splitlines()[:3]
    assert title.startswith("# ") and not blank and first.startswith("For whoever")


def test_methods_are_the_configs():
    rows = [*tables("README.md"), *(cells for cells in tables("docs/methods.md") if len(cells) == 6)]
    named = {name for cells in rows for name in re.findall(r"`(\w+)`", cells[0])} - {"quantile"}
    assert named | {"grpo_labelled", "plain_context"} == {
        path.stem for path in (config_dir() / "subgroup_offset").glob("*.yaml")
    }


SETTINGS = {"docs/methods.md": SubgroupConfig, "docs/strategies.md": StrategyConfig}


@pytest.mark.parametrize("page", SETTINGS)
def test_settings_are_those_of_the_config(page):
    """Names and defaults, as YAML writes them."""
    defaults = {
        field.name: "" if field.default is MISSING else f"`{OmegaConf.to_yaml([field.default])[2:].strip()}`"
        for field in fields(SETTINGS[page])
    }
    rows = [cells for cells in tables(page) if len(cells) == 3 and cells[0].startswith("`")]
    assert {cells[0].strip("`"): cells[1] for cells in rows} == defaults


def test_a_rollout_has_the_fields_that_the_page_says():
    named = {name for cells in tables("docs/extend.md") for name in re.findall(r"`(\w+)`", cells[0])}
    assert named | {"slot"} == {field.name for field in fields(FinishedRollout)}


@cache
def texts() -> list[str]:
    """All texts of the package and of verl's module of estimators, white space evened out."""
    files = [*(ROOT / "subgroup_offset").rglob("*.py"), Path(core_algos.__file__)]
    return [" ".join(text.split()) for file in files for text in strings(file)]


def test_messages_of_the_troubleshooting_are_those_of_the_code():
    named = [m for cells in tables("docs/troubleshooting.md") for m in re.findall(r"`([^`]+)`", cells[0]) if "…" in m]
    assert len(named) > 25
    for message in named:
        for piece in filter(None, (part.strip() for part in message.split("…"))):
            assert any(piece in text for text in texts()), f"{piece!r} of {message!r}"


@pytest.fixture
def logged() -> set[str]:
    """Every key that the package can log, from the code that makes them with small inputs."""
    STEP_METRICS.drain()
    advantages({"p": [[1.0, 0.0], [1.0, 1.0]]}, lam="auto")
    keys = set(STEP_METRICS.drain())
    advantages({"p": [1.0, 0.0]}, {"maxrl": {}})
    keys |= set(STEP_METRICS.drain()) | {key for method in known_methods() for key in method_class(method).logs}
    keys |= {ROWS_SWAPPED, ROWS_NOT_SWAPPED}
    keys |= set(StageStats(**{field.name: 1 for field in fields(StageStats) if field.name != "sample"}).metrics())
    manager: Any = SimpleNamespace(
        _ask=lambda method: ([], 0),
        _note=lambda outcomes: None,
        _previews=SimpleNamespace(look=lambda stats: (None, None)),
        _stop=None,
        _lost_prompts=0,
        _watchdog=SimpleNamespace(restarts=0),
    )
    keys |= set(StrategyAgentLoopManager._drain_workers(manager))
    buffer = StepMetrics()
    buffer.add_source(lambda: {}["gone"])
    buffer.publish({"none": None})
    return keys | set(buffer.drain())


def metrics_page() -> list[str]:
    """The keys that the page has a row for."""
    return [cells[0].strip("`") for cells in tables("docs/metrics.md") if "/" in cells[0]]


def test_the_metrics_page_names_every_key_that_can_be_logged_and_no_other(logged):
    named = metrics_page()
    assert len(named) == len(set(named))
    assert set(named) == logged


def test_every_key_that_the_code_spells_out_is_on_the_metrics_page():
    """Those that are written in one piece, or begin one: what small inputs do not bring about is found here."""
    key = re.compile(r"\b(?:subgroup|strategy|rollout)/[a-z_]+(?![\w./{])")
    files = [*(ROOT / "subgroup_offset").glob("*.py"), *(ROOT / "subgroup_offset" / "rollout").glob("*.py")]
    files += (ROOT / "subgroup_offset" / "strategy").glob("*.py")
    spelled = {found for file in files for text in strings(file) for found in key.findall(text)}
    assert {"strategy/failed_requests", "rollout/lost_prompts", "subgroup/rows_nonfinite"} <= spelled
    assert [found for found in spelled if not any(f"{name}_".startswith(f"{found}_") for name in metrics_page())] == []


@pytest.mark.parametrize("page", PAGES)
def test_metrics_that_a_page_names_are_on_the_metrics_page(page):
    assert set(re.findall(r"`((?:subgroup|strategy|rollout)/[a-z_]+)`", prose(page))) <= set(metrics_page())


def test_metrics_have_units_and_meanings():
    for cells in tables("docs/metrics.md"):
        assert len(cells) == 3 and all(cells), cells

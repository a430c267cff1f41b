"""Shared by all tests: composing real verl configs, the toy world, real training runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings
from omegaconf import DictConfig

# CI's cores are shared: a slow example is no failure.
settings.register_profile("default", deadline=None)
settings.load_profile("default")

# Half of what composing verl's config takes is parsing YAML, which libyaml does to the same end in a tenth of the time.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def compose() -> Iterator[Callable[..., DictConfig]]:
    """Compose a config of ``verl.trainer.main_ppo`` as its command line would: ``compose(name, *overrides)``."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        yield lambda name, *overrides: compose(config_name=name, overrides=list(overrides))


@pytest.fixture(scope="session")
def toy() -> Path:
    """The directory of the toy world, built at the first use (about two minutes) and cached."""
    from subgroup_offset.toy import build_toy

    return build_toy().root


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory) -> Path:
    """Problems of the benchmarks: real ones where they lie beside the checkout, else some of our own."""
    from made_problems import write_problems

    return SHARED_DATA if SHARED_DATA.is_dir() else write_problems(tmp_path_factory.mktemp("problems"))


@pytest.fixture(scope="session")
def untrained_world(tmp_path_factory) -> Path:
    """The toy world without its warm start, in seconds."""
    from untrained_world import write_untrained_world

    return write_untrained_world(tmp_path_factory.mktemp("untrained"))


@pytest.fixture
def printed_run(untrained_world) -> list[str]:
    """Arguments of a toy run whose config is printed, not run."""
    run = ["--config-name", "contrast", "+experiment=toy", "+platform=cpu"]
    return [*run, f"toy_dir={untrained_world}", "trainer.project_name='two words'", "--cfg", "job"]


@pytest.fixture
def rollout(untrained_world, compose, monkeypatch) -> Callable[..., Any]:
    """Makes an agent loop worker in this process (``fake_rollout.py``): ``rollout(*overrides)``."""
    from fake_rollout import FakeRollout, N, Z

    from subgroup_offset.rollout import labelling

    monkeypatch.setattr(labelling, "PAUSES", (0.0, 0.0, 0.0))
    settings = [
        "+experiment=toy",
        "+platform=cpu",
        f"toy_dir={untrained_world}",
        f"actor_rollout_ref.rollout.n={N}",
        f"algorithm.subgroup.strategy.rollouts_per_strategy={Z}",
        "data.max_prompt_length=256",
    ]
    return lambda *overrides: FakeRollout(monkeypatch, compose("contrast", *settings, *overrides))


@pytest.fixture
def uncorrected_olmo3(monkeypatch) -> None:
    """Olmo 3 as transformers has it, whoever has imported the correction; what a test imports is undone at its end."""
    from functools import partial

    from transformers.models.olmo3 import modeling_olmo3

    rotary, forward = modeling_olmo3.Olmo3RotaryEmbedding, vars(modeling_olmo3.Olmo3Attention)["forward"]
    corrected = isinstance(rotary, partial)
    rotary = rotary.keywords["rotary"] if corrected else rotary
    monkeypatch.setattr(modeling_olmo3, "Olmo3RotaryEmbedding", rotary)
    monkeypatch.setattr(modeling_olmo3.Olmo3Attention, "forward", forward.__wrapped__ if corrected else forward)


@pytest.fixture
def correction(uncorrected_olmo3):
    """The module that corrects Olmo 3, imported."""
    from subgroup_offset.models import olmo3

    olmo3.correct()  # where an earlier test has imported it
    return olmo3

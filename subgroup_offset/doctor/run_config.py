"""The config of a run, composed and checked as ``python -m verl.trainer.main_ppo`` would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.doctor.findings import CLUSTER, ERROR, Finding

VERL_CONFIGS = "verl.trainer.config"


def compose_run(name: str, directory: Path | None, overrides: Sequence[str]) -> Any:
    """Compose a config of ``main_ppo``.

    Args:
        name: ``--config-name``.
        directory: ``--config-dir``: more configs, as Hydra adds them.
        overrides: Hydra's overrides.

    Raises:
        Exception: Hydra's, for a config or override that is not right.
    """
    from hydra import compose, initialize_config_dir, initialize_config_module

    overrides = list(overrides)
    if directory is not None and (directory / f"{name.removesuffix('.yaml')}.yaml").is_file():
        # Hydra looks for the primary config in the first place only when it is asked from Python.
        overrides.append(f"hydra.searchpath=[pkg://{VERL_CONFIGS}]")
        with initialize_config_dir(str(directory.resolve()), version_base=None):
            return compose(name, overrides=overrides)
    if directory is not None:
        overrides.append(f"hydra.searchpath=['file://{directory.resolve()}']")
    with initialize_config_module(VERL_CONFIGS, version_base=None):
        return compose(name, overrides=overrides)


def validate(config: Any) -> list[Finding]:
    """Run verl's checks of a config and ours (:mod:`subgroup_offset.preflight`), as the run's start would."""
    from subgroup_offset.preflight import check_as_main_ppo

    try:
        check_as_main_ppo(config)
    except Exception as error:  # verl's checks raise what they like, AssertionError included
        return [refused(error)]
    return []


def refused(error: Exception) -> Finding:
    """The finding for a config that cannot be composed, read or used."""
    text = " ".join(str(error).split()) or type(error).__name__
    problem = f"the run's config is refused: {text}"
    return Finding(ERROR, "config", CLUSTER, problem, "correct the setting that it names")

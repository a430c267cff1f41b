"""The command line of a job: the program that the sweep was started with, its config and its Hydra overrides."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, ListConfig, OmegaConf

from subgroup_offset.sweep.settings import SweepError

# What each job gets a value of its own for.
_REPLACED = {"hydra.mode", "hydra.run.dir", "hydra.sweep.subdir", "hydra.job.num", "hydra.job.id"}


def find_program(module: str | None) -> list[str]:
    """What Python is to run: ``["-m", module]`` or a script's path.

    Args:
        module: ``hydra.launcher.module``; None stands for what this process runs.

    Raises:
        SweepError: if it cannot be found.
    """
    if module is not None:
        try:
            found = importlib.util.find_spec(module)
        except ImportError:
            found = None
        if found is None:
            raise SweepError(f"hydra.launcher.module={module} cannot be imported: name an installed module, or null.")
        return ["-m", module]
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return ["-m", main.__spec__.name.removesuffix(".__main__")]
    if getattr(main, "__file__", None) is None:
        raise SweepError(
            "This process runs no module or script that a job could run: set hydra.launcher.module, "
            "for example to verl.trainer.main_ppo."
        )
    return [str(Path(main.__file__).resolve())]


def config_name_flag(config: DictConfig) -> list[str]:
    """``--config-name`` of a sweep, which like the program is part of what a job is."""
    name = config.hydra.job.config_name
    return [] if name is None else [f"--config-name={name}"]


def config_path_flags(config: DictConfig) -> list[str]:
    """Where the sweep's config was found (``--config-path``, ``--config-dir``)."""
    flags = {"main": "--config-path", "command-line": "--config-dir"}
    return [
        f"{flags[source.provider]}={'pkg://' if source.schema == 'pkg' else ''}{source.path}"
        for source in config.hydra.runtime.config_sources
        if source.provider in flags
    ]


def hydra_overrides(config: DictConfig) -> list[str]:
    """The sweep's overrides of Hydra's own settings that its jobs take over."""
    given = OverridesParser.create().parse_overrides(_as_given(config.hydra.overrides.hydra))
    return [o.input_line for o in given if o.key_or_group not in _REPLACED and o.input_line]


def task_overrides(config: DictConfig) -> list[str]:
    """The sweep's other overrides, as they stand on its command line."""
    return _as_given(config.hydra.overrides.task)


def _as_given(overrides: ListConfig) -> list[str]:
    return OmegaConf.to_container(overrides, resolve=False)  # an override may hold an interpolation

"""What keeps jobs apart: the settings of a run that would lead all jobs of a sweep to the same place."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from subgroup_offset.sweep.names import job_name
from subgroup_offset.sweep.settings import SweepError

EXPERIMENT = "trainer.experiment_name"
CHECKPOINTS = "trainer.default_local_dir"
_RUNTIME_ENV = "ray_kwargs.ray_init.runtime_env.env_vars"
# verl's own, in ppo_trainer.yaml: the user has chosen nothing.
_STOCK_CHECKPOINTS = "checkpoints/${trainer.project_name}/${trainer.experiment_name}"
# verl names the files in them by the step alone, and checkpoints too.
_DIRECTORIES = (
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "trainer.default_hdfs_dir",
    "algorithm.subgroup.strategy.data_dir",
)
# Trackers that attach to the run named in the environment, whatever its name in the config.
_RUN_IDS = {"wandb": "WANDB_RUN_ID", "mlflow": "MLFLOW_RUN_ID"}


def settings_of_its_own(
    config: DictConfig, directory: Path, subdir: str, swept: Sequence[str], env: Mapping[str, str]
) -> dict[str, Any]:
    """The settings in which a job differs from the sweep's command line, by key.

    A path that the user has set becomes the parent of one for each job, unless it lies in the job's directory already.

    Args:
        config: the job's composed config.
        directory: of the job.
        subdir: of the job inside the sweep's directory.
        swept: the overrides that are swept.
        env: ``hydra.launcher.env``.

    Raises:
        SweepError: where a tracker would put all jobs into one run.
    """
    env = {**os.environ, **env}
    loggers = _loggers(config)
    _check_run_ids(loggers, env)
    own: dict[str, Any] = {
        CHECKPOINTS: _checkpoints(config, directory, subdir),
        "trainer.logger": loggers if "file" in loggers else [*loggers, "file"],
        EXPERIMENT: _experiment_name(config, swept),
    }
    paths = {key: OmegaConf.select(config, key) for key in _DIRECTORIES}
    if OmegaConf.select(config, "global_profiler.tool") is not None:
        paths["global_profiler.save_path"] = OmegaConf.select(config, "global_profiler.save_path")
    tensorboard = f"{_RUNTIME_ENV}.TENSORBOARD_DIR"
    paths[tensorboard] = OmegaConf.select(config, tensorboard) or env.get("TENSORBOARD_DIR")
    own.update({key: _inside(path, directory, subdir) for key, path in paths.items() if path})
    timeline = OmegaConf.select(config, "ray_kwargs.timeline_json_file")
    if timeline:
        own["ray_kwargs.timeline_json_file"] = str(directory / Path(timeline).name)
    return own


def _loggers(config: DictConfig) -> list[str]:
    loggers = OmegaConf.select(config, "trainer.logger") or []
    return [loggers] if isinstance(loggers, str) else list(loggers)


def _check_run_ids(loggers: Sequence[str], env: Mapping[str, str]) -> None:
    for logger, variable in _RUN_IDS.items():
        value = env.get(variable)
        if logger in loggers and value:
            raise SweepError(f"{variable}={value} would put all jobs of the sweep into one {logger} run: unset it.")


def _checkpoints(config: DictConfig, directory: Path, subdir: str) -> str:
    raw = OmegaConf.to_container(config.trainer, resolve=False).get("default_local_dir")
    if raw in (None, _STOCK_CHECKPOINTS):
        return str(directory / "checkpoints")
    return str(Path(_inside(config.trainer.default_local_dir, directory, subdir)).absolute())


def _inside(path: str, directory: Path, subdir: str) -> str:
    """The job's own path in one that all jobs share. Remote ones (``hdfs://``) are text like any other."""
    if "://" not in path and Path(path).absolute().is_relative_to(directory):
        return path
    return f"{path.rstrip('/')}/{subdir}"


def _experiment_name(config: DictConfig, swept: Sequence[str]) -> str:
    name = OmegaConf.select(config, EXPERIMENT) or "run"
    others = [override for override in swept if override.lstrip("+").partition("=")[0] != EXPERIMENT]
    return f"{name}-{job_name(others)}" if others else str(name)

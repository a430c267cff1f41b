"""From the overrides of a sweep to jobs: composed, checked, named, with directories and command lines of their own."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from subgroup_offset.cluster.job_record import JobRecord, SweepError
from subgroup_offset.cluster.launch import hydra_quoted
from subgroup_offset.preflight import check_as_main_ppo
from subgroup_offset.text import shortest_endings

MAX_NAME = 80
_UNSAFE = re.compile(r"[^\w.+=,@-]+", re.ASCII)
_TRACKER = "latest_checkpointed_iteration.txt"  # verl's, beside the checkpoints
# verl's own, in ppo_trainer.yaml: the user has chosen nothing.
_STOCK_CHECKPOINTS = "checkpoints/${trainer.project_name}/${trainer.experiment_name}"
_STOCK_SUBDIR = "${hydra.job.num}"  # Hydra's; the number of a job changes as the sweep grows
# verl names the files in them by the step alone, and checkpoints too.
_DIRECTORIES = (
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "trainer.default_hdfs_dir",
    "algorithm.subgroup.strategy.data_dir",
)
_TENSORBOARD = "ray_kwargs.ray_init.runtime_env.env_vars.TENSORBOARD_DIR"
# Trackers that attach to the run named in the environment, whatever its name in the config.
_RUN_IDS = {"wandb": "WANDB_RUN_ID", "mlflow": "MLFLOW_RUN_ID"}
# What each job gets a value of its own for.
_REPLACED = {"hydra.mode", "hydra.run.dir", "hydra.sweep.subdir", "hydra.job.num", "hydra.job.id"}


@dataclass(frozen=True)
class Job:
    """One job of a sweep, ready to be started."""

    name: str
    directory: Path
    #: As the sweeper gave them: all task overrides, swept or not.
    overrides: list[str]
    #: What Python runs, with ``--config-name``, and the rest of the command line but for ``trainer.resume_mode``.
    program: list[str]
    arguments: list[str]
    checkpoints: Path
    #: The user resumes from a checkpoint given by path, which holds until there is one of the job's own.
    warm_start: bool
    total_steps: int | None
    saves: bool
    #: The composed config as YAML, interpolations as they are.
    config: str

    def has_checkpoint(self) -> bool:
        """Whether verl would resume the job."""
        return (self.checkpoints / _TRACKER).exists()

    def command_line(self) -> list[str]:
        """Everything after the program, as of now."""
        mode = "resume_path" if self.warm_start and not self.has_checkpoint() else "auto"
        return [*self.arguments, f"++trainer.resume_mode={mode}"]

    def new_record(self) -> JobRecord:
        """The record of a job that was never started."""
        return JobRecord(self.program, self.overrides, str(self.checkpoints))


def plan_jobs(
    loader: ConfigLoader, sweep: DictConfig, job_overrides: Sequence[Sequence[str]], program: Sequence[str]
) -> list[Job]:
    """One job for each list of overrides.

    Args:
        loader: Hydra's, of the sweep.
        sweep: the sweep's composed config, Hydra's part included.
        job_overrides: the task overrides of each job.
        program: what Python runs.

    Raises:
        SweepError: naming every job whose config is refused, with the reason; or two jobs of one name.
    """
    if OmegaConf.to_container(sweep.hydra.sweep, resolve=False)["subdir"] != _STOCK_SUBDIR:
        raise SweepError("hydra.sweep.subdir is set, but jobs are named by what is swept: leave it out.")
    keys = swept_keys(sweep)
    jobs: dict[str, Job] = {}
    refused: list[str] = []
    for number, overrides in enumerate(job_overrides):
        swept = [override for override in overrides if override.partition("=")[0] in keys]
        name = job_name(swept)
        if name in jobs:
            raise SweepError(f"Two jobs would share the directory {name}: sweep each value once.")
        try:
            jobs[name] = _job(loader, sweep, list(overrides), swept, number, list(program))
        except Exception as error:  # verl's checks raise what they like
            refused.append(f"Job {name}: {type(error).__name__}: {error}")
    if refused:
        raise SweepError("\n".join(["No job was started:", *refused]))
    return list(jobs.values())


def current_program() -> list[str]:
    """What Python runs in this process, so that it can run it again: ``-m`` and a module, or a script's path.

    Raises:
        SweepError: where it is neither.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return ["-m", main.__spec__.name.removesuffix(".__main__")]
    if getattr(main, "__file__", None) is None:
        raise SweepError("This process runs no module or script that a job could run: start the sweep with python -m.")
    return [str(Path(main.__file__).resolve())]


def swept_keys(sweep: DictConfig) -> set[str]:
    """The keys that Hydra's basic sweeper gives several values, as they stand in the overrides of a job."""
    lines = [f"{key}={value}" for key, value in (sweep.hydra.sweeper.params or {}).items()]
    lines += OmegaConf.to_container(sweep.hydra.overrides.task, resolve=False)
    last = {o.get_key_element(): o for o in OverridesParser.create().parse_overrides(lines)}
    return {key for key, override in last.items() if override.is_sweep_override()}


def job_name(swept: Sequence[str]) -> str:
    """``lam=-0.3,seed=1`` for ``algorithm.subgroup.lam=-0.3`` and ``data.seed=1``: of keys as few parts as are unique.

    Where characters had to be replaced, or the whole is longer than ``MAX_NAME``, a hash of the overrides ends the
    name, so that two jobs never share one.
    """
    if not swept:
        return "job"
    pairs = [override.lstrip("+~").partition("=") for override in swept]
    keys = shortest_endings([key.split(".") for key, _, _ in pairs])
    full = ",".join(f"{'.'.join(key)}={value}" for key, (_, _, value) in zip(keys, pairs, strict=True))
    safe = _UNSAFE.sub("-", full).strip("-.") if _UNSAFE.search(full) else full
    if safe == full and len(full) <= MAX_NAME:
        return full
    digest = hashlib.sha256("\n".join(swept).encode()).hexdigest()[:8]
    return f"{safe[: MAX_NAME - 9]}-{digest}"


def _job(
    loader: ConfigLoader,
    sweep: DictConfig,
    overrides: list[str],
    swept: Sequence[str],
    number: int,
    program: list[str],
) -> Job:
    name = job_name(swept)
    directory = Path(str(sweep.hydra.sweep.dir)).resolve() / name
    whole = loader.load_sweep_config(sweep, overrides)
    with read_write(whole.hydra), open_dict(whole.hydra):
        whole.hydra.job.id, whole.hydra.job.num, whole.hydra.sweep.subdir = str(number), number, name
        whole.hydra.runtime.output_dir = str(directory / "hydra")
    HydraConfig.instance().set_config(whole)  # what ${hydra:...} in the config means
    config = whole.copy()
    with read_write(config), open_dict(config):
        del config["hydra"]
    _check(config)
    own = _own_settings(config, directory, name, swept)
    arguments = [*_config_paths(whole), *_hydra_overrides(sweep), *overrides]
    arguments += [f"++{key}={_hydra_value(value)}" for key, value in own.items()]
    arguments += ["hydra.mode=RUN", f"hydra.sweep.subdir={hydra_quoted(name)}"]
    arguments += [f"hydra.job.num={number}", f"hydra.job.id={number}"]
    config_name = whole.hydra.job.config_name
    return Job(
        name=name,
        directory=directory,
        overrides=overrides,
        program=[*program, *([] if config_name is None else [f"--config-name={config_name}"])],
        arguments=arguments,
        checkpoints=Path(own["trainer.default_local_dir"]),
        warm_start=OmegaConf.select(config, "trainer.resume_mode") == "resume_path",
        total_steps=OmegaConf.select(config, "trainer.total_training_steps"),
        saves=(OmegaConf.select(config, "trainer.save_freq") or 0) > 0,
        config=OmegaConf.to_yaml(config, sort_keys=True),
    )


def _check(config: DictConfig) -> None:
    """What ``main_ppo`` itself checks: a bad value in the last job costs seconds, not six trainings."""
    if "trainer" not in config:
        raise SweepError(
            "The config has no section `trainer`: hydra/launcher=subgroup_offset runs programs of verl. For others use "
            "hydra/launcher=basic."
        )
    if "actor_rollout_ref" in config:  # else the SFT trainer's, for one
        check_as_main_ppo(config)


def _own_settings(config: DictConfig, directory: Path, name: str, swept: Sequence[str]) -> dict[str, Any]:
    """The settings in which a job differs from the sweep's command line, by key: what would bring jobs to one place.

    A path that the user has set becomes the parent of one for each job, unless it lies in the job's directory already.
    """
    loggers = OmegaConf.select(config, "trainer.logger") or []
    loggers = [loggers] if isinstance(loggers, str) else list(loggers)
    for logger, variable in _RUN_IDS.items():
        if logger in loggers and os.environ.get(variable):
            value = os.environ[variable]
            raise SweepError(f"{variable}={value} would put all jobs of the sweep into one {logger} run: unset it.")
    others = [override for override in swept if override.lstrip("+").partition("=")[0] != "trainer.experiment_name"]
    experiment = OmegaConf.select(config, "trainer.experiment_name") or "run"
    own = {
        "trainer.default_local_dir": str(directory / "checkpoints"),
        "trainer.logger": loggers if "file" in loggers else [*loggers, "file"],
        "trainer.experiment_name": f"{experiment}-{job_name(others)}" if others else str(experiment),
    }
    if OmegaConf.to_container(config.trainer, resolve=False).get("default_local_dir") not in (None, _STOCK_CHECKPOINTS):
        given = _inside(config.trainer.default_local_dir, directory, name)
        own["trainer.default_local_dir"] = str(Path(given).absolute())
    paths = {key: OmegaConf.select(config, key) for key in _DIRECTORIES}
    paths[_TENSORBOARD] = OmegaConf.select(config, _TENSORBOARD) or os.environ.get("TENSORBOARD_DIR")
    return {**own, **{key: _inside(path, directory, name) for key, path in paths.items() if path}}


def _inside(path: str, directory: Path, name: str) -> str:
    """The job's own path in one that all jobs share. Remote ones (``hdfs://``) are text like any other."""
    if "://" not in path and Path(path).absolute().is_relative_to(directory):
        return path
    return f"{path.rstrip('/')}/{name}"


def _config_paths(config: DictConfig) -> list[str]:
    """Where the sweep's config was found, as options of the command line."""
    flags = {"main": "--config-path", "command-line": "--config-dir"}
    return [
        f"{flags[source.provider]}={'pkg://' if source.schema == 'pkg' else ''}{source.path}"
        for source in config.hydra.runtime.config_sources
        if source.provider in flags
    ]


def _hydra_overrides(sweep: DictConfig) -> list[str]:
    """The sweep's overrides of Hydra's own settings that its jobs take over."""
    given = OmegaConf.to_container(sweep.hydra.overrides.hydra, resolve=False)
    parsed = OverridesParser.create().parse_overrides(given)
    return [o.input_line for o in parsed if o.key_or_group not in _REPLACED and o.input_line]


def _hydra_value(value: Any) -> str:
    return f"[{','.join(map(hydra_quoted, value))}]" if isinstance(value, list) else hydra_quoted(value)

"""From a sweeper's overrides to jobs: composed, checked, named, with directories and command lines of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from subgroup_offset.launch import hydra_quoted
from subgroup_offset.sweep.apart import CHECKPOINTS, settings_of_its_own
from subgroup_offset.sweep.check import check_config
from subgroup_offset.sweep.names import job_name, swept_overrides
from subgroup_offset.sweep.program import (
    config_name_flag,
    config_path_flags,
    find_program,
    hydra_overrides,
    task_overrides,
)
from subgroup_offset.sweep.settings import SweepError, SweepSettings

# Hydra's default. The number of a job changes as the sweep grows, so that it cannot be found again by it.
_STOCK_SUBDIR = "${hydra.job.num}"
_TRACKER = "latest_checkpointed_iteration.txt"


@dataclass(frozen=True)
class Job:
    """One job of a sweep, ready to be started."""

    name: str
    directory: Path
    #: As the sweeper gave them: all task overrides, swept or not.
    overrides: list[str]
    #: What Python runs, and ``--config-name``: with the overrides they are what a job is.
    program: list[str]
    config_name: list[str]
    #: The rest of the command line, but for ``trainer.resume_mode``.
    arguments: list[str]
    checkpoints: Path
    #: The user resumes from a checkpoint given by path, which holds until there is one of the job's own.
    warm_start: bool
    total_steps: int | None
    save_freq: int
    #: The composed config, without and with what is Hydra's.
    config: DictConfig
    hydra_config: DictConfig

    def has_checkpoint(self) -> bool:
        """Whether verl would resume the job."""
        return (self.checkpoints / _TRACKER).exists()

    def command_line(self) -> list[str]:
        """Everything after the program, as of now."""
        mode = "resume_path" if self.warm_start and not self.has_checkpoint() else "auto"
        return [*self.config_name, *self.arguments, f"++trainer.resume_mode={mode}"]


class Planner:
    """Makes the jobs of one sweep.

    Args:
        loader: Hydra's, of the sweep.
        config: the sweep's composed config, Hydra's part included.
        settings: of the launcher.
    """

    def __init__(self, loader: ConfigLoader, config: DictConfig, settings: SweepSettings) -> None:
        self._loader, self._config, self._settings = loader, config, settings
        self._program = find_program(settings.module)
        self.directory = Path(str(config.hydra.sweep.dir)).resolve()

    def plan(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
        """One job for each list of overrides, numbered from ``first``.

        Raises:
            SweepError: naming every job whose config is refused, with the reason; or jobs that share a directory.
        """
        jobs: list[Job] = []
        refused: list[tuple[str, Exception]] = []
        for number, overrides in enumerate(job_overrides, first):
            try:
                jobs.append(self._job(list(overrides), number))
            except Exception as error:
                refused.append((f"Job {self._name(overrides)}: {type(error).__name__}: {error}", error))
        if refused:
            raise SweepError("\n".join(["No job was started:", *(text for text, _ in refused)])) from refused[0][1]
        _check_apart(jobs)
        return jobs

    def _swept(self, overrides: Sequence[str]) -> list[str]:
        return swept_overrides(overrides, task_overrides(self._config))

    def _name(self, overrides: Sequence[str]) -> str:
        style = self._config.hydra.job.config.override_dirname
        return job_name(self._swept(overrides), style.kv_sep, style.item_sep)

    def _job(self, overrides: list[str], number: int) -> Job:
        whole = self._loader.load_sweep_config(self._config, overrides)
        with open_dict(whole.hydra.job):
            whole.hydra.job.id, whole.hydra.job.num = str(number), number
        name = self._name(overrides)
        with _current(whole):
            subdir = _subdir(whole, name)
            directory = self.directory / subdir
            _place(whole, directory, subdir)
            config = _without_hydra(whole)
            check_config(config)
            own = settings_of_its_own(config, directory, subdir, self._swept(overrides), self._settings.env)
            total = OmegaConf.select(config, "trainer.total_training_steps")
            save_freq = OmegaConf.select(config, "trainer.save_freq")
            warm_start = OmegaConf.select(config, "trainer.resume_mode") == "resume_path"
        arguments = [*config_path_flags(whole), *hydra_overrides(self._config), *overrides]
        arguments += [f"++{key}={_hydra_value(value)}" for key, value in own.items()]
        arguments += ["hydra.mode=RUN", f"hydra.sweep.subdir={hydra_quoted(subdir)}"]
        arguments += [f"hydra.job.num={number}", f"hydra.job.id={number}"]
        return Job(
            name=name,
            directory=directory,
            overrides=overrides,
            program=self._program,
            config_name=config_name_flag(whole),
            arguments=arguments,
            checkpoints=Path(own[CHECKPOINTS]),
            warm_start=warm_start,
            total_steps=total,
            save_freq=save_freq or -1,
            config=config,
            hydra_config=whole,
        )


@contextmanager
def _current(config: DictConfig) -> Iterator[None]:
    """Let ``${hydra:...}`` in the config mean this job's Hydra settings."""
    instance = HydraConfig.instance()
    before = instance.cfg
    instance.set_config(config)
    try:
        yield
    finally:
        instance.cfg = before


def _subdir(config: DictConfig, name: str) -> str:
    raw = OmegaConf.to_container(config.hydra.sweep, resolve=False)["subdir"]
    if raw == _STOCK_SUBDIR:
        return name
    subdir = Path(str(config.hydra.sweep.subdir))
    if subdir.is_absolute() or ".." in subdir.parts or not subdir.parts:
        raise SweepError(
            f"hydra.sweep.subdir={raw} gives {str(subdir)!r}, which is no directory inside hydra.sweep.dir: "
            "leave it out, so that the job's swept overrides name it."
        )
    return str(subdir)


def _place(config: DictConfig, directory: Path, subdir: str) -> None:
    """What ``${hydra:sweep.subdir}`` and ``${hydra:runtime.output_dir}`` will be in the job's own process."""
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.sweep.subdir = subdir
        config.hydra.runtime.output_dir = str(directory / "hydra")
    HydraConfig.instance().set_config(config)


def _without_hydra(config: DictConfig) -> DictConfig:
    task = config.copy()
    with read_write(task), open_dict(task):
        del task["hydra"]
    return task


def _hydra_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(hydra_quoted(item) for item in value)}]"
    return hydra_quoted(value)


def _check_apart(jobs: Sequence[Job]) -> None:
    seen: dict[Path, Job] = {}
    for job in jobs:
        other = seen.setdefault(job.directory, job)
        if other is not job:
            raise SweepError(
                f"Two jobs would share {job.directory}: {' '.join(other.overrides)} and {' '.join(job.overrides)}. "
                "Sweep each value once, and leave hydra.sweep.subdir out."
            )

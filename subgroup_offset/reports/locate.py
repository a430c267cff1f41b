"""Find run directories, and the files of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.reports.settings import Settings, read_settings
from subgroup_offset.reports.steps import EARLIER, EVENTS, METRICS, is_file_log
from subgroup_offset.strategy.json_lines import by_step
from subgroup_offset.text import shortest_endings

JOB = "job.json"
#: Where Hydra leaves a run's composed config: under a TrainingRun's directory, and under a plain verl run's.
CONFIGS = ("hydra/.hydra/config.yaml", ".hydra/config.yaml")
EVALUATION = "evaluation"
# Directories of a run that hold much and no run.
_NOT_ENTERED = {"checkpoints", "rollouts", "strategy", "validation", "hydra", EVALUATION, "__pycache__"}
_SAMPLES = (".jsonl", ".parquet")


class ReportError(ValueError):
    """A report that cannot be written at all; the message names the path, what is missing and the fix."""


@dataclass(frozen=True)
class Config:
    """What Hydra left of a run, None where it is not known."""

    settings: Settings | None = None
    overrides: list[str] | None = None
    #: The directory it was started in.
    cwd: Path | None = None
    #: Why the file cannot be read.
    problem: str = ""


def find_runs(paths: Sequence[Path]) -> dict[Path, str]:
    """Run directories with their names, each once, in the order given; one that holds runs stands for all of them.

    A file is taken for a log of verl's ``file`` logger (where several runs log into one directory). Names are the last
    parts of the paths, as few as tell them apart.

    Raises:
        ReportError: for a path that is not there, or holds no run.
    """
    found = list(dict.fromkeys(run.resolve() for path in paths for run in _runs_in(path)))
    names = shortest_endings([path.parts for path in found])
    return {path: "/".join(name) for path, name in zip(found, names, strict=True)}


def read_config(directory: Path) -> Config:
    """A run's config, as far as it is there."""
    path = next((path for name in CONFIGS if (path := directory / name).is_file()), None)
    if path is None:
        return Config()
    settings, problem = None, ""
    try:
        settings = read_settings(path, directory)
    except ValueError as error:
        problem = str(error)
    overrides, hydra = _yaml(path.with_name("overrides.yaml")), _yaml(path.with_name("hydra.yaml"))
    try:
        cwd = Path(hydra["hydra"]["runtime"]["cwd"])
    except (KeyError, TypeError):
        cwd = None
    return Config(settings, [str(o) for o in overrides] if isinstance(overrides, list) else None, cwd, problem)


def find_log(directory: Path) -> tuple[Path, ...]:
    """The log of a run: files of verl's ``file`` logger, the later after the earlier, else tensorboard's directories.

    Raises:
        ReportError: if the directory has several logs of verl's ``file`` logger.
    """
    if directory.is_file():
        return (directory,)
    own = tuple(path for name in (EARLIER, METRICS) if (path := directory / name).is_file())
    logs = own or tuple(_file_logs(directory))
    if not own and len(logs) > 1:
        names = ", ".join(str(log.relative_to(directory)) for log in logs)
        raise ReportError(
            f"{directory} has {len(logs)} logs of verl's file logger ({names}): give the file of each run."
        )
    return logs or tuple(sorted({file.parent for file in directory.rglob(EVENTS) if file.is_file()}))


def evaluation_files(directory: Path) -> list[Path]:
    """``evaluation/graded.*`` where it is there, else all tables in ``evaluation/``."""
    folder = directory / EVALUATION
    files = sorted(path for path in folder.glob("*") if path.suffix in _SAMPLES) if folder.is_dir() else []
    return [path for path in files if path.stem == "graded"][:1] or files


def step_files(directory: Path, setting: Any, name: str, cwd: Path | None) -> dict[int, Path]:
    """Files ``{step}.jsonl`` of a run, by step: where its config says, or in a directory of the run by that name.

    Args:
        directory: of the run.
        setting: the config's path, None where it has none.
        name: of the directory inside the run's, for runs that were moved or have no config.
        cwd: where the run was started: what a relative path in its config starts from.
    """
    candidates = [directory / name]
    if setting:
        path = Path(str(setting)).expanduser()
        candidates = [(cwd or directory) / path, directory / path.name, *candidates]
    for candidate in candidates:
        if files := by_step(candidate):
            return files
    return {}


def _runs_in(path: Path) -> list[Path]:
    if path.is_file():
        if not is_file_log(path):
            raise ReportError(f"{path} is no log of verl's file logger: give the run's directory.")
        return [path]
    if not path.is_dir():
        raise ReportError(f"{path} is not there: give the directory of a run or of a sweep.")
    if _is_run(path):
        return [path]
    runs = []
    for folder, names, _ in os.walk(path):
        here = Path(folder)
        if here != path and _is_run(here):
            runs.append(here)
            names.clear()
        names[:] = sorted(name for name in names if name not in _NOT_ENTERED and not name.startswith("."))
    # `project/name.jsonl`, as verl's logger has it: each file is a run.
    runs += [file for file in _file_logs(path) if not any(file.is_relative_to(run) for run in runs)]
    if not runs:
        signs = f"{METRICS}, {JOB}, {', '.join(CONFIGS)}, {EVALUATION}/, a log of verl's file logger"
        raise ReportError(
            f"{path} holds no run, and neither do the directories in it: there is no {signs} or tensorboard events. "
            "Give a run's directory, or a sweep's."
        )
    return runs


def _is_run(directory: Path) -> bool:
    return (
        any((directory / name).is_file() for name in (METRICS, EARLIER, JOB, *CONFIGS))
        or bool(evaluation_files(directory))
        or any(directory.glob(EVENTS))
        or sum(map(is_file_log, directory.glob("*.jsonl"))) == 1
    )


def _file_logs(directory: Path) -> list[Path]:
    """Logs of verl's ``file`` logger under its own names, here or one directory below (``project/name``)."""
    files = sorted({*directory.glob("*.jsonl"), *directory.glob("*/*.jsonl")})
    return [
        f for f in files if f.name not in (METRICS, EARLIER) and f.parent.name not in _NOT_ENTERED and is_file_log(f)
    ]


def _yaml(path: Path) -> Any:
    from yaml import YAMLError, safe_load

    try:
        return safe_load(path.read_text("utf-8"))
    except (OSError, YAMLError, ValueError):
        return None

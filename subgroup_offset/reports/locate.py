"""Find run directories, and the files of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.reports.missing import ReportError
from subgroup_offset.reports.steps import EARLIER, EVENTS, METRICS, is_file_log

JOB = "job.json"
#: Where Hydra leaves a run's composed config: under a TrainingRun's directory, and under a plain verl run's.
CONFIGS = ("hydra/.hydra/config.yaml", ".hydra/config.yaml")
EVALUATION = "evaluation"
#: What a run directory was recognised by; said where none was found.
SIGNS = f"{METRICS}, {JOB}, {', '.join(CONFIGS)}, {EVALUATION}/, a log of verl's file logger or tensorboard events"
# Directories of a run that hold much and no run.
_NOT_ENTERED = {"checkpoints", "rollouts", "strategy", "validation", "hydra", EVALUATION, "__pycache__"}
_SAMPLES = (".jsonl", ".parquet")


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run directories, each once, in the order given; a directory that holds runs stands for all of them, sorted.

    A file is taken for a log of verl's ``file`` logger (where several runs log into one directory).

    Raises:
        ReportError: for a path that is not there, or holds no run.
    """
    found: dict[Path, None] = {}
    for path in paths:
        here = _runs_in(path)
        if not here:
            raise ReportError(
                f"{path} holds no run, and neither do the directories in it: there is no {SIGNS}. "
                "Give a run's directory, or a sweep's."
            )
        found.update(dict.fromkeys(run.resolve() for run in here))
    return list(found)


def file_logs(directory: Path) -> list[Path]:
    """Logs of verl's ``file`` logger under other names than ours, here or one directory below (``project/name``)."""
    files = sorted({*directory.glob("*.jsonl"), *directory.glob("*/*.jsonl")})
    return [
        file
        for file in files
        if file.name not in (METRICS, EARLIER) and file.parent.name not in _NOT_ENTERED and is_file_log(file)
    ]


def event_directories(directory: Path) -> list[Path]:
    """Directories, this one or below, that hold tensorboard's event files."""
    return sorted({file.parent for file in directory.rglob(EVENTS) if file.is_file()})


def config_file(directory: Path) -> Path | None:
    """The composed config, where there is one."""
    return next((path for name in CONFIGS if (path := directory / name).is_file()), None)


def evaluation_files(directory: Path) -> list[Path]:
    """``evaluation/graded.*`` where it is there, else all tables in ``evaluation/``."""
    graded = [path for suffix in _SAMPLES if (path := directory / EVALUATION / f"graded{suffix}").is_file()]
    if graded:
        return graded[:1]
    folder = directory / EVALUATION
    return sorted(path for path in folder.glob("*") if path.suffix in _SAMPLES) if folder.is_dir() else []


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
        if candidate.is_dir():
            files = {int(file.stem): file for file in candidate.glob("*.jsonl") if file.stem.isdecimal()}
            if files:
                return dict(sorted(files.items()))
    return {}


def unique_names(directories: Sequence[Path]) -> list[str]:
    """Each path by its last parts, as few as tell it from the others."""
    names = []
    for own in directories:
        count = 1
        others = [other for other in directories if other != own]
        while count < len(own.parts) and any(other.parts[-count:] == own.parts[-count:] for other in others):
            count += 1
        names.append("/".join(own.parts[-count:]))
    return names


def started_in(hydra: Mapping[str, Any] | None) -> Path | None:
    """The working directory of a run, from its ``hydra.yaml``."""
    cwd = (((hydra or {}).get("hydra") or {}).get("runtime") or {}).get("cwd")
    return Path(cwd) if isinstance(cwd, str) else None


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
    return [*runs, *(file for file in file_logs(path) if not any(file.is_relative_to(run) for run in runs))]


def _is_run(directory: Path) -> bool:
    return (
        any((directory / name).is_file() for name in (METRICS, EARLIER, JOB, *CONFIGS))
        or bool(evaluation_files(directory))
        or any(directory.glob(EVENTS))
        or len([file for file in directory.glob("*.jsonl") if is_file_log(file)]) == 1
    )

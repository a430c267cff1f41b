"""Where a run's metrics were logged: in its directory, or where its config made verl's loggers write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.reports.locate import event_directories, file_logs
from subgroup_offset.reports.missing import ReportError
from subgroup_offset.reports.settings import Settings
from subgroup_offset.reports.steps import (
    EARLIER,
    METRICS,
    StepLog,
    is_file_log,
    read_file_log,
    read_resumed_log,
    read_tensorboard,
)

_VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars."


@dataclass(frozen=True)
class LogSource:
    """A log that was found."""

    #: ``resumed`` (a TrainingRun's), ``file`` or ``tensorboard``.
    kind: str
    #: The directory, the file, or the directories with event files.
    paths: tuple[Path, ...]
    #: Whether it is outside of the run's directory, where another run may have written it.
    outside: bool = False

    @property
    def name(self) -> str:
        """What it is called in the report."""
        if self.outside:
            return ", ".join(map(str, self.paths))
        return {"resumed": METRICS, "file": self.paths[0].name, "tensorboard": "tensorboard"}[self.kind]

    def read(self) -> StepLog:
        """Its steps."""
        if self.kind == "resumed":
            return read_resumed_log(self.paths[0])
        return read_file_log(self.paths[0]) if self.kind == "file" else read_tensorboard(self.paths)


def find_log(directory: Path, settings: Settings | None, cwd: Path | None, config: Path | None) -> LogSource | None:
    """The log of a run; a file of verl's ``file`` logger comes before tensorboard's.

    Args:
        directory: of the run, or the log itself.
        settings: of the run.
        cwd: where it was started.
        config: the config's file: a log outside that is older is another run's.

    Raises:
        ReportError: if the directory has several logs of verl's ``file`` logger.
    """
    if directory.is_file():
        return LogSource("file", (directory,))
    if (directory / METRICS).is_file() or (directory / EARLIER).is_file():
        return LogSource("resumed", (directory,))
    logs = file_logs(directory)
    if len(logs) > 1:
        names = ", ".join(str(log.relative_to(directory)) for log in logs)
        raise ReportError(
            f"{directory} has {len(logs)} logs of verl's file logger ({names}): give the file of each run."
        )
    if logs:
        return LogSource("file", tuple(logs))
    events = event_directories(directory)
    if events:
        return LogSource("tensorboard", tuple(events))
    return _outside(settings, cwd, config) if settings is not None and config is not None else None


def _outside(settings: Settings, cwd: Path | None, config: Path) -> LogSource | None:
    started = config.stat().st_mtime
    for path in _places(settings, cwd, "VERL_FILE_LOGGER_PATH", ".jsonl", ""):
        if path.is_file() and is_file_log(path) and path.stat().st_mtime >= started:
            return LogSource("file", (path,), outside=True)
    for path in _places(settings, cwd, "TENSORBOARD_DIR", "", "tensorboard_log/"):
        events = event_directories(path) if path.is_dir() else []
        if events and max(file.stat().st_mtime for place in events for file in place.iterdir()) >= started:
            return LogSource("tensorboard", tuple(events), outside=True)
    return None


def _places(settings: Settings, cwd: Path | None, variable: str, ending: str, parent: str) -> list[Path]:
    """Where a logger writes: as its variable says, else by project and name in the working directory."""
    said = settings.get(_VARIABLES + variable)
    if said:
        return [(cwd or Path()) / str(said)]
    project, name = settings.get("trainer.project_name"), settings.get("trainer.experiment_name")
    return [cwd / f"{parent}{project}/{name}{ending}"] if cwd and project and name else []

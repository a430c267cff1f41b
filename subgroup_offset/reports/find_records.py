"""From a path to logs of the strategy stage: the log itself, a run's, or those of all runs of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.reports.locate import ReportError, find_runs, read_config, step_files
from subgroup_offset.reports.settings import STRATEGY_DIR
from subgroup_offset.strategy.json_lines import RecordError
from subgroup_offset.strategy.record import log_files


@dataclass(frozen=True)
class RunLog:
    """The log of one run."""

    #: The run's name; empty where the log was given by itself.
    run: str
    #: In the order of the steps; empty where there is none.
    files: tuple[Path, ...]
    #: Why there is none, and what to do.
    why_none: str = ""


def find_logs(path: Path) -> list[RunLog]:
    """The logs that a path stands for, one a run; runs without one are among them.

    Args:
        path: a file, a directory of ``{step}.jsonl`` files, a run's directory, or one that holds runs. A run's log is
            where its config says.

    Raises:
        RecordError: for a path that holds neither a log nor a run, or where no run has a log.
    """
    try:
        return [RunLog("", tuple(log_files(path)))]
    except RecordError:
        if not path.is_dir():
            raise
    try:
        runs = find_runs([path])
    except ReportError:
        raise RecordError(
            f"{path} holds no {{step}}.jsonl and no run: give the strategy stage's log (a file, or its directory), or "
            "the directory of a run or of a sweep."
        ) from None
    logs = _merged([_log(directory, name) for directory, name in runs.items()])
    if not any(log.files for log in logs):
        of = f"None of the {len(logs)} runs in {path} has a log of the strategy stage. " if len(logs) > 1 else ""
        raise RecordError(f"{of}{logs[0].run}: {logs[0].why_none}")
    return logs


def without_log(logs: Sequence[RunLog]) -> str:
    """Which runs have none, in words; empty if all have one."""
    lacking = [log for log in logs if not log.files]
    if not lacking:
        return ""
    names = ", ".join(log.run for log in lacking)
    return f"{len(lacking)} of {len(logs)} runs have no log of the strategy stage: {names} ({lacking[0].why_none})"


def _merged(logs: Sequence[RunLog]) -> list[RunLog]:
    """Runs that logged to one place have one log: whose a record in it is cannot be known."""
    names: dict[tuple[Path, ...], list[str]] = {}
    for log in logs:
        names.setdefault(log.files, []).append(log.run)
    sharing = [RunLog(" or ".join(runs), files) for files, runs in names.items() if files]
    return [*sharing, *(log for log in logs if not log.files)]


def _log(directory: Path, name: str) -> RunLog:
    config = read_config(directory)
    place = config.settings.get(STRATEGY_DIR) if config.settings else None
    files = tuple(step_files(directory, place, "strategy", config.cwd).values())
    if files:
        why_none = ""
    elif config.settings is None:
        why_none = "it has no config that can be read, which says where its log is: give the log's directory."
    elif place is None:
        why_none = f"its strategy stage was not logged: start it with {STRATEGY_DIR}=DIR."
    else:
        why_none = (
            f"there is no {{step}}.jsonl in its {STRATEGY_DIR}={place}: wait for its first step, or give the place."
        )
    return RunLog(name, files, why_none)

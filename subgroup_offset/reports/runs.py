"""Load a run directory: whatever of it is there, and what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subgroup_offset.cluster.launch import LoggedStep
from subgroup_offset.reports.differences import Configured
from subgroup_offset.reports.locate import (
    EVALUATION,
    JOB,
    config_file,
    evaluation_files,
    find_runs,
    started_in,
    step_files,
    unique_names,
)
from subgroup_offset.reports.log_source import LogSource, find_log
from subgroup_offset.reports.methods import MODEL, Method, method_of, model_name
from subgroup_offset.reports.missing import Missing, ReportError
from subgroup_offset.reports.settings import STRATEGY_DIR, Settings, read_settings
from subgroup_offset.reports.steps import StepLog

_LOG_HEAD = 16 * 2**20  #: Bytes of log.txt in which the number of steps is looked for; verl says it at the start.


@dataclass
class Run:
    """A run as far as it can be read."""

    name: str
    directory: Path
    settings: Settings | None
    overrides: list[str] | None
    method: Method
    steps: Sequence[LoggedStep]
    #: Where the steps come from.
    log: LogSource | None
    #: ``finished``, ``running``, ``failed``, ``pending``, or what the steps suggest.
    state: str
    total_steps: int | None
    evaluation: list[Path]
    #: Records of the strategy stage and dumps of the rollouts, by step.
    strategy_files: dict[int, Path]
    rollout_files: dict[int, Path]
    #: Its place among the runs given.
    order: int = 0
    missing: list[Missing] = field(default_factory=list)

    @property
    def last_step(self) -> int | None:
        """The last logged step."""
        return self.steps[-1].step if self.steps else None

    @property
    def model(self) -> str:
        """The model's path or name; empty without a config."""
        return str(self.settings.get(MODEL, "")) if self.settings else ""

    @property
    def model_name(self) -> str:
        """The model in a heading."""
        return model_name(self.model) if self.model else "model not known"

    @property
    def configured(self) -> Configured | None:
        """What its config is compared by."""
        return Configured(self.settings, self.directory) if self.settings else None

    def series(self, key: str) -> list[tuple[int, float]]:
        """A metric over the steps that have it."""
        return [(s.step, s.metrics[key]) for s in self.steps if key in s.metrics]

    def lacks(self, what: str, fix: str) -> None:
        """Note that something is missing."""
        self.missing.append(Missing(self.name, what, fix))


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """All runs of the given directories.

    Raises:
        ReportError: for a path without a run, or where none of the runs has steps or an evaluation.
    """
    directories = find_runs(paths)
    runs = [load_run(path, name) for path, name in zip(directories, unique_names(directories), strict=True)]
    for order, run in enumerate(runs):
        run.order = order
    _refuse_shared_logs(runs)
    if not any(run.steps or run.evaluation for run in runs):
        raise ReportError(
            f"{', '.join(map(str, paths))}: {len(runs)} runs, none of which has logged a step or been evaluated. Add "
            "file (or tensorboard) to trainer.logger, and wait for the first step."
        )
    return runs


def _refuse_shared_logs(runs: Sequence[Run]) -> None:
    """A log outside of the runs' directories that several point to is of the last of them, or of none."""
    sources = [run.log for run in runs if run.log is not None and run.log.outside]
    for source in dict.fromkeys(sources):
        sharing = [run for run in runs if run.log == source]
        if len(sharing) > 1:
            for other in sharing:
                other.lacks(
                    f"A log of its own: {source.name} is where {len(sharing)} of the runs were to write.",
                    "A VERL_FILE_LOGGER_PATH, or trainer.experiment_name, of its own for each run.",
                )
                other.steps, other.log = (), None


def load_run(directory: Path, name: str) -> Run:
    """One run; see :func:`~subgroup_offset.reports.locate.find_runs` for what its directory may hold."""
    problems: list[tuple[str, str]] = []
    settings, overrides, cwd = read_config(directory, problems)
    source = find_log(directory, settings, cwd, config_file(directory))
    log = source.read() if source else StepLog(())
    problems += [(f"{problem}.", "Nothing, if the run is still going; else see its log.") for problem in log.problems]
    state, total = _state(directory, settings, log, problems)
    run = Run(
        name=name,
        directory=directory,
        settings=settings,
        overrides=overrides,
        method=method_of(settings, name),
        steps=log.steps,
        log=source,
        state=state,
        total_steps=total,
        evaluation=evaluation_files(directory),
        strategy_files=step_files(directory, settings and settings.get(STRATEGY_DIR), "strategy", cwd),
        rollout_files=step_files(directory, settings and settings.get("trainer.rollout_data_dir"), "rollouts", cwd),
    )
    for what, fix in problems:
        run.lacks(what, fix)
    _note_missing(run)
    return run


def read_config(
    directory: Path, problems: list[tuple[str, str]]
) -> tuple[Settings | None, list[str] | None, Path | None]:
    """A run's settings, its overrides and the directory it was started in, each None where it is not known.

    Args:
        directory: of the run, or its log.
        problems: what is wrong with the config, and the fix, is added here.
    """
    path = config_file(directory)
    if path is None:
        return None, None, None
    try:
        settings = read_settings(path)
    except ValueError as error:
        problems.append((f"Config: {error}.", "Mend the file, or give the run's own copy."))
        settings = None
    overrides = _yaml(path.with_name("overrides.yaml"))
    cwd = started_in(_yaml(path.with_name("hydra.yaml")))
    return settings, [str(o) for o in overrides] if isinstance(overrides, list) else None, cwd


def _yaml(path: Path) -> Any:
    from omegaconf import OmegaConf
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, YAMLError, ValueError):
        return None


def _state(
    directory: Path, settings: Settings | None, log: StepLog, problems: list[tuple[str, str]]
) -> tuple[str, int | None]:
    """The state and the number of steps there are to be, from the sweep's record, the config and the log."""
    record = _job_record(directory / JOB, problems)
    total = record.get("total_steps") or (settings and settings.get("trainer.total_training_steps"))
    total = total if isinstance(total, int) else _announced(directory / "log.txt")
    last = log.steps[-1].step if log.steps else 0
    if "state" in record:
        return str(record["state"]), total
    if total is not None and last >= total:
        return "finished", total
    return ("in progress, or ended early" if log.steps else "not started, or not logged"), total


def _job_record(path: Path, problems: list[tuple[str, str]]) -> dict[str, Any]:
    """What a sweep wrote about its job, of whatever version; empty where there is nothing or nothing readable."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        problems.append((f"A readable {JOB} ({error}).", "The sweep, started again."))
        return {}
    return record if isinstance(record, dict) else {}


def _announced(log: Path) -> int | None:
    if not log.is_file():
        return None
    with log.open("rb") as file:
        said = re.findall(rb"Total training steps: (\d+)", file.read(_LOG_HEAD))
    return int(said[-1]) if said else None


def _note_missing(run: Run) -> None:
    if not run.steps:
        run.lacks(
            "Logged steps.", "trainer.logger with file (or tensorboard); verl writes the first record after step 1."
        )
    if run.settings is None:
        run.lacks(
            "The composed config (.hydra/config.yaml), so that method, lam and differences are not known.",
            "Keep Hydra's output directory (hydra.run.dir) inside the run's directory.",
        )
    if not run.evaluation:
        run.lacks(
            f"An evaluation ({EVALUATION}/graded.jsonl).",
            "subgroup-offset eval RUN; or a graded.jsonl there (benchmark, problem, replica, sample, correct).",
        )

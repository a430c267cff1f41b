"""Load runs: whatever of a run is there, and what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from subgroup_offset.reports.locate import (
    EVALUATION,
    JOB,
    Config,
    ReportError,
    evaluation_files,
    find_log,
    find_runs,
    read_config,
    step_files,
)
from subgroup_offset.reports.methods import MODEL, Method, method_of, model_name
from subgroup_offset.reports.settings import STRATEGY_DIR, Settings
from subgroup_offset.reports.steps import read_log

_LOG_HEAD = 16 * 2**20  #: Bytes of log.txt in which the number of steps is looked for; verl says it at the start.
_IF_RUNNING = "Nothing, if the run is still going; else see its log."


@dataclass(eq=False)
class Run:
    """A run as far as it can be read."""

    name: str
    directory: Path
    config: Config
    method: Method
    #: Where the steps come from: files of verl's logger or directories of tensorboard's; empty where there are none.
    log: tuple[Path, ...]
    #: What was logged: a row a step, a column a metric, NaN where it was not logged.
    steps: pd.DataFrame
    evaluation: list[Path]
    #: Records of the strategy stage and dumps of the rollouts, by step.
    strategy_files: dict[int, Path]
    rollout_files: dict[int, Path]
    #: ``finished``, ``running``, ``failed``, ``pending``, or what the steps suggest.
    state: str = ""
    total_steps: int | None = None
    #: What could not be found or used, and what would produce it.
    missing: list[tuple[str, str]] = field(default_factory=list)

    @property
    def settings(self) -> Settings | None:
        """Its config."""
        return self.config.settings

    @property
    def title(self) -> str:
        """Method and name."""
        return f"{self.method.label} ({self.name})"

    @property
    def log_name(self) -> str | None:
        """What its log is called in the report; None without one."""
        return ("tensorboard" if self.log[0].is_dir() else self.log[-1].name) if self.log else None

    @property
    def model(self) -> str:
        """The model's path or name; empty without a config."""
        return str(self.setting(MODEL, ""))

    @property
    def model_name(self) -> str:
        """The model in a heading."""
        return model_name(self.model) if self.model else "model not known"

    def setting(self, key: str, default: Any = None) -> Any:
        """A value of its config; the default where it has none."""
        return self.settings.get(key, default) if self.settings else default

    def series(self, key: str) -> pd.Series:
        """A metric over the steps that have it."""
        return self.steps[key].dropna() if key in self.steps else pd.Series(dtype=float)

    def lacks(self, what: str, fix: str) -> None:
        """Note that something is missing."""
        self.missing.append((what, fix))


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """All runs of the given directories.

    Raises:
        ReportError: for a path without a run, or where none of the runs has steps or an evaluation.
    """
    runs = [_load(directory, name) for directory, name in find_runs(paths).items()]
    if not any(len(run.steps) or run.evaluation for run in runs):
        raise ReportError(
            f"{', '.join(map(str, paths))}: {len(runs)} runs, none of which has logged a step or been evaluated. Add "
            "file (or tensorboard) to trainer.logger, and wait for the first step."
        )
    return runs


def missing_table(runs: Sequence[Run]) -> pd.DataFrame:
    """A row for each thing that is missing, in the order in which they first appear: ``what``, ``runs``, ``fix``."""
    rows = dict.fromkeys((what, fix, run.name) for run in runs for what, fix in run.missing)
    frame = pd.DataFrame(list(rows), columns=["what", "fix", "runs"])
    grouped = frame.groupby(["what", "fix"], sort=False)["runs"].agg(list).reset_index()
    everybody = len(runs) if len(runs) > 1 else -1
    grouped["runs"] = ["all" if len(names) == everybody else ", ".join(names) for names in grouped["runs"]]
    return grouped[["what", "runs", "fix"]]


def _load(directory: Path, name: str) -> Run:
    config = read_config(directory)
    log = find_log(directory)
    steps, problems = read_log(log)
    settings = config.settings

    def files(key: str, folder: str) -> dict[int, Path]:
        return step_files(directory, settings and settings.get(key), folder, config.cwd)

    run = Run(
        name=name,
        directory=directory,
        config=config,
        method=method_of(settings, name),
        log=log,
        steps=steps,
        evaluation=evaluation_files(directory),
        strategy_files=files(STRATEGY_DIR, "strategy"),
        rollout_files=files("trainer.rollout_data_dir", "rollouts"),
    )
    if config.problem:
        run.lacks(f"Config: {config.problem}.", "Mend the file, or give the run's own copy.")
    for problem in problems:
        run.lacks(f"{problem}.", _IF_RUNNING)
    run.state, run.total_steps = _state(run)
    _note_missing(run)
    return run


def _state(run: Run) -> tuple[str, int | None]:
    """The state and the number of steps there are to be, from the sweep's record, the config and the log."""
    record = _job_record(run)
    total = record.get("total_steps") or run.setting("trainer.total_training_steps")
    total = total if isinstance(total, int) else _announced(run.directory / "log.txt")
    if "state" in record:
        return str(record["state"]), total
    if not len(run.steps):
        return "not started, or not logged", total
    return ("finished" if total is not None and run.steps.index[-1] >= total else "in progress, or ended early"), total


def _job_record(run: Run) -> dict[str, Any]:
    """What a sweep wrote about its job, of whatever version; empty where there is nothing or nothing readable."""
    try:
        record = json.loads((run.directory / JOB).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        run.lacks(f"A readable {JOB} ({error}).", "The sweep, started again.")
        return {}
    return record if isinstance(record, dict) else {}


def _announced(log: Path) -> int | None:
    if not log.is_file():
        return None
    with log.open("rb") as file:
        found = re.findall(rb"Total training steps: (\d+)", file.read(_LOG_HEAD))
    return int(found[-1]) if found else None


def _note_missing(run: Run) -> None:
    if not len(run.steps):
        run.lacks(
            "Logged steps.",
            "trainer.logger with file (or tensorboard) into the run's directory, or the log's file given as a run; "
            "verl writes the first record after step 1.",
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

"""``job.json``: what is known on disk about a job, so that a sweep can be ended in any way and started again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from subgroup_offset.sweep.settings import SweepError

FILE_NAME = "job.json"
_CLOCK_SECONDS = 5.0
PENDING, RUNNING, FINISHED, FAILED = STATES = ("pending", "running", "finished", "failed")


@dataclass
class JobRecord:
    """The state of one job."""

    #: What runs, without its overrides: program, ``--config-name`` and the like.
    program: list[str]
    #: The job's task overrides, swept or not, as the sweeper gave them.
    overrides: list[str]
    #: Where its checkpoints are.
    checkpoints: str
    #: ``pending`` (not started, or interrupted with the sweep), ``running`` (or the sweep was killed), ``finished``
    #: (ended with exit code 0) or ``failed``.
    state: str = PENDING
    #: How often it was started.
    attempts: int = 0
    #: Start and end of the last attempt, ISO 8601, UTC.
    started: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    #: The process of the last attempt; the time tells it from a later process of the same id.
    host: str | None = None
    pid: int | None = None
    pid_created: float | None = None
    #: The last logged step, and how many there are to be, where that is known.
    step: int = 0
    total_steps: int | None = None
    #: The last validation's main metrics, and its step.
    validation: dict[str, float] = field(default_factory=dict)
    validation_step: int | None = None

    @classmethod
    def load(cls, directory: Path) -> JobRecord | None:
        """The record in a job's directory, or None where no job was.

        Raises:
            SweepError: where the file cannot be read as a record.
        """
        path = directory / FILE_NAME
        try:
            values: dict[str, Any] = json.loads(path.read_text("utf-8"))
            record = cls(**values)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise SweepError(
                f"{path} is no record of a job ({error}): remove the directory, or give another hydra.sweep.dir."
            ) from error
        if record.state not in STATES:
            raise SweepError(f"{path}: state={record.state!r} is unknown: use one of {', '.join(STATES)}.")
        return record

    def save(self, directory: Path) -> None:
        """Write the record whole or not at all: a crash leaves the one before."""
        directory.mkdir(parents=True, exist_ok=True)
        whole = directory / (FILE_NAME + ".tmp")
        with whole.open("w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(directory / FILE_NAME)

    def start(self) -> None:
        """A new attempt begins; its process follows with :meth:`runs_as`."""
        self.state, self.attempts = RUNNING, self.attempts + 1
        self.started, self.ended, self.exit_code = _now(), None, None
        self.host, self.pid, self.pid_created = socket.gethostname(), None, None

    def runs_as(self, pid: int) -> None:
        """The attempt's process; one that has ended already leaves nothing to find."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.pid, self.pid_created = pid, psutil.Process(pid).create_time()

    def end(self, exit_code: int | None, finished: bool) -> None:
        """The attempt is over."""
        self.state = FINISHED if finished else FAILED
        self.ended, self.exit_code = _now(), exit_code
        self.pid = self.pid_created = None

    def interrupt(self) -> None:
        """The attempt was ended with the sweep, and is to be resumed. Exit code 0 would not mean that it is done."""
        self.state, self.ended = PENDING, _now()
        self.pid = self.pid_created = None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Take in what the job logged."""
        self.step = step
        validation = {key: value for key, value in metrics.items() if key.startswith("val-core/")}
        if validation:
            self.validation, self.validation_step = validation, step

    def process(self) -> psutil.Process | None:
        """The process of an attempt that still runs on this machine."""
        if self.state != RUNNING or self.pid is None or self.host != socket.gethostname():
            return None
        try:
            process = psutil.Process(self.pid)
            # Computed from the clock, which may have been set meanwhile.
            same = abs(process.create_time() - self.pid_created) < _CLOCK_SECONDS
            same = same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if same else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

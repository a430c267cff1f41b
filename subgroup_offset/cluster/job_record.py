"""``job.json``: what is known on disk about a job of a sweep, so that a sweep can end in any way and start again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from hydra.errors import CompactHydraException

from subgroup_offset.files import write_text

FILE_NAME = "job.json"
PENDING, RUNNING, FINISHED, FAILED = STATES = ("pending", "running", "finished", "failed")
_CLOCK_SECONDS = 5.0


class SweepError(CompactHydraException):
    """A sweep that cannot be started or went wrong. Hydra prints its message without a traceback and exits with 1."""


@dataclass
class JobRecord:
    """The state of one job."""

    #: What Python runs, ``--config-name`` included, without the overrides.
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
            record = cls(**json.loads(path.read_text("utf-8")))
            if record.state not in STATES:
                raise ValueError(f"state={record.state!r} is none of {', '.join(STATES)}")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise SweepError(
                f"{path} is no record of a job ({error}): remove the directory, or give another hydra.sweep.dir."
            ) from error
        return record

    def save(self, directory: Path) -> None:
        """Write the record whole or not at all: a crash leaves the one before."""
        write_text(directory / FILE_NAME, json.dumps(dataclasses.asdict(self), indent=1))

    def start(self) -> None:
        """A new attempt begins; its process follows with :meth:`runs_as`."""
        self.state, self.attempts = RUNNING, self.attempts + 1
        self.started, self.ended, self.exit_code = _now(), None, None
        self.host, self.pid, self.pid_created = socket.gethostname(), None, None

    def runs_as(self, pid: int) -> None:
        """The attempt's process; one that has ended already leaves nothing to find."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.pid, self.pid_created = pid, psutil.Process(pid).create_time()

    def end(self, state: str, exit_code: int | None = None) -> None:
        """The attempt is over. ``pending``: it was ended with the sweep, and is to be resumed."""
        self.state, self.ended, self.exit_code = state, _now(), exit_code
        self.pid = self.pid_created = None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Take in what the job logged."""
        self.step = step
        validation = {key: value for key, value in metrics.items() if key.startswith("val-core/")}
        if validation:
            self.validation, self.validation_step = validation, step

    def running_process(self) -> int | None:
        """The id of the process of an attempt that still runs on this machine."""
        if self.state != RUNNING or self.pid is None or self.host != socket.gethostname():
            return None
        try:
            process = psutil.Process(self.pid)
            # Computed from the clock, which may have been set meanwhile.
            same = abs(process.create_time() - self.pid_created) < _CLOCK_SECONDS
            return self.pid if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

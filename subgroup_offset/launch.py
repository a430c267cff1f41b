"""Run ``python -m verl.trainer.main_ppo`` as a process of its own and follow it step by step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 20.0


class RunFailed(RuntimeError):
    """The training process ended with an error; the message says where its log is and how it ends."""


@dataclass(frozen=True)
class LoggedStep:
    """One record of verl's file logger: the step's number and its metrics."""

    step: int
    metrics: dict[str, float]


def read_steps(path: Path) -> list[LoggedStep]:
    """All complete records of a file that verl's ``file`` logger wrote or is still writing."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    records = (json.loads(line) for line in lines if line.endswith("\n"))
    return [LoggedStep(record["step"], record["data"]) for record in records]


class TrainingRun:
    """A training process with its own directory: ``log.txt``, ``metrics.jsonl`` and what the overrides add.

    Args:
        directory: made where it is missing; the process runs in it.
        overrides: Hydra arguments of ``verl.trainer.main_ppo``, ``--config-name`` included.
    """

    def __init__(self, directory: Path, overrides: Sequence[str]) -> None:
        self.directory = directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / "log.txt"
        self.metrics = self.directory / "metrics.jsonl"
        self.metrics.unlink(missing_ok=True)
        command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides]
        command += [
            f"hydra.run.dir='{self.directory}/hydra'",
            # Through Ray, not this environment: the logger may run on a node of a cluster that is there already.
            f"++ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH='{self.metrics}'",
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.directory, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """The process id of ``main_ppo``."""
        return self._process.pid

    def follow(self, timeout: float | None = None) -> Iterator[LoggedStep]:
        """Yield every logged step as it appears, until the process ends. Leaving early ends the process.

        Raises:
            RunFailed: if it ends with an error, or is still running after ``timeout`` seconds.
        """
        started, seen = time.monotonic(), 0
        try:
            while True:
                ended = self._process.poll() is not None
                steps = read_steps(self.metrics)
                yield from steps[seen:]
                seen = len(steps)
                if ended:
                    break
                if timeout is not None and time.monotonic() - started > timeout:
                    raise RunFailed(self._failure(f"was still going after {timeout:.0f} s"))
                time.sleep(_POLL_SECONDS)
        finally:
            self.stop()
        if self._process.returncode != 0:
            raise RunFailed(self._failure(f"ended with exit code {self._process.returncode}"))

    def wait(self, timeout: float | None = None) -> list[LoggedStep]:
        """Run to the end; the steps it logged. Raises as :meth:`follow` does."""
        return list(self.follow(timeout))

    def stop(self) -> None:
        """End the process and everything it started, Ray's processes included; nothing else."""
        family = self._family()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # lets Ray shut its own processes down
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for process in psutil.wait_procs(family, timeout=_GRACE_SECONDS)[1]:
            process.kill()

    def tail(self, lines: int = 15) -> str:
        """The end of the log."""
        text = self.log.read_bytes().decode("utf-8", errors="replace")
        return "\n".join(line[:300] for line in text.splitlines()[-lines:])

    def _failure(self, what: str) -> str:
        return f"The run {what}. Its log: {self.log}\n{self.tail()}"

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

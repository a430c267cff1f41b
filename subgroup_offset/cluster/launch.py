"""Run a Hydra program of verl (``main_ppo``) as a process of its own and follow it step by step."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from subgroup_offset.cluster.processes import hear_interrupts
from subgroup_offset.files import write_text

MAIN_PPO = ("-m", "verl.trainer.main_ppo")
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 20.0


class RunFailed(RuntimeError):
    """The training process ended with an error; the message says where its log is and how it ends.

    Attributes:
        what: the reason alone, as in "The run <what>."
    """

    def __init__(self, what: str, log: Path, tail: str) -> None:
        super().__init__(f"The run {what}. Its log: {log}\n{tail}")
        self.what = what


@dataclass(frozen=True)
class LoggedStep:
    """One record of verl's file logger: the step's number and its metrics."""

    step: int
    metrics: dict[str, float]


def read_steps(path: Path) -> list[LoggedStep]:
    """All complete records of a file that verl's ``file`` logger wrote or is still writing."""
    return _parse_steps(path.read_bytes().splitlines(keepends=True)) if path.exists() else []


def read_run_steps(directory: Path) -> list[LoggedStep]:
    """All steps logged in the directory of a :class:`TrainingRun`, over as many starts as it took."""
    return merge_steps(read_steps(directory / "metrics.earlier.jsonl"), read_steps(directory / "metrics.jsonl"))


def merge_steps(earlier: Sequence[LoggedStep], later: Sequence[LoggedStep]) -> list[LoggedStep]:
    """The records of one training that was resumed: what came after the checkpoint it resumed from is dropped.

    A step that both have keeps the metrics of both (a resumed run may validate at the checkpoint's step), the later
    one's where they overlap.
    """
    if not later:
        return list(earlier)
    first = later[0].step
    kept = [s for s in earlier if s.step < first]
    shared = {key: value for s in earlier if s.step == first for key, value in s.metrics.items()}
    return [*kept, LoggedStep(first, {**shared, **later[0].metrics}), *later[1:]]


def hydra_quoted(value: object) -> str:
    """A text as a quoted value of a Hydra override, so that a space, ``=`` or quote in it does no harm."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(str(value), Quote.single).with_quotes()


class TrainingRun:
    """A training process with its own directory: ``log.txt``, ``metrics.jsonl`` and what the overrides add.

    Args:
        directory: made where it is missing; the process runs in it unless ``cwd`` says otherwise.
        overrides: Hydra arguments of the program, ``--config-name`` included.
        program: what Python runs: ``-m`` and a module, or a script's path.
        cwd: working directory of the process.
        env: variables that the process gets besides those of this one.
        resume: go on in a directory that an earlier run used: the log is appended to, and ``metrics.jsonl`` ends up
            with the steps of both (until then the earlier ones are in ``metrics.earlier.jsonl``). Otherwise what was
            there is replaced.
    """

    def __init__(
        self,
        directory: Path,
        overrides: Sequence[str],
        *,
        program: Sequence[str] = MAIN_PPO,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        resume: bool = False,
    ) -> None:
        self.directory = directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / "log.txt"
        self.metrics = self.directory / "metrics.jsonl"
        self._earlier = self.directory / "metrics.earlier.jsonl"
        self._family: set[psutil.Process] = set()
        self._read = 0
        if resume:
            # verl's logger empties its file when it opens it.
            _write_steps(self._earlier, read_run_steps(self.directory))
        else:
            self._earlier.unlink(missing_ok=True)
        self.metrics.unlink(missing_ok=True)
        command = [sys.executable, *program, *overrides]
        command += [
            f"hydra.run.dir={hydra_quoted(self.directory / 'hydra')}",
            # Through Ray, not this environment: the logger may run on a node of a cluster that is there already.
            f"++ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH={hydra_quoted(self.metrics)}",
        ]
        with self.log.open("ab" if resume else "wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=cwd or self.directory,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=hear_interrupts,
            )

    @property
    def pid(self) -> int:
        """The process id of the training program."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def follow(self, timeout: float | None = None) -> Iterator[LoggedStep]:
        """Yield every step of this run as it is logged, until the process ends. Leaving early ends the process.

        Raises:
            RunFailed: if it ends with an error, or is still running after ``timeout`` seconds.
        """
        started = time.monotonic()
        try:
            while True:
                ended = self._process.poll() is not None
                self._track_family()
                yield from self._new_steps()
                if ended:
                    break
                if timeout is not None and time.monotonic() - started > timeout:
                    raise self._failure(f"was still going after {timeout:g} s")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_POLL_SECONDS)
        finally:
            self.stop()
        if self._process.returncode != 0:
            raise self._failure(f"ended with exit code {self._process.returncode}")

    def wait(self, timeout: float | None = None) -> list[LoggedStep]:
        """Run to the end; the steps it logged. Raises as :meth:`follow` does."""
        return list(self.follow(timeout))

    def stop(self) -> None:
        """End the process and everything it started, Ray's processes included; nothing else.

        They have a time of grace to end by themselves; a KeyboardInterrupt meanwhile ends them at once.
        """
        self._track_family()
        try:
            self._interrupt()
            psutil.wait_procs(self._family, timeout=_GRACE_SECONDS)
        finally:
            self._kill()
            if self._earlier.exists():
                _write_steps(self.metrics, read_run_steps(self.directory))
                self._earlier.unlink()

    def tail(self, lines: int = 15) -> str:
        """The end of the log."""
        text = self.log.read_bytes().decode("utf-8", errors="replace")
        return "\n".join(line[:300] for line in text.splitlines()[-lines:])

    def _new_steps(self) -> list[LoggedStep]:
        if not self.metrics.exists():
            return []
        with self.metrics.open("rb") as file:
            file.seek(self._read)
            lines = [line for line in file if line.endswith(b"\n")]
        self._read += sum(map(len, lines))
        return _parse_steps(lines)

    def _failure(self, what: str) -> RunFailed:
        return RunFailed(what, self.log, self.tail())

    def _track_family(self) -> None:
        """Remember the descendants: once the process has ended, nothing tells any more which they were."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family.update(psutil.Process(self._process.pid).children(recursive=True))
        self._family = {process for process in self._family if process.is_running()}

    def _interrupt(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # lets Ray shut its own processes down
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        if self._process.poll() is None:
            self._process.kill()

    def _kill(self) -> None:
        for process in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        psutil.wait_procs(self._family, timeout=_GRACE_SECONDS)


def _parse_steps(lines: Iterable[bytes]) -> list[LoggedStep]:
    records = (json.loads(line) for line in lines if line.endswith(b"\n"))
    return [LoggedStep(record["step"], record["data"]) for record in records]


def _write_steps(path: Path, steps: Iterable[LoggedStep]) -> None:
    write_text(path, "".join(json.dumps({"step": s.step, "data": s.metrics}) + "\n" for s in steps))

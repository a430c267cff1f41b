"""Worker processes for symbolic equality, each comparison under a time limit that the parent enforces.

A worker that runs out of time is killed and replaced, and one that dies (out of memory, for one) is replaced: both are
outcomes of their own, never a wrong answer. A worker is a new Python (``worker.py``): a fork of a process with threads
may hang, and multiprocessing's own processes import the script that grades once more.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from subgroup_offset.evaluation.equality import Outcome
from subgroup_offset.evaluation.worker import READY, Comparer

START_SECONDS = 180.0  #: for a worker to import sympy, on a machine that is busy
_END_SECONDS = 5.0  #: for a worker that has closed its pipe to be gone


class PoolError(RuntimeError):
    """Workers cannot be started; the message says what became of the last one."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    #: On the monotonic clock, seconds; infinite while it has nothing to do.
    deadline: float
    ready: bool = False
    #: Index of the pair it compares.
    task: int | None = None


class WorkerPool:
    """Compares pairs of texts in worker processes, which are started when they are first needed.

    Args:
        workers: processes at once, at least 1.
        seconds: wall-clock limit of a comparison.
        memory: address space of a worker, bytes; a comparison that needs more ends as an error.
        comparer: what a worker calls; a function of a module.
        prepare: called once in each new worker, outside of any time limit; a function of a module.
    """

    def __init__(
        self, workers: int, seconds: float, memory: int, comparer: Comparer, prepare: Callable[[], object] | None = None
    ) -> None:
        self.workers, self.seconds = workers, seconds
        self._arguments = (comparer, prepare, seconds, memory)
        self._workers: list[_Worker] = []

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Outcome]]:
        """Compare all pairs.

        Yields:
            The index of a pair and its outcome, as they come: ``timeout`` for one that took too long, ``error`` for
            one that raised or whose worker died.

        Raises:
            PoolError: if a worker dies before it is ready.
        """
        waiting, left = deque(enumerate(pairs)), len(pairs)
        while len(self._workers) < min(self.workers, left):
            self._workers.append(self._start())
        try:
            while left:
                for worker in self._workers:
                    if waiting and worker.ready and worker.task is None:
                        self._send(worker, *waiting.popleft())
                for worker in self._woken():
                    task, outcome = worker.task, self._read(worker)
                    if task is not None and outcome:
                        left -= 1
                        yield task, outcome
        finally:
            if left:  # given up half-way: nobody waits for what the workers are doing
                self.close()

    def close(self) -> None:
        """End all workers. The pool can be used again."""
        while self._workers:
            _end(self._workers.pop())

    def _start(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        # The functions that it calls are looked for where this process looks.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "subgroup_offset.evaluation.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        with contextlib.suppress(OSError):  # it has died already: seen when its end of the pipe is read
            ours.send(self._arguments)
        return _Worker(process, ours, deadline=time.monotonic() + START_SECONDS)

    def _send(self, worker: _Worker, task: int, pair: tuple[str, str]) -> None:
        with contextlib.suppress(OSError):  # it has died: seen when its end of the pipe is read
            worker.connection.send(pair)
        worker.task, worker.deadline = task, time.monotonic() + self.seconds

    def _woken(self) -> list[_Worker]:
        """Waits for workers that have sent something, died or run out of time."""
        deadline = min(worker.deadline for worker in self._workers)
        timeout = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        readable = multiprocessing.connection.wait([worker.connection for worker in self._workers], timeout)
        now = time.monotonic()
        return [worker for worker in self._workers if worker.connection in readable or worker.deadline <= now]

    def _read(self, worker: _Worker) -> Outcome | None:
        """What a woken worker's comparison came to; None for one that has become ready, or that was idle."""
        if not worker.connection.poll():
            late = Outcome("timeout", "symbolic", f"no result within {self.seconds:g} s")
            return self._replace(worker, late, f"was not ready after {START_SECONDS:g} s")
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(_END_SECONDS)
            what = f"ended with exit code {worker.process.returncode}"
            return self._replace(worker, Outcome("error", "symbolic", f"the worker {what}"), what)
        worker.task, worker.deadline = None, math.inf
        if message == READY:
            worker.ready = True
            return None
        return message

    def _replace(self, worker: _Worker, outcome: Outcome, what: str) -> Outcome:
        _end(worker)
        if not worker.ready:
            raise PoolError(
                f"A grading worker {what} before it could compare anything: its error is above. "
                f"`{sys.executable} -c 'import math_verify'` has to work."
            )
        self._workers[self._workers.index(worker)] = self._start()
        return outcome


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.wait()
    worker.connection.close()

"""Worker processes for math-verify, each comparison under a time limit that the parent enforces (by pebble).

A worker that runs out of time is killed and replaced, and one that dies is replaced: reasons of their own, never a
wrong answer. Workers are new Pythons, since a fork of a process with threads may hang; so a script that grades needs
``if __name__ == "__main__":``, as for any pool of such processes.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from pebble import ProcessExpired, ProcessPool

Comparer = Callable[[str, str], tuple[str, str]]  #: of answer and reference; gives a reason and more about it

_GRACE_SECONDS = 5  # after which a worker that its parent has left alone ends itself


class PoolError(RuntimeError):
    """Workers cannot be started."""


def by_math_verify(answer: str, reference: str) -> tuple[str, str]:
    """:func:`~subgroup_offset.evaluation.equality.compare`, which only workers import: sympy takes seconds."""
    from subgroup_offset.evaluation.equality import compare

    return compare(answer, reference)


class WorkerPool:
    """Compares pairs of texts in worker processes, which are started when they are first needed.

    ``seconds`` limits the wall-clock time of a comparison, ``memory`` a worker's address space, in bytes.
    """

    def __init__(self, workers: int, seconds: float, memory: int, comparer: Comparer = by_math_verify) -> None:
        self.workers, self.seconds, self.memory, self.comparer = workers, seconds, memory, comparer
        self._pool: ProcessPool | None = None

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The reason and more of each pair, in order: ``timeout`` or ``error`` where its worker was ended or died.

        Raises:
            PoolError: if workers die before they are ready.
        """
        if not pairs:
            return
        context, arguments = multiprocessing.get_context("spawn"), (self.memory, self.comparer)
        self._pool = self._pool or ProcessPool(self.workers, initializer=_start, initargs=arguments, context=context)
        work = partial(_work, self.comparer, self.seconds)
        try:
            found = self._pool.map(work, *zip(*pairs, strict=True), timeout=self.seconds).result()
            for _ in pairs:
                try:
                    outcome = next(found)
                except TimeoutError:
                    outcome = "timeout", f"no result within {self.seconds:g} s"
                except ProcessExpired as error:
                    outcome = "error", f"the worker ended with exit code {error.exitcode}"
                yield outcome
        except BaseException as error:  # given up half-way: nobody waits for what the workers are doing
            self.close()
            if isinstance(error, BrokenProcessPool):
                raise PoolError(
                    "No grading worker can be started; its error is above. `import math_verify` has to work, and a "
                    'script that grades needs `if __name__ == "__main__":` around what it does.'
                ) from error
            raise

    def close(self) -> None:
        """End all workers. The pool can be used again."""
        if self._pool:
            self._pool.stop()
            self._pool.join()
        self._pool = None


def _start(memory: int, comparer: Comparer) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its own time limits are off
    comparer(r"\frac{\sqrt{2}}{2}+x", r"x+\frac{1}{\sqrt{2}}")  # outside of any limit: imports, and builds tables


def _work(comparer: Comparer, seconds: float, answer: str, reference: str) -> tuple[str, str]:
    signal.alarm(math.ceil(seconds) + _GRACE_SECONDS)
    try:
        return comparer(answer, reference)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)

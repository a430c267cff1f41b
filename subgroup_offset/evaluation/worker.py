"""A grading worker: ``python -m subgroup_offset.evaluation.worker FD``, with one end of a pipe of ``pool.py``."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from subgroup_offset.evaluation.equality import Outcome

Comparer = Callable[[str, str], Outcome]

READY = "ready"  #: what a worker sends first
# A worker that its parent has left alone ends itself this long after the limit.
_GRACE_SECONDS = 5


def work(connection: Connection) -> None:
    """A worker's life: it is told what to call and its limits, then compares what it is sent until the pipe is closed.

    What the comparison raises is an outcome; what ends the process is seen by the parent.
    """
    comparer, prepare, seconds, memory = connection.recv()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sees it, and ends its workers
    _limit_memory(memory)
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its own time limits are off
    if prepare:
        prepare()
    connection.send(READY)
    while True:
        pair = connection.recv()
        signal.alarm(math.ceil(seconds) + _GRACE_SECONDS)
        try:
            outcome = comparer(*pair)
        except MemoryError:
            outcome = Outcome("error", "symbolic", "out of memory")
        except Exception as error:
            outcome = Outcome("error", "symbolic", f"{type(error).__name__}: {error}"[:300])
        signal.alarm(0)
        connection.send(outcome)


def _limit_memory(limit: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has closed the pipe
        work(Connection(int(sys.argv[1])))

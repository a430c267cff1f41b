"""What long commands need of the operating system: to be interrupted, and to have their directory to themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM (a cluster taking its node back) and SIGHUP end what runs as Ctrl-C does.

    Where they are handled or ignored already (``nohup``) they stay so.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    changed = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def hear_interrupts() -> None:
    """For a new process: a shell's background job ignores SIGINT, and so would everything it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def exclusive_lock(lock: Path, refusal: Exception) -> AbstractContextManager[object]:
    """Lock a file (its directory is made where it is missing) until the result is left, or this process ends.

    Raises:
        refusal: if another process holds it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(lock).acquire(timeout=0)
    except Timeout:
        raise refusal from None

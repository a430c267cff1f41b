"""How many samples there are while verl's run makes them: it tells nobody, so they are counted every second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from subgroup_offset.progress import Rate, shown

_POLL_SECONDS = 1.0


@contextmanager
def shown_progress(console: Console, count: Callable[[], int], total: int) -> Iterator[None]:
    """Show how many samples there are while the block runs.

    Args:
        console: where.
        count: how many are there now.
        total: how many there will be.
    """
    rate, ended = Rate(), threading.Event()
    with shown("samples", console) as show:

        def look() -> None:
            done = count()
            rate.update(time.monotonic(), done)
            show(done, total, note(rate, done, total))

        def watch() -> None:
            while not ended.wait(_POLL_SECONDS):
                look()

        look()
        thread = threading.Thread(target=watch, name="subgroup_offset_progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            look()


def note(rate: Rate, done: int, total: int) -> str:
    """What to say beside the number of samples."""
    if done >= total:
        return "all samples are there; verl ends"
    return rate.text(total) if rate.begun else "starting Ray, FSDP and the engines"

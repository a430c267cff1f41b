"""A bar over samples, with rate and time left; a line now and then where the output is no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_POLL_SECONDS = 1.0
_LINE_SECONDS = 30.0


class Rate:
    """Samples a second since the first one came, which is when the engines had started.

    Args:
        total: samples there will be.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._start: int | None = None
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None

    def update(self, now: float, count: int) -> None:
        """Note how many there are at a time, in seconds."""
        if self._start is None:
            self._start = count
        if count > self._start and self._first is None:
            self._first = (now, count)
        self._last = (now, count)

    @property
    def per_second(self) -> float | None:
        """None until it can be told."""
        if self._first is None or self._last is None or self._last[0] <= self._first[0]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])

    def text(self) -> str:
        """Rate and time left."""
        if self._first is None:
            return "starting Ray, FSDP and the engines"
        rate, count = self.per_second, self._last[1]
        if count >= self._total:
            return "all samples are there; verl ends"
        if not rate:
            return "..."
        left = timedelta(seconds=round((self._total - count) / rate))
        return f"{rate:.3g}/s, {left} left"


@contextmanager
def shown_progress(console: Console, count: Callable[[], int], total: int) -> Iterator[None]:
    """Show how many samples there are while the block runs.

    Args:
        console: where.
        count: how many are there now.
        total: how many there will be.
    """
    rate, ended = Rate(total), threading.Event()
    bar = _bar(console)
    task = bar.add_task("samples", total=total, rate="")

    def look() -> None:
        now = count()
        rate.update(time.monotonic(), now)
        bar.update(task, completed=now, rate=rate.text())

    def watch() -> None:
        told = time.monotonic()
        while not ended.wait(_POLL_SECONDS):
            look()
            if not console.is_terminal and time.monotonic() - told > _LINE_SECONDS:
                told = time.monotonic()
                console.print(f"samples {bar.tasks[0].completed:.0f}/{total}, {rate.text()}", highlight=False)

    look()
    thread = threading.Thread(target=watch, name="subgroup_offset_progress", daemon=True)
    if console.is_terminal:
        bar.start()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()
        bar.stop()


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("{task.fields[rate]}"), console=console)

"""How far a long command is: a bar on a terminal, a line now and then where there is none (a log, a batch job)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_SECONDS = 20.0  #: between two lines

#: Takes how much is done, of how much, and what else there is to say.
Show = Callable[[int, int, str], None]


class Rate:
    """Pieces a second since the first one came, so that what went before (engines that start) does not count."""

    def __init__(self) -> None:
        self._start: int | None = None
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None

    def update(self, now: float, done: int) -> None:
        """Note how many there are at a time, in seconds."""
        if self._start is None:
            self._start = done
        if done > self._start and self._first is None:
            self._first = (now, done)
        self._last = (now, done)

    @property
    def begun(self) -> bool:
        """Whether one has come."""
        return self._first is not None

    @property
    def per_second(self) -> float | None:
        """None until it can be told."""
        if self._first is None or self._last is None or self._last[0] <= self._first[0]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])

    def text(self, total: int) -> str:
        """Rate and time left."""
        rate = self.per_second
        if not rate or self._last is None:
            return "..."
        return f"{rate:.3g}/s, {timedelta(seconds=round((total - self._last[1]) / rate))} left"


@contextmanager
def shown(what: str, console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Show]:
    """Yields what to call as often as there is news; until its first call nothing is shown.

    Where the console is no terminal it prints the first news, then at most one line every :data:`LINE_SECONDS`, and
    the last news when the block ends.

    Args:
        what: is counted, as in "samples".
        console: where.
        clock: seconds.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console)
    task = bar.add_task(what, total=None, note="")
    printed, news = None, ""

    def show(done: int, total: int, note: str) -> None:
        nonlocal printed, news
        if console.is_terminal:
            bar.update(task, completed=done, total=total, note=note)
            bar.start()
            return
        news = f"{what} {done}/{total}, {note}"
        if printed is None or clock() - printed[0] >= LINE_SECONDS:
            printed = (clock(), news)
            console.print(news, highlight=False, markup=False)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
        if printed is not None and printed[1] != news:
            console.print(news, highlight=False, markup=False)

"""How far the warm start is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from subgroup_offset.progress import Rate, shown

from .sft import Progress as Callback


@contextmanager
def progress_line(console: Console | None = None) -> Iterator[Callback]:
    """Yields a callback for build_toy that shows steps, loss and remaining time, on standard error if not elsewhere."""
    rate = Rate()
    with shown("warm start: step", console or Console(stderr=True)) as show:

        def callback(step: int, steps: int, loss: float) -> None:
            rate.update(time.monotonic(), step)
            show(step, steps, f"loss {loss:.3f}, {rate.text(steps)}")

        yield callback

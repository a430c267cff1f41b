"""A progress line for the warm start."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .sft import Progress as Callback


@contextmanager
def progress_line() -> Iterator[Callback]:
    """Yields a callback for build_toy that shows steps, loss and remaining time on standard error."""
    columns = (
        TextColumn("warm start"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("warm start", total=None, visible=False, loss=float("nan"))

        def callback(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, loss=loss, visible=True)

        yield callback

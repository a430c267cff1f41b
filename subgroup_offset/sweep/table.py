"""The jobs of a sweep as they go: a live table on a terminal, a line for each change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from subgroup_offset.sweep.record import FAILED, FINISHED, PENDING, RUNNING, JobRecord

_COLOURS = {PENDING: "dim", RUNNING: "yellow", FINISHED: "green", FAILED: "red"}
_SHOWN_METRICS = 2


@dataclass
class Row:
    """What is shown of a job: its record, and whether an earlier start of the sweep had finished it."""

    name: str
    record: JobRecord
    skipped: bool = False

    @property
    def state(self) -> str:
        """The state in words."""
        state = self.record.state
        if self.skipped:
            return f"{state} before"
        if state in (RUNNING, FAILED) and self.record.attempts > 1:
            return f"{state}, start {self.record.attempts}"
        return state

    @property
    def progress(self) -> str:
        """Step of total."""
        total = self.record.total_steps
        return f"{self.record.step}/{'?' if total is None else total}"

    @property
    def validation(self) -> str:
        """The mean accuracies of the last validation, without what all their names begin with."""
        means = {k: v for k, v in self.record.validation.items() if "/mean@" in k} or self.record.validation
        parts = [f"{key.removeprefix('val-core/')} {value:.3f}" for key, value in means.items() if value is not None]
        if len(parts) > _SHOWN_METRICS:
            parts[_SHOWN_METRICS:] = [f"and {len(parts) - _SHOWN_METRICS} more"]
        return ", ".join(parts)


class Progress:
    """Shows rows while a ``with progress.shown(rows)`` block runs and calls :meth:`update`.

    Args:
        console: where to; by default standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._rows: Sequence[Row] = ()
        self._live: Live | None = None
        self._last: dict[str, str] = {}

    @contextmanager
    def shown(self, rows: Sequence[Row]) -> Iterator[None]:
        """Show these rows until the block ends."""
        self._rows = rows
        if not self._console.is_terminal:
            for row in rows:
                self.update(row)
            yield
            return
        try:
            with Live(make_table(rows), console=self._console, auto_refresh=False) as self._live:
                yield
        finally:
            self._live = None

    def update(self, row: Row) -> None:
        """A row has changed."""
        if self._live is not None:
            self._live.update(make_table(self._rows), refresh=True)
            return
        line = f"{row.name}: {row.state}, step {row.progress}" + (f", {row.validation}" if row.validation else "")
        if self._last.get(row.name) != line:
            self._last[row.name] = line
            self.note(f"[{datetime.now():%H:%M:%S}] {line}")

    def note(self, text: str) -> None:
        """Print a line of its own."""
        self._console.print(text, markup=False, soft_wrap=True)


def make_table(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    table = Table()
    for column in ("job", "state", "step", "last validation"):
        table.add_column(column, justify="right" if column == "step" else "left")
    for row in rows:
        state = Text(row.state, style=_COLOURS[row.record.state])
        table.add_row(Text(row.name), state, row.progress, Text(row.validation))
    return table

"""The strategy stage's log in the terminal: each prompt's subgroups as in the paper's Table 6."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from subgroup_offset.reports.locate import read_config, step_files
from subgroup_offset.reports.settings import STRATEGY_DIR
from subgroup_offset.strategy import split_instructions
from subgroup_offset.strategy.json_lines import RecordError, Unusable
from subgroup_offset.strategy.record import log_files, read_records
from subgroup_offset.strategy.subgroups import UNKNOWN, PromptRecord, select
from subgroup_offset.text import printable, shortened

PROBLEM_WIDTH = 300  #: Characters of the problem that are shown without ``raw``.
NARROW = 60  #: A terminal with fewer columns has no room for a table: slots are listed one below the other.


def run(path: Path, *, raw: bool = False, console: Console | None = None, **filters: Any) -> int:
    """Read, filter and print a log, or a run's: ``subgroup-offset inspect``.

    Args:
        path: a file of the log, its directory, or the run's directory: its log is where its config says.
        raw: see :func:`render`.
        console: where to print; the standard output if None.
        filters: the keyword arguments of :func:`~subgroup_offset.strategy.subgroups.select`.

    Returns:
        How many prompts were shown.

    Raises:
        ValueError: (:class:`RecordError` among them) with a message for the user.
    """
    console, unusable = console or Console(), Unusable()
    records = [record for file in _log_of(path) for record in read_records(file, unusable)]
    if not records and unusable.counts:
        raise RecordError(
            f"{path} has no record that can be read ({'; '.join(unusable.texts())}). Give the log that the strategy "
            "stage writes, not a rollout dump."
        )
    chosen = select(records, **filters)
    render(chosen, console, raw)
    console.print(_text(f"{len(chosen)} of {len(records)} prompts shown.", "dim"))
    for left_out in unusable.texts():
        console.print(_text(left_out, "yellow"), soft_wrap=True)
    return len(chosen)


def _log_of(path: Path) -> list[Path]:
    """The files of a log, in the order of their steps.

    Raises:
        RecordError: where there is none; the message says why, as far as a run's config tells.
    """
    try:
        return log_files(path)
    except RecordError:
        if not path.is_dir():
            raise
    config = read_config(path)
    place = config.settings.get(STRATEGY_DIR) if config.settings else None
    if files := step_files(path, place, "strategy", config.cwd):
        return list(files.values())
    why = f"its strategy stage was not logged: start it with {STRATEGY_DIR}=DIR."
    if place:
        why = f"there is no {{step}}.jsonl in its {STRATEGY_DIR}={place}: wait for its first step."
    if config.settings is None:
        why = "no {step}.jsonl, nor a run's config that can be read: give the stage's log or the directory of one run."
    raise RecordError(f"{path}: {why}")


def render(records: Iterable[PromptRecord], console: Console, raw: bool = False) -> None:
    """Print records: for each a header, the problem and a table of its slots, the most successful first.

    Args:
        records: what to show, in this order.
        console: where to.
        raw: also show the problem in full and every candidate: its fate, and what the model wrote.
    """
    for record in records:
        console.print(Rule())
        console.print(_header(record))
        # Without the instructions on the answer's form, which most problems share.
        problem = " ".join(split_instructions(record.problem)[1].split())
        console.print(_text(record.problem if raw else shortened(problem, PROBLEM_WIDTH)))
        console.print(_slots(record, console.width))
        if raw:
            for i, candidate in enumerate(record.candidates):
                places = "".join(f", slot {slot}" for slot in candidate.slots if slot is not None)
                console.print(_text(f"Candidate {i}: {candidate.reason}{places}", "bold"))
                console.print(Padding(_text(candidate.text), (0, 0, 1, 2)))


def _header(record: PromptRecord) -> Text:
    span = UNKNOWN if record.span is None else f"{record.span:.2f}"
    head = f"step {record.step} · prompt {record.uid[:8]} · span {span} · {record.seconds:.1f} s · {record.status}"
    return _text(head, "bold" if record.status == "finished" else "bold red")


def _slots(record: PromptRecord, width: int) -> Table | Text:
    """A table where there is room for one."""
    rows = [(str(s.slot), str(s.subgroup), s.key_idea, s.success, s.reward) for s in record.best_first]
    if width < NARROW:
        return _text("\n".join("Slot {0}, subgroup {1}: {3}, mean reward {4}\n{2}".format(*row) for row in rows))
    table = Table(show_edge=False, pad_edge=False)
    for heading in ("Slot", "Subgroup", "Key idea", "Success", "Mean reward"):
        table.add_column(heading, justify="left" if heading == "Key idea" else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _text(text: str, style: str = "") -> Text:
    """Text that is shown as it is, without markup."""
    return Text(printable(text.replace("\r\n", "\n")), style=style)

"""The strategy stage's log in the terminal: each prompt's subgroups as in the paper's Table 6."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from subgroup_offset.reports.find_records import find_logs, without_log
from subgroup_offset.reports.records import (
    OTHER_FILE,
    PromptRecord,
    RecordError,
    RecordProblems,
    SlotRecord,
    read_records,
)
from subgroup_offset.strategy import split_instructions
from subgroup_offset.strategy.preview import IDEA

ORDERS = ("span", "file")  #: of :func:`select`
PLAIN_PROMPT = "(plain prompt)"
PROBLEM_WIDTH = 300  #: Characters of the problem that are shown without ``raw``.
NARROW = 60  #: A terminal with fewer columns has no room for a table: slots are listed one below the other.
_UNKNOWN = "–"
# Control characters, which steer the terminal, and lone surrogates, which cannot be encoded.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def span(record: PromptRecord) -> float | None:
    """Greatest minus least success rate, in [0, 1], over the slots that have rollouts and verdicts; None without."""
    rates = [rate for slot in record.slots if (rate := slot.success_rate) is not None]
    return max(rates) - min(rates) if rates else None


def select(
    records: Iterable[PromptRecord],
    *,
    step: int | None = None,
    contains: str | None = None,
    min_span: float = 0.0,
    informative: bool = False,
    limit: int | None = 5,
    order: str = "span",
) -> list[PromptRecord]:
    """The records to show.

    Args:
        records: any records.
        step: only those of this training step.
        contains: only those whose problem contains this text, in any case.
        min_span: only those whose :func:`span` is at least this; above 0 it leaves out those with an unknown one.
        informative: only those whose :func:`span` is at least ``metrics.INFORMATIVE_SPAN``, as the training counts.
        limit: at most this many; None for all.
        order: ``span``, the greatest span first, unknown ones last, ties as in the file; or ``file``.

    Raises:
        ValueError: for another order or a negative limit.
    """
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown: use one of {', '.join(ORDERS)}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit} is negative: set it to 0 or above, or to none for all prompts.")

    least = max(min_span, _informative_span()) if informative else min_span

    def wanted(record: PromptRecord) -> bool:
        return (
            (step is None or record.step == step)
            and (contains is None or contains.casefold() in record.problem.casefold())
            and (span(record) or 0.0) >= least
        )

    found = [record for record in records if wanted(record)]
    if order == "span":
        found.sort(key=lambda record: _descending(span(record)))
    return found[:limit]


def _informative_span() -> float:
    from subgroup_offset.metrics import INFORMATIVE_SPAN  # here, for it needs NumPy

    return INFORMATIVE_SPAN - 1e-9  # rates are quotients of integers: 0.8 - 0.425 is not quite 0.375


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
        console.print(_text(record.problem if raw else _shortened(record.problem)))
        console.print(_slots(record, console.width))
        if raw:
            for i, candidate in enumerate(record.candidates):
                places = "".join(f", slot {slot}" for slot in candidate.slots if slot is not None)
                console.print(_text(f"Candidate {i}: {candidate.reason}{places}", "bold"))
                console.print(Padding(_text(candidate.text), (0, 0, 1, 2)))


def run(path: Path, *, raw: bool = False, console: Console | None = None, **filters: Any) -> int:
    """Read, filter and print a log, or those of runs: ``subgroup-offset inspect``.

    Args:
        path: see :func:`~subgroup_offset.reports.find_records.find_logs`.
        raw: see :func:`render`.
        console: where to print; the standard output if None.
        filters: the keyword arguments of :func:`select`.

    Returns:
        How many prompts were shown.

    Raises:
        ValueError: (:class:`RecordError` among them) with a message for the user.
    """
    console, logs, problems = console or Console(), find_logs(path), RecordProblems()
    records = [
        replace(record, run=log.run) if len(logs) > 1 else record
        for log in logs
        for file in log.files
        for record in read_records(file, problems)
    ]
    if not records and problems.unreadable:
        raise RecordError(f"{path} has no record that can be read: {problems.first}. {OTHER_FILE}")
    shown = select(records, **filters)
    render(shown, console, raw)
    console.print(_text(f"{len(shown)} of {len(records)} prompts shown.", "dim"))
    for said in (*problems.texts(), without_log(logs)):
        if said:
            console.print(_text(said, "yellow"), soft_wrap=True)
    return len(shown)


def _descending(share: float | None) -> float:
    """Sort key for shares in [0, 1]: the greatest first, unknown ones last."""
    return 1.0 if share is None else -share


def _header(record: PromptRecord) -> Text:
    spread = _UNKNOWN if (value := span(record)) is None else format(value, ".2f")
    head = f"step {record.step} · prompt {record.uid[:8]} · span {spread} · {record.seconds:.1f} s · {record.status}"
    of = f"{record.run} · " if record.run else ""
    return _text(of + head, "bold" if record.status == "finished" else "bold red")


def _slots(record: PromptRecord, width: int) -> Table | Text:
    """The slots, greatest success rate first as in Table 6, unknown ones last: a table where there is room for one."""
    order = sorted(range(len(record.slots)), key=lambda k: _descending(record.slots[k].success_rate))
    rows = [(f"{k}", *_cells(record.slots[k])) for k in order]
    if width < NARROW:
        return _text("\n".join("Slot {0}, subgroup {1}: {3}, mean reward {4}\n{2}".format(*row) for row in rows))
    table = Table(show_edge=False, pad_edge=False)
    for heading in ("Slot", "Subgroup", "Key idea", "Success", "Mean reward"):
        table.add_column(heading, justify="left" if heading == "Key idea" else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _cells(slot: SlotRecord) -> tuple[str, str, str, str]:
    won = _UNKNOWN if slot.successes is None else slot.successes
    reward = _UNKNOWN if slot.mean_reward is None else format(slot.mean_reward, ".2f")
    return str(slot.subgroup), _key_idea(slot.preview), f"{won}/{slot.rollouts}", reward


def _key_idea(preview: str | None) -> str:
    """The bullets under ``[KEY IDEA]``; the whole preview if it has no such header."""
    if preview is None:
        return PLAIN_PROMPT
    _, header, idea = preview.partition(IDEA)
    return (idea if header else preview).strip()


def _shortened(problem: str) -> str:
    """On one line, cut to :data:`PROBLEM_WIDTH`, without the answer-format instructions that most problems share."""
    text = " ".join(split_instructions(problem)[1].split())
    return text if len(text) <= PROBLEM_WIDTH else f"{text[: PROBLEM_WIDTH - 1].rstrip()}…"


def _text(text: str, style: str = "") -> Text:
    """Text that is shown as it is, without markup."""
    return Text(_UNPRINTABLE.sub("�", text.replace("\r\n", "\n")), style=style)

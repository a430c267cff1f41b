"""The strategy stage's JSONL in the terminal: each prompt's subgroups as in the paper's Table 6.

The log holds one object per prompt and line. Imports neither torch nor verl: it is looked at on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from subgroup_offset.jsonl import NoJSON, json_object, numbered_lines
from subgroup_offset.strategy import split_instructions
from subgroup_offset.strategy.preview import IDEA

ORDERS = ("span", "file")  #: of :func:`select`
PLAIN_PROMPT = "(plain prompt)"
PROBLEM_WIDTH = 300  #: Characters of the problem that are shown without ``raw``.
NARROW = 60  #: A terminal with fewer columns has no room for a table: slots are listed one below the other.
_UNKNOWN = "–"
# Control characters, which steer the terminal, and lone surrogates, which cannot be encoded.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class RecordError(ValueError):
    """A log that cannot be read; the message names the file, the line and what is wrong with it."""


@dataclass(frozen=True)
class SlotRecord:
    """One slot of a prompt and its rollouts."""

    subgroup: int | str
    #: The preview that conditioned the rollouts; None for the plain prompt.
    preview: str | None
    #: None where the verdicts are not known.
    successes: int | None
    rollouts: int
    #: One per rollout where known, else None.
    rewards: tuple[float | None, ...]

    @property
    def success_rate(self) -> float | None:
        """In [0, 1]; None without rollouts or verdicts."""
        return None if self.successes is None or self.rollouts < 1 else self.successes / self.rollouts

    @property
    def mean_reward(self) -> float | None:
        """Over the known rewards; None if there are none."""
        known = [reward for reward in self.rewards if reward is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class CandidateRecord:
    """One call of the strategy stage. ``slots`` has one for each preview of a selected one, None if it was too long."""

    text: str
    previews: tuple[str, ...]
    kept: bool
    slots: tuple[int | None, ...]
    reason: str


@dataclass(frozen=True)
class PromptRecord:
    """One line of the log."""

    step: int
    uid: str
    index: Any  #: the prompt's in the dataset, of whatever type it has there
    problem: str
    seconds: float  #: wall-clock of the prompt's strategy stage
    status: str  #: ``finished`` or ``failed``
    slots: tuple[SlotRecord, ...]
    candidates: tuple[CandidateRecord, ...]


def read_records(path: Path) -> list[PromptRecord]:
    """All records of a log.

    Args:
        path: a JSONL file, or a directory of ``{step}.jsonl`` files, which are read in the order of their steps.

    Returns:
        One record per line, in order. A last line without a line break that is no JSON is left out: the run is
        writing it, or was killed while it did.

    Raises:
        RecordError: for a path that is not there or holds no log, and for any other line that is no record.
    """
    return [record for file in _files(path) for record in _read_file(file)]


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
        informative: only those whose slots differ in success rate (a span above 0).
        limit: at most this many; None for all.
        order: ``span``, the greatest span first, unknown ones last, ties as in the file; or ``file``.

    Raises:
        ValueError: for another order or a negative limit.
    """
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown: use one of {', '.join(ORDERS)}.")
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit} is negative: set it to 0 or above, or to none for all prompts.")

    def wanted(record: PromptRecord) -> bool:
        spread = span(record) or 0.0
        return (
            (step is None or record.step == step)
            and (contains is None or contains.casefold() in record.problem.casefold())
            and spread >= min_span
            and (spread > 0 or not informative)
        )

    found = [record for record in records if wanted(record)]
    if order == "span":
        found.sort(key=lambda record: _descending(span(record)))
    return found[:limit]


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
    """Read, filter and print a log: ``subgroup-offset inspect``.

    Args:
        path: see :func:`read_records`.
        raw: see :func:`render`.
        console: where to print; the standard output if None.
        filters: the keyword arguments of :func:`select`.

    Returns:
        How many prompts were shown.

    Raises:
        ValueError: (:class:`RecordError` among them) with a message for the user.
    """
    console, records = console or Console(), read_records(path)
    shown = select(records, **filters)
    render(shown, console, raw)
    console.print(_text(f"{len(shown)} of {len(records)} prompts shown.", "dim"))
    return len(shown)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise RecordError(f"{path} is not there: give the strategy stage's log, a file or its directory.")
    steps = {file: int(file.stem) for file in path.glob("*.jsonl") if file.stem.isdecimal()}
    if not steps:
        raise RecordError(f"{path} holds no {{step}}.jsonl: give the directory that the strategy stage logs to.")
    return sorted(steps, key=steps.__getitem__)


def _read_file(path: Path) -> Iterator[PromptRecord]:
    for number, line in numbered_lines(path):
        try:
            yield _record(json_object(line))
        except NoJSON as error:
            if not line.endswith(b"\n"):
                return
            raise RecordError(f"{path}, line {number}: {error}. Remove or mend the line.") from error
        except (KeyError, TypeError, ValueError) as error:
            what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise RecordError(
                f"{path}, line {number}: no record of the strategy stage ({what}). Give the log that the strategy "
                "stage writes, not a rollout dump."
            ) from error


def _record(row: Mapping[str, Any]) -> PromptRecord:
    return PromptRecord(
        step=int(row["step"]),
        uid=str(row["uid"]),
        index=row["index"],
        problem=str(row["problem"]),
        seconds=float(row["seconds"]),
        status=str(row["status"]),
        slots=tuple(_slot(slot) for slot in row["slots"]),
        candidates=tuple(_candidate(candidate) for candidate in row["candidates"]),
    )


def _slot(row: Mapping[str, Any]) -> SlotRecord:
    successes = None if row["successes"] is None else int(row["successes"])
    rewards = tuple(None if reward is None else float(reward) for reward in row["rewards"])
    return SlotRecord(row["subgroup"], row["preview"], successes, int(row["rollouts"]), rewards)


def _candidate(row: Mapping[str, Any]) -> CandidateRecord:
    previews, slots = tuple(row["previews"] or ()), tuple(row["slots"] or ())
    return CandidateRecord(str(row["text"]), previews, bool(row["kept"]), slots, str(row["reason"]))


def _descending(share: float | None) -> float:
    """Sort key for shares in [0, 1]: the greatest first, unknown ones last."""
    return 1.0 if share is None else -share


def _header(record: PromptRecord) -> Text:
    spread = _UNKNOWN if (value := span(record)) is None else format(value, ".2f")
    head = f"step {record.step} · prompt {record.uid[:8]} · span {spread} · {record.seconds:.1f} s · {record.status}"
    return _text(head, "bold" if record.status == "finished" else "bold red")


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

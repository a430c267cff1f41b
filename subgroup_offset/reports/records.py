"""The strategy stage's log: one object per prompt and line, in files ``{step}.jsonl``. This is its only reader.

Imports neither torch nor verl: a log is looked at on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.files import NoJSON, json_object, numbered_lines


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
    run: str = ""  #: the name of its run, where several are looked at


@dataclass
class RecordProblems:
    """What of a log could not be used, counted."""

    unreadable: int = 0
    #: The first line that could not be read: ``FILE:LINE: why``.
    first: str = ""
    #: Rewards that are no finite number, as earlier versions wrote a tensor's. They count as unknown.
    odd_rewards: int = 0

    def texts(self) -> list[str]:
        """In words; empty if there was none."""
        found = []
        if self.unreadable:
            lines = "1 line" if self.unreadable == 1 else f"{self.unreadable} lines"
            found.append(f"{lines} could not be read: first one {self.first}")
        if self.odd_rewards:
            found.append(f"{self.odd_rewards} rewards are no finite number and count as unknown, in no mean")
        return found


def read_records(path: Path, problems: RecordProblems | None = None) -> list[PromptRecord]:
    """All records of a log.

    Args:
        path: a JSONL file, or a directory of ``{step}.jsonl`` files, which are read in the order of their steps.
        problems: lines that are no record are left out and counted here; None: the first one raises.

    Returns:
        One record per line, in order. A last line without a line break that is no JSON is left out: the run is
        writing it, or was killed while it did.

    Raises:
        RecordError: for a path that is not there or holds no log.
    """
    return [record for file in log_files(path) for record in _read_file(file, problems)]


def log_files(path: Path) -> list[Path]:
    """The file, or the directory's ``{step}.jsonl`` by step.

    Raises:
        RecordError: for a path that is not there or a directory without any.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise RecordError(f"{path} is not there: give the strategy stage's log, a file or its directory.")
    steps = {file: int(file.stem) for file in path.glob("*.jsonl") if file.stem.isdecimal()}
    if not steps:
        raise RecordError(f"{path} holds no {{step}}.jsonl: give the directory that the strategy stage logs to.")
    return sorted(steps, key=steps.__getitem__)


def _read_file(path: Path, problems: RecordProblems | None) -> Iterator[PromptRecord]:
    noted = RecordProblems() if problems is None else problems
    for number, line in numbered_lines(path):
        try:
            yield _record(json_object(line), noted)
            continue
        except NoJSON as error:
            if not line.endswith(b"\n"):
                return
            why = str(error)
        except KeyError as error:
            why = f"no record of the strategy stage (the key {error} is missing)"
        except (TypeError, ValueError, OverflowError) as error:
            why = f"no record of the strategy stage ({error})"
        if problems is None:
            raise RecordError(f"{path}:{number}: {why}. {OTHER_FILE}")
        problems.first = problems.first or f"{path}:{number}: {why}"
        problems.unreadable += 1


#: What to do about a file without any record.
OTHER_FILE = "Give the log that the strategy stage writes, not a rollout dump."


def _record(row: Mapping[str, Any], problems: RecordProblems) -> PromptRecord:
    return PromptRecord(
        step=int(row["step"]),
        uid=str(row["uid"]),
        index=row["index"],
        problem=str(row["problem"]),
        seconds=float(row["seconds"]),
        status=str(row["status"]),
        slots=tuple([_slot(slot, problems) for slot in row["slots"]]),
        candidates=tuple([_candidate(candidate) for candidate in row["candidates"]]),
    )


def _slot(row: Mapping[str, Any], problems: RecordProblems) -> SlotRecord:
    preview, successes = row["preview"], row["successes"]
    if preview is not None and not isinstance(preview, str):
        raise TypeError(f"preview is {type(preview).__name__}, no text")
    rewards = tuple([_reward(reward, problems) for reward in row["rewards"]])
    return SlotRecord(
        row["subgroup"], preview, None if successes is None else int(successes), int(row["rollouts"]), rewards
    )


def _reward(value: Any, problems: RecordProblems) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    problems.odd_rewards += value is not None
    return None


def _candidate(row: Mapping[str, Any]) -> CandidateRecord:
    previews, slots = tuple(row["previews"] or ()), tuple(row["slots"] or ())
    return CandidateRecord(str(row["text"]), previews, bool(row["kept"]), slots, str(row["reason"]))

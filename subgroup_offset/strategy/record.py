"""What the strategy stage did with a prompt, as one line of JSON (``algorithm.subgroup.strategy.data_dir``).

Written and read here alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from subgroup_offset.files import json_line
from subgroup_offset.strategy.json_lines import RecordError, Unusable, by_step, read_lines
from subgroup_offset.strategy.prompts import problem_text
from subgroup_offset.strategy.stage import CandidateRecord, SlotPlan
from subgroup_offset.strategy.subgroups import PromptRecord, SlotRecord

KIND = "record of the strategy stage"
#: A finished rollout as far as a record needs it: its slot, its reward, the verifier's verdict.
SessionOutcome = tuple[int, float | None, bool | None]


def stage_record(
    plan: SlotPlan,
    messages: Sequence[Mapping[str, Any]],
    outcomes: Iterable[SessionOutcome],
    prompt: Mapping[str, Any],
    status: str,
) -> dict[str, Any]:
    """One prompt's record.

    Args:
        plan: of the strategy stage.
        messages: the dataset's chat.
        outcomes: of the rollouts that finished.
        prompt: what identifies it: ``step``, ``uid``, ``index``.
        status: ``finished``, or ``failed`` where any rollout failed.
    """
    by_slot: list[list[SessionOutcome]] = [[] for _ in plan.previews]
    for outcome in outcomes:
        by_slot[outcome[0]].append(outcome)
    return {
        **prompt,
        "problem": problem_text(messages),
        "seconds": plan.stats.seconds_sum,
        "status": status,
        "slots": [
            {
                "subgroup": subgroup,
                "preview": preview,
                "successes": _successes(rows),
                "rollouts": len(rows),
                "rewards": [reward for _, reward, _ in rows],
            }
            for subgroup, preview, rows in zip(plan.subgroups, plan.previews, by_slot, strict=True)
        ],
        "candidates": [
            {**asdict(c), "previews": list(c.previews) or None, "kept": c.kept, "slots": list(c.slots) or None}
            for c in plan.candidates
        ],
    }


def _successes(rows: Sequence[SessionOutcome]) -> int | None:
    """How many succeeded; None where the verdict comes later, in the trainer."""
    verdicts = [success for _, _, success in rows]
    return None if None in verdicts else sum(verdicts)


class RecordWriter:
    """Writes records to ``{directory}/{step}.jsonl``; what an earlier run left for a step is replaced."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory).expanduser()
        self._begun: set[int] = set()

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records to the files of their steps."""
        lines: dict[int, list[bytes]] = {}
        for record in records:
            lines.setdefault(record["step"], []).append(json_line(record, _plain))
        for step, of_step in lines.items():
            self._directory.mkdir(parents=True, exist_ok=True)
            with (self._directory / f"{step}.jsonl").open("ab" if step in self._begun else "wb") as file:
                file.writelines(of_step)
            self._begun.add(step)


def _plain(value: Any) -> Any:
    """What JSON has no form for: a tensor's or array's one value, else its text."""
    try:
        return value.item()
    except (AttributeError, ValueError, RuntimeError):
        return str(value)


def read_records(path: Path, unusable: Unusable | None = None) -> list[PromptRecord]:
    """All records of a log.

    Args:
        path: a JSONL file, or a directory of ``{step}.jsonl`` files, which are read in the order of their steps.
        unusable: lines that are no record are left out and counted here; None: the first one raises.

    Returns:
        One record per line, in order. A last line without a line break that is no JSON is left out: the run is
        writing it, or was killed while it did.

    Raises:
        RecordError: for a path that is not there or holds no log.
    """
    return [record for file in log_files(path) for record in read_lines(file, _record, KIND, unusable)]


def log_files(path: Path) -> list[Path]:
    """The file, or the directory's ``{step}.jsonl`` by step.

    Raises:
        RecordError: for a path that is not there or a directory without any.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise RecordError(f"{path} is not there: give the strategy stage's log, a file or its directory.")
    files = list(by_step(path).values())
    if not files:
        raise RecordError(f"{path} holds no {{step}}.jsonl: give the directory that the strategy stage logs to.")
    return files


def _record(row: Mapping[str, Any], unusable: Unusable, place: str) -> PromptRecord:
    return PromptRecord(
        step=int(row["step"]),
        uid=str(row["uid"]),
        index=row["index"],
        problem=str(row["problem"]),
        seconds=float(row["seconds"]),
        status=str(row["status"]),
        slots=tuple([_slot(k, slot, unusable, place) for k, slot in enumerate(row["slots"])]),
        candidates=tuple(
            [
                CandidateRecord(str(c["text"]), tuple(c["previews"] or ()), tuple(c["slots"] or ()), str(c["reason"]))
                for c in row["candidates"]
            ]
        ),
    )


def _slot(k: int, row: Mapping[str, Any], unusable: Unusable, place: str) -> SlotRecord:
    preview, successes = row["preview"], row["successes"]
    if preview is not None and not isinstance(preview, str):
        raise TypeError(f"preview is {type(preview).__name__}, no text")
    rewards = []
    for value in row["rewards"]:
        fine = isinstance(value, int | float) and math.isfinite(value)
        if value is not None and not fine:  # as earlier versions wrote a tensor's
            unusable.add("rewards that are no finite number, which count as unknown", f"{place}: {value!r}")
        rewards.append(float(value) if fine else None)
    won = None if successes is None else int(successes)
    return SlotRecord(k, row["subgroup"], preview, won, int(row["rollouts"]), tuple(rewards))

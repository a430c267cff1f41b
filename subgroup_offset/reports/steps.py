"""The metrics that verl logged for a run, from its ``file`` logger or from tensorboard's event files.

Nothing is made up for what cannot be read: it is left out, counted, and said in the problems that come with the steps.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.cluster.launch import LoggedStep, merge_steps

EVENTS = "events.out.tfevents.*"
METRICS, EARLIER = "metrics.jsonl", "metrics.earlier.jsonl"
_SHOWN = 3


@dataclass(frozen=True)
class StepLog:
    """What a log holds: one record a step, in order, and what is wrong with it, in words."""

    steps: tuple[LoggedStep, ...]
    problems: tuple[str, ...] = ()


def read_file_log(path: Path) -> StepLog:
    """A file of verl's ``file`` logger, one ``{"step": ..., "data": {...}}`` a line, finished or still being written.

    Lines that are no such record are left out and named; so is a half-written last line. Several records of one step
    become one, the later one's values where they overlap. Values that are no finite number are left out.
    """
    merged: dict[int, dict[str, Any]] = {}
    problems, bad = [], []
    with path.open("rb") as file:  # as bytes: a text file also breaks lines where JSON does not
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            record = _record(line)
            if record is not None:
                merged.setdefault(record[0], {}).update(record[1])
            elif line.endswith(b"\n"):
                bad.append(number)
            else:
                problems.append(f"{path.name}: its last line is half-written and was left out")
    if bad:
        lines = "line " + ", ".join(map(str, bad[:_SHOWN])) + (" and others" if len(bad) > _SHOWN else "")
        problems.append(
            f"{path.name}: {len(bad)} lines ({lines}) are no record of verl's file logger and were left out"
        )
    return _checked(merged, problems, path.name)


def read_resumed_log(directory: Path) -> StepLog:
    """The steps of :class:`~subgroup_offset.cluster.launch.TrainingRun`'s directory, over as many starts as it took."""
    parts = [read_file_log(path) for name in (EARLIER, METRICS) if (path := directory / name).is_file()]
    steps: list[LoggedStep] = []
    for part in parts:
        steps = merge_steps(steps, part.steps)
    return StepLog(tuple(steps), tuple(problem for part in parts for problem in part.problems))


def read_tensorboard(directories: Iterable[Path]) -> StepLog:
    """The scalars of tensorboard's event files, read with its ``EventAccumulator``.

    verl's tags are the metrics' names. Values are 32-bit floats there. Where a resumed run logged a step again, the
    later value counts; what a crashed run logged after the step that it was resumed from is dropped by tensorboard.

    Args:
        directories: each holds the event files of one writer.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return StepLog((), ("tensorboard's event files cannot be read: the package tensorboard is not installed",))
    merged: dict[int, dict[str, Any]] = {}
    for directory in directories:
        accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})  # 0: all of them
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            for event in accumulator.Scalars(tag):
                merged.setdefault(event.step, {})[tag] = event.value
    return _checked(merged, [], "tensorboard")


def is_file_log(path: Path) -> bool:
    """Whether the first line is a record of verl's ``file`` logger."""
    try:
        with path.open("rb") as file:
            return _record(file.readline()) is not None
    except OSError:
        return False


def _record(line: bytes) -> tuple[int, Mapping[str, Any]] | None:
    try:
        row = json.loads(line)
        step, data = row["step"], row["data"]
    except (ValueError, KeyError, TypeError):
        return None
    fine = isinstance(step, int) and not isinstance(step, bool) and isinstance(data, dict)
    return (step, data) if fine else None


def _checked(merged: Mapping[int, Mapping[str, Any]], problems: list[str], name: str) -> StepLog:
    dropped: Counter[str] = Counter()
    steps = []
    for step in sorted(merged):
        metrics = {key: float(value) for key, value in merged[step].items() if _is_number(value)}
        dropped.update(key for key in merged[step] if key not in metrics)
        steps.append(LoggedStep(step, metrics))
    if dropped:
        keys = ", ".join(f"{key} at {count} steps" for key, count in dropped.most_common(_SHOWN))
        more = f" and {len(dropped) - _SHOWN} more" if len(dropped) > _SHOWN else ""
        problems = [*problems, f"{name}: values that are no finite number were left out: {keys}{more}"]
    return StepLog(tuple(steps), tuple(problems))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

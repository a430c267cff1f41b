"""The metrics that verl logged for a run, from its ``file`` logger or from tensorboard's event files.

Nothing is made up for what cannot be read: it is left out, counted, and named in the problems that come with the steps.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.launch import LoggedStep, merge_steps

EVENTS = "events.out.tfevents.*"
METRICS, EARLIER = "metrics.jsonl", "metrics.earlier.jsonl"
_SHOWN = 3
Steps = tuple[list[LoggedStep], list[str]]  #: one record a step, in order, and what is wrong with the log, in words


def read_log(paths: Sequence[Path]) -> Steps:
    """The steps of files of verl's ``file`` logger, each resumed by the next, or of directories of event files."""
    if paths[0].is_dir():
        return _read_tensorboard(paths)
    steps: list[LoggedStep] = []
    problems: list[str] = []
    for path in paths:
        found, wrong = _read_file_log(path)
        steps, problems = merge_steps(steps, found), problems + wrong
    return steps, problems


def is_file_log(path: Path) -> bool:
    """Whether the first line is a record of verl's ``file`` logger."""
    try:
        with path.open("rb") as file:
            return _record(file.readline()) is not None
    except OSError:
        return False


def _read_file_log(path: Path) -> Steps:
    """One ``{"step": ..., "data": {...}}`` a line, finished or still being written.

    Several records of one step become one, the later one's values where they overlap.
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
        what = f"{len(bad)} lines ({lines}) are no record of verl's file logger and were left out"
        problems.append(f"{path.name}: {what}")
    return _checked(merged, problems, path.name)


def _read_tensorboard(directories: Sequence[Path]) -> Steps:
    """The scalars of tensorboard's event files; each directory holds those of one writer.

    verl's tags are the metrics' names. Values are 32-bit floats there. Where a resumed run logged a step again, the
    later value counts; what a crashed run logged after the step that it was resumed from is dropped by tensorboard.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return [], ["tensorboard's event files cannot be read: the package tensorboard is not installed"]
    merged: dict[int, dict[str, Any]] = {}
    for directory in directories:
        accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})  # 0: all of them
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            for event in accumulator.Scalars(tag):
                merged.setdefault(event.step, {})[tag] = event.value
    return _checked(merged, [], "tensorboard")


def _record(line: bytes) -> tuple[int, Mapping[str, Any]] | None:
    try:
        row = json.loads(line)
        step, data = row["step"], row["data"]
    except (ValueError, KeyError, TypeError):
        return None
    fine = isinstance(step, int) and not isinstance(step, bool) and isinstance(data, dict)
    return (step, data) if fine else None


def _checked(merged: Mapping[int, Mapping[str, Any]], problems: list[str], name: str) -> Steps:
    """Without the values that are no finite number."""
    left_out: Counter[str] = Counter()
    steps = []
    for step in sorted(merged):
        metrics = {key: float(value) for key, value in merged[step].items() if _is_number(value)}
        left_out.update(merged[step].keys() - metrics.keys())
        steps.append(LoggedStep(step, metrics))
    if left_out:
        keys = ", ".join(f"{key} at {count} steps" for key, count in left_out.most_common(_SHOWN))
        more = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
        problems.append(f"{name}: values that are no finite number were left out: {keys}{more}")
    return steps, problems


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

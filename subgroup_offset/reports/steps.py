"""The metrics that verl logged for a run, from its ``file`` logger or from tensorboard's event files.

Nothing is made up for what cannot be read: it is left out, counted, and named in the problems that come with the steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgroup_offset.strategy.json_lines import RecordError, Unusable, read_lines
from subgroup_offset.text import shortened

if TYPE_CHECKING:
    import pandas as pd  # which looking for runs needs not

EVENTS = "events.out.tfevents.*"
METRICS, EARLIER = "metrics.jsonl", "metrics.earlier.jsonl"
KIND = "record of verl's file logger"
Steps = tuple["pd.DataFrame", list[str]]  #: see :func:`as_table`; and what is wrong with the log, in words


def read_log(paths: Sequence[Path]) -> Steps:
    """The steps of files of verl's ``file`` logger, each resumed by the next, or of directories of event files."""
    if paths and paths[0].is_dir():
        return _read_tensorboard(paths)
    steps, problems = as_table({}), []
    for path in paths:
        found, wrong = _read_file_log(path)
        if len(found):
            # What came after the checkpoint that was resumed from is dropped; its own step keeps the metrics of both.
            steps = found.combine_first(steps.loc[: found.index[0]]) if len(steps) else found
        problems += wrong
    return steps, problems


def as_table(steps: Mapping[int, Mapping[str, float]]) -> pd.DataFrame:
    """A row a step, in order, a column a metric; NaN where it was not logged."""
    import pandas as pd

    return pd.DataFrame.from_dict(steps, orient="index", dtype=float).sort_index()


def is_file_log(path: Path) -> bool:
    """Whether the first line is a record of verl's ``file`` logger."""
    try:
        return next(read_lines(path, _record, KIND, None), None) is not None
    except (OSError, RecordError):
        return False


def _read_file_log(path: Path) -> Steps:
    """One ``{"step": ..., "data": {...}}`` a line, finished or still being written.

    Several records of one step become one, the later one's values where they overlap.
    """
    merged: dict[int, dict[str, Any]] = {}
    unusable = Unusable()
    for step, data in read_lines(path, _record, KIND, unusable):
        merged.setdefault(step, {}).update(data)
    return _checked(merged, unusable, path.name)


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
    return _checked(merged, Unusable(), "tensorboard")


def _record(row: Mapping[str, Any], *_: Any) -> tuple[int, Mapping[str, Any]]:
    step, data = row["step"], row["data"]
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(data, dict):
        raise TypeError("it has no step, a whole number, and its data")
    return step, data


def _checked(merged: Mapping[int, Mapping[str, Any]], unusable: Unusable, name: str) -> Steps:
    """Without the values that are no finite number."""
    odd = Counter(key for data in merged.values() for key, value in data.items() if not _is_number(value))
    steps = {
        step: {key: float(value) for key, value in data.items() if _is_number(value)} for step, data in merged.items()
    }
    problems = unusable.texts()
    if odd:
        keys = ", ".join(f"{key} at {count} steps" for key, count in odd.most_common())
        problems.append(f"values that are no finite number: {shortened(keys, 200)}")
    return as_table(steps), [f"Left out of {name}: {problem}" for problem in problems]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

"""What the evaluations of runs are samples of: their ``evaluation.json``, compared as configs are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from subgroup_offset.evaluation.settings import FILE_NAME
from subgroup_offset.reports.differences import Configured, Difference, differences
from subgroup_offset.reports.locate import EVALUATION
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import Settings


def evaluation_settings(run: Run) -> Configured | None:
    """The settings of a run's evaluation by dotted key; None where there is no record of them, or none to read.

    Without the sizes and times of the checkpoint's files: what was evaluated differs between runs, not how.
    """
    if not run.evaluation:
        return None
    try:
        record = json.loads((run.directory / EVALUATION / FILE_NAME).read_text("utf-8"))
        values = {key: value for key, value in _leaves(record["settings"]) if not key.startswith("files.")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Configured(Settings(values, values), run.directory)


def evaluation_differences(runs: Sequence[Run]) -> tuple[list[Run], list[Difference]]:
    """The runs whose evaluation has a record, and in what these differ, paths inside of the runs aside."""
    found = [(run, settings) for run in runs if (settings := evaluation_settings(run)) is not None]
    compared = differences([settings for _, settings in found]) if len(found) > 1 else []
    return [run for run, _ in found], [difference for difference in compared if difference.kind != "output"]


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner

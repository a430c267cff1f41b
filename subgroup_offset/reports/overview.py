"""The runs of a report, and in which settings they differ."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.reports.blocks import Block, Box, Cell, Table, table
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.scores import evaluation_differences
from subgroup_offset.reports.settings import SUBGROUP, Difference, differences

_UNFOLDED = 40  #: Rows of a table that is shown at once.


def runs_overview(models: Sequence[ModelRuns]) -> Table:
    """What each run is and how far it is."""
    columns = ["Run", "Method", "Seed", "State", "Step", "Log", "Evaluation", "Directory"]
    rows = [
        (model.name, _overview_row(run, group.label))
        for model in models
        for group in model.groups
        for run in group.runs
    ]
    return table("The runs of this report", columns, rows, text=True)


def _overview_row(run: Run, label: str) -> list[str | Cell | None]:
    total = "?" if run.total_steps is None else run.total_steps
    step = f"{run.steps.index[-1]} of {total}" if len(run.steps) else None
    evaluation = ", ".join(path.name for path in run.evaluation) or None
    return [run.name, label, _seeds(run), run.state, step, run.log_name, evaluation, Cell(str(run.directory), "code")]


def _seeds(run: Run) -> str | None:
    """``data.seed``; after it, if it is not 0, the seed of shuffled offsets and random selection."""
    data, own = run.setting("data.seed"), run.setting(f"{SUBGROUP}.seed")
    return f"{'–' if data is None else data}{f' (subgroup {own})' if own else ''}" if run.settings else None


def difference_blocks(runs: Sequence[Run]) -> list[Block]:
    """All settings whose values are not the same in all runs; outputs and what follows from others folded away."""
    blocks = _config_blocks([run for run in runs if run.settings is not None])
    evaluated, found = evaluation_differences(runs)
    if len(evaluated) > 1:
        blocks.append(_difference_table("Settings of the evaluations that differ (evaluation.json)", found, evaluated))
    return blocks


def _config_blocks(runs: Sequence[Run]) -> list[Block]:
    if len(runs) < 2:
        return ["There are no two runs with a config to compare."]
    found = differences([run.settings for run in runs if run.settings])
    of_kind = {kind: [d for d in found if d.kind == kind and not d.derived] for kind in ("setting", "seed", "output")}
    derived = [difference for difference in found if difference.derived]
    settings = _difference_table("Settings that differ", of_kind["setting"], runs)
    if len(of_kind["setting"]) > _UNFOLDED:  # longer than anyone reads
        settings = Box(f"Settings that differ ({len(of_kind['setting'])})", [settings])
    rest = [
        _difference_table("Names and places of outputs", of_kind["output"], runs),
        _difference_table("Interpolations that follow from the differences above", derived, runs),
    ]
    blocks: list[Block] = [
        "Compared are the composed configs with interpolations resolved; settings of algorithm.subgroup that are left "
        f"out count as their defaults. (absent): the config has no such key. {len(runs)} configs compared.",
        settings,
        _difference_table("Seeds that differ", of_kind["seed"], runs),
        Box("Names, places of outputs, and settings that follow from others", rest),
    ]
    overrides = [f"{run.name}: {' '.join(run.config.overrides)}" for run in runs if run.config.overrides]
    return [*blocks, Box("The overrides that each run was started with", [overrides])] if overrides else blocks


def _difference_table(caption: str, found: Sequence[Difference], runs: Sequence[Run]) -> Table | str:
    if not found:
        return f"{caption}: none."
    rows = [("", [Cell(d.key, "code"), *(Cell(value, "code") for value in d.values)]) for d in found]
    return table(caption, ["Setting", *(run.name for run in runs)], rows, text=True)

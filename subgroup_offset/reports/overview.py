"""The runs of a report, and in which settings they differ."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.reports.differences import ABSENT, Difference, differences
from subgroup_offset.reports.evaluated import evaluation_differences
from subgroup_offset.reports.grid import NOTHING, Block, Cell, Folded, Head, Listing, Prose, Row, Table, cells
from subgroup_offset.reports.groups import ModelRuns
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import shown

_UNFOLDED = 40  #: Rows of a table that is shown at once.
#: Those shown of each run; the others are under the differences, where they differ.
_SEEDS = ("data.seed", "algorithm.subgroup.seed")


def runs_overview(models: Sequence[ModelRuns]) -> Table:
    """What each run is and how far it is."""
    rows: list[Row] = []
    for model in models:
        rows.append(Row(cells(model.name), "heading"))
        for group in model.groups:
            rows += [_overview_row(run, group.label) for run in group.runs]
    heads = ("Run", "Method", "Seed", "State", "Step", "Log", "Evaluation", "Directory")
    return Table("The runs of this report", (tuple(map(Head, heads)),), tuple(rows), text=True)


def _overview_row(run: Run, label: str) -> Row:
    total = "?" if run.total_steps is None else str(run.total_steps)
    step = NOTHING if run.last_step is None else f"{run.last_step} of {total}"
    evaluation = ", ".join(path.name for path in run.evaluation) or NOTHING
    places = (Cell(run.log.name if run.log else NOTHING), Cell(evaluation), Cell(str(run.directory), code=True))
    return Row((Cell(run.name), *cells(label, _seeds(run), run.state, step), *places))


def _seeds(run: Run) -> str:
    """``data.seed``; after it, if it is not 0, the seed of shuffled offsets and random selection."""
    if run.settings is None:
        return NOTHING
    data, own = (run.settings.get(key) for key in _SEEDS)
    return f"{NOTHING if data is None else data}{f' (subgroup {own})' if own else ''}"


def difference_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """All settings whose values are not the same in all runs; outputs and what follows from others folded away."""
    return (*_config_blocks(runs), *_evaluation_blocks(runs))


def _evaluation_blocks(runs: Sequence[Run]) -> list[Block]:
    evaluated, found = evaluation_differences(runs)
    if len(evaluated) < 2:
        return []
    return [_difference_table("Settings of the evaluations that differ (evaluation.json)", found, evaluated)]


def _config_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    known = [run for run in runs if run.configured is not None]
    if len(known) < 2:
        return (Prose("There are no two runs with a config to compare."),)
    found = differences([run.configured for run in known if run.configured is not None])
    own = [d for d in found if not d.derived]
    settings = [d for d in own if d.kind == "setting"]
    parts: list[Block] = [
        Prose(
            "Compared are the composed configs with interpolations resolved; settings of algorithm.subgroup that are "
            f"left out count as their defaults. (absent): the config has no such key. {len(known)} configs compared."
        ),
        _long(_difference_table("Settings that differ", settings, known)),
        _difference_table("Seeds that differ", [d for d in own if d.kind == "seed"], known),
    ]
    rest = (
        _difference_table("Names and places of outputs", [d for d in own if d.kind == "output"], known),
        _difference_table(
            "Interpolations that follow from the differences above", [d for d in found if d.derived], known
        ),
    )
    parts.append(Folded("Names, places of outputs, and settings that follow from others", rest))
    overrides = tuple(f"{run.name}: {' '.join(run.overrides)}" for run in known if run.overrides)
    if overrides:
        parts.append(Folded("The overrides that each run was started with", (Listing(overrides),)))
    return tuple(parts)


def _difference_table(caption: str, found: Sequence[Difference], runs: Sequence[Run]) -> Table | Prose:
    if not found:
        return Prose(f"{caption}: none.")
    rows = tuple(
        Row((Cell(difference.key, code=True), *(Cell(_text(value), code=True) for value in difference.values)))
        for difference in found
    )
    return Table(caption, ((Head("Setting"), *(Head(run.name) for run in runs)),), rows, text=True)


def _long(table: Table | Prose) -> Block:
    """Folded, where it is longer than anyone reads."""
    if isinstance(table, Prose) or len(table.rows) <= _UNFOLDED:
        return table
    return Folded(f"{table.caption} ({len(table.rows)})", (table,))


def _text(value: object) -> str:
    return repr(ABSENT) if value is ABSENT else shown(value)

"""An evaluation's outcome for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.grading import UNDECIDED
from subgroup_offset.evaluation.intervals import OVER
from subgroup_offset.evaluation.outcome import EvaluationOutcome
from subgroup_offset.evaluation.samples import MISSING, OVERALL


def print_outcome(outcome: EvaluationOutcome, console: Console) -> None:
    """Metrics with both intervals, in percent, then counts, then whatever makes them less than they seem."""
    metrics = list(dict.fromkeys(outcome.summary["metric"]))
    rows: dict[str, list[Any]] = {}
    for row in outcome.summary.to_dict("records"):
        rows.setdefault(row["benchmark"], []).extend([_percent(row["value"]), *(_interval(row, over) for over in OVER)])
    headings = [heading for metric in metrics for heading in (metric, *OVER)]
    console.print(_table("Percent, with 95% intervals over problems and over samples", headings, rows))
    replicas = outcome.replicas.counts["replicas"]
    counted = {
        name: [
            counts["samples"],
            replicas.get(name, replicas.sum()),
            counts["reasons"].get("no answer found", 0),
            Text(str(counts["ungraded"]), "bold red" if counts["ungraded"] else ""),
            "-"
            if counts["truncated"] is None
            else f"{counts['truncated']} ({counts['truncated'] / counts['samples']:.1%})",
            "-" if counts["reward_correct"] is None else counts["reward_correct"],
        ]
        for name, counts in outcome.counts.items()
    }
    headings = ["samples", "replicas", "no answer", "ungraded", "truncated", "reward right"]
    console.print(_table("Samples", headings, counted))
    for line in _warnings(outcome):
        console.print(Text(line, "bold red"), soft_wrap=True)


def _table(title: str, headings: list[str], rows: Mapping[str, list[Any]]) -> Table:
    table = Table("benchmark", title=title, title_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, cells in rows.items():
        if name == OVERALL:
            table.add_section()
        shown = (cell if isinstance(cell, Text) else str(cell) for cell in cells)
        table.add_row(name, *shown, style="bold" if name == OVERALL else None)
    return table


def _warnings(outcome: EvaluationOutcome) -> list[str]:
    lines, total = [], outcome.counts[OVERALL]
    if total["ungraded"]:
        kinds = ", ".join(f"{reason} {n}" for reason, n in total["reasons"].items() if reason in UNDECIDED)
        overall = outcome.summary[outcome.summary["benchmark"] == OVERALL]
        most = ", ".join(f"{row.metric} {_percent(row.ungraded_right)}" for row in overall.itertuples())
        lines.append(f"{total['ungraded']} UNGRADED ({kinds}), counted as wrong; were all of them right: {most}.")
        if total["reasons"].get("timeout"):
            lines.append("Timeouts can be graded again with a longer --time-limit; nothing is generated anew.")
    missing = outcome.replicas.counts[list(MISSING)].sum()
    if missing.any():
        listed = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in missing.items())
        lines.append(f"INCOMPLETE: {listed}. Metrics are of the complete replicas.")
    return lines


def _interval(row: Mapping[str, Any], over: str) -> str:
    low, high = _percent(row[f"{over}_low"]), _percent(row[f"{over}_high"])
    return "-" if "-" in (low, high) else f"{low} to {high}"


def _percent(value: float) -> str:
    return "-" if pd.isna(value) else f"{100 * value:.1f}"

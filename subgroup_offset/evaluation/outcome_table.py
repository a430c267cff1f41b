"""An evaluation's outcome for the terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.grading import UNDECIDED
from subgroup_offset.evaluation.outcome import Outcome
from subgroup_offset.evaluation.samples import MISSING, OVERALL


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Metrics with both intervals, in percent, then counts, then whatever makes them less than they seem."""
    console.print(_metrics(outcome))
    console.print(_count_table(outcome))
    for line in _warnings(outcome):
        console.print(Text(line, "bold red"), soft_wrap=True)


def _metrics(outcome: Outcome) -> Table:
    table = Table(title="Percent, with 95% intervals over problems and over samples", title_style="bold")
    table.add_column("benchmark")
    metrics = list(dict.fromkeys(outcome.summary["metric"]))
    for metric in metrics:
        for heading in (metric, "problems", "samples"):
            table.add_column(heading, justify="right")
    for name in dict.fromkeys(outcome.summary["benchmark"]):
        cells = []
        for metric in metrics:
            chosen = (outcome.summary["benchmark"] == name) & (outcome.summary["metric"] == metric)
            row = outcome.summary[chosen].iloc[0]
            cells += [_percent(row["value"]), *(_interval(row, over) for over in ("problems", "samples"))]
        if name == OVERALL:
            table.add_section()
        table.add_row(name, *cells, style="bold" if name == OVERALL else None)
    return table


def _count_table(outcome: Outcome) -> Table:
    table = Table(title="Samples", title_style="bold")
    table.add_column("benchmark")
    for heading in ("samples", "replicas", "no answer", "ungraded", "truncated", "reward right"):
        table.add_column(heading, justify="right")
    replicas = outcome.replicas.counts["replicas"]
    for name, counts in outcome.counts.items():
        if name == OVERALL:
            table.add_section()
        table.add_row(
            name,
            str(counts["samples"]),
            str(replicas.sum() if name == OVERALL else replicas[name]),
            str(counts["reasons"].get("no answer found", 0)),
            Text(str(counts["ungraded"]), "bold red" if counts["ungraded"] else ""),
            _with_share(counts["truncated"], counts["samples"]),
            "-" if counts["reward_correct"] is None else str(counts["reward_correct"]),
        )
    return table


def _warnings(outcome: Outcome) -> list[str]:
    lines, total = [], outcome.counts[OVERALL]
    if total["ungraded"]:
        kinds = ", ".join(f"{reason} {n}" for reason, n in total["reasons"].items() if reason in UNDECIDED)
        overall = outcome.summary[outcome.summary["benchmark"] == OVERALL]
        most = ", ".join(f"{row.metric} {_percent(row.ungraded_right)}" for row in overall.itertuples())
        lines.append(f"{total['ungraded']} UNGRADED ({kinds}), counted as wrong; were all of them right: {most}.")
        if total["reasons"].get("timeout"):
            lines.append("Timeouts can be graded again with a longer --time-limit; nothing is generated anew.")
    missing = outcome.replicas.counts.sum()
    if any(missing[name] for name in MISSING):
        listed = ", ".join(f"{name.replace('_', ' ')} {missing[name]}" for name in MISSING)
        lines.append(f"INCOMPLETE: {listed}. Metrics are of the complete replicas.")
    return lines


def _interval(row: pd.Series, over: str) -> str:
    low, high = row[f"{over}_low"], row[f"{over}_high"]
    return "-" if pd.isna(low) or pd.isna(high) else f"{_percent(low)} to {_percent(high)}"


def _percent(value: float) -> str:
    return "-" if pd.isna(value) else f"{100 * value:.1f}"


def _with_share(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count} ({count / total:.1%})"

"""Prints a report: a table of checks and nodes, then every finding with its fix on one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from subgroup_offset.doctor.examine import CHECKS, Report
from subgroup_offset.doctor.findings import CLUSTER, ERROR, WARNING, Cell, Finding, merged

_MARKS = {None: "[green]ok[/]", ERROR: "[red]error[/]", WARNING: "[yellow]warning[/]"}
#: Nodes side by side in one table.
_COLUMNS = 4


def show(report: Report, console: Console) -> None:
    """Print tables and findings."""
    names = list(report.cells)
    for start in range(0, len(names), _COLUMNS):
        console.print(_table(report, names[start : start + _COLUMNS]))
    _show_findings(report.findings, names, console)


def _table(report: Report, names: Sequence[str]) -> Table:
    table = Table("check", *(escape(name) for name in names))
    for check in CHECKS:
        table.add_row(check, *(_text(report.cells[name].get(check)) for name in names))
    return table


def _text(cell: Cell | None) -> str:
    return "-" if cell is None else f"{_MARKS[cell.level]} {escape(cell.text)}"


def _show_findings(findings: Sequence[Finding], names: Sequence[str], console: Console) -> None:
    """One line a finding; the same finding on several nodes is one line."""
    lines = merged(findings)
    for finding, where in lines:
        nodes = "all nodes" if len(where) > 1 and set(where) == set(names) else ", ".join(where)
        place = finding.check if finding.node == CLUSTER else f"{nodes}: {finding.check}"
        text = f"{place}: {finding.problem.rstrip('.')}. Fix: {finding.fix}"
        console.print(f"{_MARKS[finding.level]} {escape(text)}", soft_wrap=True, highlight=False)
    errors = sum(finding.level == ERROR for finding, _ in lines)
    warnings = len(lines) - errors
    console.print(f"{errors} error(s), {warnings} warning(s) on {len(names)} node(s)", highlight=False)

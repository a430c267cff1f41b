"""Measure the grading of ``subgroup-offset`` on a JSONL file of cases with a known verdict.

A case has ``id``, ``source``, ``response``, ``reference``, ``expected`` (right or wrong) and, if you like, ``why``.
An undecided verdict agrees with neither. Usage: ``measure_grading.py CASES [--show] [--workers N] [--time-limit S]``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.grading import Grader, Verdict

COLUMNS = ("agree", "false positive", "false negative", "undecided")


def outcome(verdict: Verdict, expected: str) -> str:
    """Which of :data:`COLUMNS` a verdict belongs to; ``expected`` is right or wrong."""
    if verdict.correct is None:
        return "undecided"
    if verdict.correct == (expected == "right"):
        return "agree"
    return "false positive" if verdict.correct else "false negative"


def main(
    cases: Annotated[Path, typer.Argument(help="JSONL, see above.", exists=True, dir_okay=False)],
    show: Annotated[bool, typer.Option(help="Print every case on which the verdict does not agree.")] = False,
    workers: Annotated[int, typer.Option(min=1)] = 2,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a comparison may take.")] = 10.0,
) -> None:
    """Print agreement, false positives and negatives and what stays undecided, by source."""
    console = Console()
    rows: list[dict[str, Any]] = [json.loads(line) for line in cases.read_text("utf-8").splitlines() if line.strip()]
    with Grader(workers, time_limit) as grader:
        verdicts = grader.grade([(row["response"], row["reference"]) for row in rows])
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row, verdict in zip(rows, verdicts, strict=True):
        what = outcome(verdict, row["expected"])
        for source in (row["source"], "all"):
            counts[source][what] += 1
        if show and what != "agree":
            line = f"{what}: {row['id']}: {row['response']!r} against {row['reference']!r}: {verdict.reason}"
            extracted = f", read {verdict.extracted!r}" if verdict.extracted is not None else ""
            console.print(Text(f"{line}{extracted} {verdict.detail}"))
    table = Table("source", "cases", *COLUMNS)
    for source, found in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        total = sum(found.values())
        table.add_row(source, str(total), *(f"{found[name]} ({found[name] / total:.1%})" for name in COLUMNS))
    console.print(table)
    wrong = sum(row["expected"] == "wrong" for row in rows)
    if wrong:
        false = counts["all"]["false positive"]
        console.print(f"of the {wrong} wrong answers {false} ({false / wrong:.1%}) are graded correct")


if __name__ == "__main__":
    typer.run(main)

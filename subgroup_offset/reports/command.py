"""``subgroup-offset report``; light at import, for every start of the command line reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subgroup_offset.terminal import errors_as_messages


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Directories of runs or of sweeps, or logs of verl's file logger."),
    ],
    output: Annotated[Path, typer.Option(help="Where report.html, report.md and the figures go.")] = Path(
        "outputs/report"
    ),
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "Subgroup offsets: report",
    prompts: Annotated[
        int, typer.Option(min=1, help="Prompts of each step in the subgroup browser, the most informative ones.")
    ] = 5,
    smooth: Annotated[
        float, typer.Option(min=0.0, max=0.999, help="Weight of the past in the entropy's moving average; 0: none.")
    ] = 0.8,
) -> None:
    """Write one HTML and one Markdown file about training runs: the paper's tables and curves, and what is missing.

    Works on runs in progress and on what there is of a run: its log (verl's file logger or tensorboard), its config,
    evaluation/graded.jsonl, the records of the strategy stage, the rollout dumps.
    """
    from rich.console import Console

    from subgroup_offset.reports.locate import ReportError
    from subgroup_offset.reports.write import write_report

    console = Console(highlight=False)
    with errors_as_messages(ReportError, OSError), Console(stderr=True).status("reading runs"):
        written = write_report(runs, output, title=title, prompts=prompts, smooth=smooth)
    console.print(written, soft_wrap=True, markup=False)

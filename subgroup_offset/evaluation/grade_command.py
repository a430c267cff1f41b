"""``subgroup-offset grade``: the command's options. Imports nothing heavy; ``grade_file.py`` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subgroup_offset.terminal import errors_as_messages


def grade(
    file: Annotated[Path, typer.Argument(help="JSONL of generations, such as a file of trainer.validation_data_dir.")],
    response_column: Annotated[str | None, typer.Option(help="Default: output, or response.")] = None,
    reference_column: Annotated[str | None, typer.Option(help="Default: gts, answer, or reference.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the rows here, with correct, reason, method, extracted and detail.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes for math-verify.")] = 2,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a comparison may take.")] = 10.0,
    compare: Annotated[bool, typer.Option(help="Show where the training reward (math_dapo) says otherwise.")] = False,
    show: Annotated[int, typer.Option(min=0, help="Examples of each reason, and of each kind of disagreement.")] = 0,
) -> None:
    """Grade the answers of a file of generations, and say why each is right or wrong."""
    from subgroup_offset.evaluation.grade_file import grade_file
    from subgroup_offset.evaluation.pool import PoolError

    with errors_as_messages(ValueError, OSError, PoolError):
        grade_file(
            file,
            response_column=response_column,
            reference_column=reference_column,
            output=output,
            workers=workers,
            time_limit=time_limit,
            compare=compare,
            show=show,
        )

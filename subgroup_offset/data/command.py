"""``subgroup-offset data``; light at import, for every start of the command line reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subgroup_offset.terminal import errors_as_messages


def data(
    name: Annotated[str, typer.Argument(help="dapo, aime24, aime25, aime26, hmmt25 or gsm8k.")],
    source: Annotated[
        str | None,
        typer.Option(
            help="A file (parquet, jsonl, json, csv), a directory, or a repository: owner/name or owner/name@revision."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which of several splits (gsm8k: train, test).")] = None,
    config: Annotated[str | None, typer.Option(help="Which of several configurations.")] = None,
    problem_column: Annotated[str | None, typer.Option(help="Where the problem is; a.b goes into a struct.")] = None,
    answer_column: Annotated[str | None, typer.Option(help="Where the answer is; a.b goes into a struct.")] = None,
    instruction: Annotated[
        str, typer.Option(help="dapo: DAPO's wrapper; gsm8k: verl's wording and reward of GSM8K ('#### 42').")
    ] = "dapo",
    replicas: Annotated[int, typer.Option(min=1, help="Repeat each problem (the paper's evaluation: 32).")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first problems.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Different answers to one problem are an error.")] = False,
    output: Annotated[Path, typer.Option(help="A directory, or a path that ends in .parquet.")] = Path("data"),
    token: Annotated[
        str | None, typer.Option(help="For private repositories; better in the environment as HF_TOKEN.")
    ] = None,
) -> None:
    """Write a benchmark's parquet file as verl reads it: unique problems in DAPO's wrapper, with checked answers."""
    from rich.console import Console

    from subgroup_offset.data.errors import DataError
    from subgroup_offset.data.prepare import prepare

    with errors_as_messages(DataError):
        report = prepare(
            name,
            source=source,
            split=split,
            config=config,
            problem_column=problem_column,
            answer_column=answer_column,
            instruction=instruction,
            replicas=replicas,
            limit=limit,
            strict=strict,
            output=output,
            token=token,
            progress=Console(stderr=True),
        )
    typer.echo("\n".join(report.lines))

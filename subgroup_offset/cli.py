"""The ``subgroup-offset`` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)


@app.callback()
def _root() -> None:
    """Subgroup-offset baselines for group-relative reinforcement learning on verl."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Where logs, rollouts and the plot go.")] = Path("outputs/demo"),
    method: Annotated[str, typer.Option(help="contrast, alignment, strategy_grpo or grpo.")] = "contrast",
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 8,
) -> None:
    """Train a tiny model with the paper's two-stage algorithm: real verl, vLLM and Ray, on this machine's CPU."""
    from subgroup_offset.demo import run_demo
    from subgroup_offset.launch import RunFailed

    try:
        run_demo(output, method, steps)
    except RunFailed as error:
        typer.secho(str(error), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()

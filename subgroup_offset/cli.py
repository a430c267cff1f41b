"""The ``subgroup-offset`` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from subgroup_offset.cluster.doctor import doctor
from subgroup_offset.data.command import data
from subgroup_offset.evaluation.eval_command import evaluate
from subgroup_offset.evaluation.grade_command import grade
from subgroup_offset.reports.command import report
from subgroup_offset.terminal import errors_as_messages

#: The extra that a verb needs beyond the base.
EXTRAS = {"data": "data", "demo": "cpu", "eval": "eval", "grade": "eval", "report": "report"}


class Verbs(TyperGroup):
    """The verbs; one whose extra is not installed says so."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(ctx.invoked_subcommand or "")
            if extra is None or not error.name or error.name.startswith(__package__):
                raise
            fix = f'pip install "subgroup-offset[{extra}]"'
            typer.secho(f"{error.name} is not installed: {fix}", fg=typer.colors.RED, err=True)
            raise typer.Exit(1) from None


app = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)


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
    from subgroup_offset.cluster.launch import RunFailed
    from subgroup_offset.demo import run_demo

    with errors_as_messages(RunFailed):
        run_demo(output, method, steps)


@app.command()
def inspect(
    path: Annotated[
        Path,
        typer.Argument(help="A run's directory, its algorithm.subgroup.strategy.data_dir, or a file of it."),
    ],
    step: Annotated[int | None, typer.Option(help="Only this training step.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only problems with this text.")] = None,
    min_span: Annotated[float, typer.Option(help="Only prompts whose success rates span at least this.")] = 0.0,
    informative: Annotated[bool, typer.Option(help="Only informative prompts (a span of 0.375, Figure 2).")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many prompts.")] = 5,
    order: Annotated[str, typer.Option(help="span: most informative first; file: as they were written.")] = "span",
    raw: Annotated[bool, typer.Option(help="Whole problems, and every candidate with what became of it.")] = False,
) -> None:
    """Show what the strategy stage did with its prompts, as the paper's Table 6 does."""
    from subgroup_offset.reports.inspect import run

    filters = {"step": step, "contains": contains, "min_span": min_span, "informative": informative}
    with errors_as_messages(ValueError, OSError):
        shown = run(path, raw=raw, limit=limit, order=order, **filters)
    if not shown:
        typer.echo("No prompt fits these filters.")


app.command("data")(data)
app.command("doctor")(doctor)
app.command("eval")(evaluate)
app.command("grade")(grade)
app.command("report")(report)


if __name__ == "__main__":
    app()

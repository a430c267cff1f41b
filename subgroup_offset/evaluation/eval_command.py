"""``subgroup-offset eval``: the command's options. Imports nothing heavy; ``evaluate.py`` does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from subgroup_offset.terminal import errors_as_messages

EXIT_INTERRUPTED = 130  # what shells report for Ctrl-C


def evaluate(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(help="A model's directory, a checkpoint of verl's (global_step_N), or a run's: its latest one."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Hydra overrides of verl's config: +platform=cpu, trainer.nnodes=2, ...")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Directory of everything. Of a run: its evaluation/.")] = None,
    step: Annotated[int | None, typer.Option(min=0, help="Of a run: this checkpoint instead of the latest.")] = None,
    benchmark: Annotated[
        list[str] | None, typer.Option(help="May be repeated; default: aime24, aime25, aime26 and hmmt25.")
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Where `subgroup-offset data` wrote <benchmark>.parquet.")] = Path(
        "data"
    ),
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Of each problem (the paper's and the default: 32).")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Of each replica (the paper's and the default: 16).")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.7,
    top_p: Annotated[float, typer.Option(help="Nucleus mass, in (0, 1].")] = 1.0,
    max_prompt_length: Annotated[int, typer.Option(min=1, help="Tokens; a longer prompt is an error.")] = 2048,
    max_response_length: Annotated[
        int, typer.Option(min=1, help="Tokens; longer responses are cut and counted.")
    ] = 20480,
    seed: Annotated[int, typer.Option(min=0, help="Of the engines; each start draws anew.")] = 0,
    generations: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Grade these instead: JSONL (or a directory of it) with benchmark, problem, replica, sample, "
            "response, reference.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes for symbolic equality.")] = 2,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a comparison may take.")] = 10.0,
) -> None:
    """Evaluate a checkpoint, single-stage: sample every problem with verl, grade, and compute the paper's metrics.

    It can be stopped at any time: the same command goes on with what is missing. For sizes of engines and numbers of
    nodes give the overrides of the training run (+recipe=qwen3_8b, for one).
    """
    from subgroup_offset.evaluation.evaluate import Grading, evaluate_checkpoint, evaluate_generations
    from subgroup_offset.evaluation.plan import EvaluationError
    from subgroup_offset.evaluation.pool import PoolError
    from subgroup_offset.evaluation.run_config import Sampling

    with errors_as_messages(ValueError, OSError, PoolError), _interruptible():
        grading = Grading(workers, time_limit)
        if (checkpoint is None) == (generations is None):
            raise EvaluationError("Give either a checkpoint to sample from, or generations with --from.")
        if generations is not None:
            evaluate_generations(generations, output, replicas, samples, grading)
            return
        sampling = Sampling(samples or 16, temperature, top_p, max_prompt_length, max_response_length, seed)
        evaluate_checkpoint(
            checkpoint,
            output,
            step=step,
            benchmarks=benchmark,
            data_dir=data_dir,
            replicas=replicas or 32,
            sampling=sampling,
            overrides=overrides or [],
            grading=grading,
        )


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.secho("Interrupted; finished samples are kept. The same command goes on.", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None

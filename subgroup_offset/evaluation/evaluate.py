"""What ``subgroup-offset eval`` does: generate what is missing, grade everything, print and write the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console

from subgroup_offset.cluster.processes import exclusive_lock
from subgroup_offset.evaluation.checkpoint import find_checkpoint
from subgroup_offset.evaluation.generate import Generation, generate
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.outcome import GRADED, RESULTS, Outcome, grade_samples
from subgroup_offset.evaluation.outcome_table import print_outcome
from subgroup_offset.evaluation.plan import EvaluationError, SamplingPlan
from subgroup_offset.evaluation.problems import BENCHMARKS, read_problems
from subgroup_offset.evaluation.run_config import Sampling
from subgroup_offset.evaluation.samples import Plan
from subgroup_offset.evaluation.settings import EvaluationRecord

LOCK = "evaluation.lock"


def evaluate_checkpoint(
    checkpoint: Path,
    output: Path | None,
    *,
    step: int | None = None,
    benchmarks: Sequence[str] | None = None,
    data_dir: Path = Path("data"),
    replicas: int = 32,
    sampling: Sampling | None = None,
    overrides: Sequence[str] = (),
    workers: int = 2,
    time_limit: float = 10.0,
    console: Console | None = None,
) -> Outcome:
    """Sample, grade and count.

    Args:
        checkpoint, step: see :func:`~subgroup_offset.evaluation.checkpoint.find_checkpoint`.
        output: directory of everything; None: ``evaluation`` in the run that the checkpoint was looked up in.
        benchmarks, data_dir: see :func:`~subgroup_offset.evaluation.problems.read_problems`.
        replicas: of each problem.
        sampling: how responses are sampled, and how many of each replica.
        overrides: the user's, for the verl run.
        workers, time_limit: of grading.

    Raises:
        ValueError: with a message for the user.
        KeyboardInterrupt: as :func:`~subgroup_offset.evaluation.generate.generate` does.
    """
    console, sampling = console or Console(), sampling or Sampling()
    found = find_checkpoint(checkpoint, step)
    if output is None:
        if found.run is None:
            raise EvaluationError(f"Give --output DIR: {checkpoint} is no run, in whose evaluation/ results could go.")
        output = found.run / "evaluation"
    problems = read_problems(data_dir, benchmarks or BENCHMARKS)
    plan = SamplingPlan(tuple(problems), replicas, sampling.samples)
    evaluation = Generation(found, plan, sampling, output.resolve(), tuple(overrides))
    with _locked(evaluation.directory):
        generate(evaluation, console)
        per_benchmark = Counter(problem.benchmark for problem in problems)
        return _finish(
            evaluation.samples_dir,
            evaluation.directory,
            Plan(samples=plan.samples, replicas=replicas, problems=dict(per_benchmark)),
            workers,
            time_limit,
            console,
        )


def evaluate_generations(
    generations: Path,
    output: Path | None,
    replicas: int | None = None,
    samples: int | None = None,
    workers: int = 2,
    time_limit: float = 10.0,
    console: Console | None = None,
) -> Outcome:
    """Grade and count generations made elsewhere.

    Args:
        generations: a JSONL file, or a directory of such, with the columns of
            :data:`~subgroup_offset.evaluation.generations.COLUMNS`.
        output: directory of the results.
        replicas, samples: how many there should be of each problem and of each replica; None: as many as there are.
        workers, time_limit: of grading.

    Raises:
        ValueError: with a message for the user.
    """
    console = console or Console()
    if output is None:
        raise EvaluationError("Give --output DIR: where the graded samples and the results go.")
    files = sorted(generations.glob("*.jsonl")) if generations.is_dir() else [generations]
    absent = next((file for file in files if not file.is_file()), None)
    if absent or not files:
        raise EvaluationError(f"{absent or generations / '*.jsonl'} is not there: give a JSONL file of generations.")
    settings = {
        "generations": {str(file.resolve()): [file.stat().st_size, file.stat().st_mtime_ns] for file in files},
        "replicas": replicas,
        "samples": samples,
    }
    directory = output.resolve()
    with _locked(directory):
        EvaluationRecord.open(directory, settings).save(directory)
        plan = Plan(samples=samples, replicas=replicas)
        return _finish(generations, directory, plan, workers, time_limit, console)


def _finish(
    generations: Path, directory: Path, plan: Plan, workers: int, time_limit: float, console: Console
) -> Outcome:
    outcome = grade_samples(
        read_generations(generations), directory, plan, workers=workers, time_limit=time_limit, console=console
    )
    print_outcome(outcome, console)
    console.print(f"graded samples: {directory / GRADED}\nmetrics: {directory / RESULTS}", soft_wrap=True)
    return outcome


def _locked(directory: Path) -> AbstractContextManager[object]:
    refusal = EvaluationError(f"Another evaluation runs in {directory}: wait until it ends, or give another --output.")
    return exclusive_lock(directory / LOCK, refusal)

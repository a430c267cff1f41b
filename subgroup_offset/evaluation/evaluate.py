"""What ``subgroup-offset eval`` does: sample what is missing, grade everything, print and write the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from subgroup_offset.cluster.processes import exclusive_lock
from subgroup_offset.evaluation.checkpoint import find_checkpoint
from subgroup_offset.evaluation.generate import SAMPLES, generate
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.outcome import GRADED, RESULTS, EvaluationOutcome, grade_samples
from subgroup_offset.evaluation.outcome_table import print_outcome
from subgroup_offset.evaluation.plan import EvaluationError, SamplingPlan
from subgroup_offset.evaluation.problems import BENCHMARKS, read_problems
from subgroup_offset.evaluation.run_config import Sampling
from subgroup_offset.evaluation.samples import ExpectedSamples
from subgroup_offset.evaluation.settings import EvaluationRecord


@dataclass(frozen=True)
class Grading:
    """How samples are graded: by so many processes, in so many seconds a comparison; and where that is shown."""

    workers: int = 2
    time_limit: float = 10.0
    console: Console = field(default_factory=Console)

    def __call__(self, generations: Path, directory: Path, plan: ExpectedSamples) -> EvaluationOutcome:
        """Grade the samples of a file or directory into a directory, and print what they come to."""
        samples = read_generations(generations)
        outcome = grade_samples(samples, directory, plan, self.workers, self.time_limit, self.console)
        print_outcome(outcome, self.console)
        where = f"graded samples: {directory / GRADED}\nmetrics: {directory / RESULTS}"
        self.console.print(where, soft_wrap=True)
        return outcome


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
    grading: Grading | None = None,
) -> EvaluationOutcome:
    """Sample, grade and count, with what the command's options of these names say.

    Raises:
        ValueError: with a message for the user.
        KeyboardInterrupt: as :func:`~subgroup_offset.evaluation.generate.generate` does.
    """
    sampling, grading = sampling or Sampling(), grading or Grading()
    found = find_checkpoint(checkpoint, step)
    if output is None:
        if found.run is None:
            raise EvaluationError(f"Give --output DIR: {checkpoint} is no run, in whose evaluation/ results could go.")
        output = found.run / "evaluation"
    problems = read_problems(data_dir, benchmarks or BENCHMARKS)
    plan = SamplingPlan(tuple(problems), replicas, sampling.samples)
    directory = output.resolve()
    with _locked(directory):
        generate(found, plan, sampling, directory, overrides, grading.console)
        per_benchmark = Counter(problem.benchmark for problem in problems)
        return grading(directory / SAMPLES, directory, ExpectedSamples(plan.samples, replicas, per_benchmark))


def evaluate_generations(
    generations: Path,
    output: Path | None,
    replicas: int | None = None,
    samples: int | None = None,
    grading: Grading | None = None,
) -> EvaluationOutcome:
    """Grade and count generations made elsewhere.

    ``replicas`` and ``samples`` say how many there should be; None: as many as there are.

    Raises:
        ValueError: with a message for the user.
    """
    if output is None:
        raise EvaluationError("Give --output DIR: where the graded samples and the results go.")
    files = [generations] if generations.is_file() else sorted(generations.glob("*.jsonl"))
    if not files:
        raise EvaluationError(f"{generations} is not there, or holds no *.jsonl: give a JSONL file of generations.")
    stats = {str(file.resolve()): [file.stat().st_size, file.stat().st_mtime_ns] for file in files}
    directory = output.resolve()
    with _locked(directory):
        record = EvaluationRecord.read(directory)
        record.agree({"generations": stats, "replicas": replicas, "samples": samples}, directory)
        record.save(directory)
        return (grading or Grading())(generations, directory, ExpectedSamples(samples, replicas))


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    refusal = EvaluationError(f"Another evaluation runs in {directory}: wait until it ends, or give another --output.")
    with exclusive_lock(directory / "evaluation.lock", refusal):
        yield

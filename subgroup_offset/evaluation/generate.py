"""Generate an evaluation's samples: one verl run, which only validates, over what is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from subgroup_offset.cluster.launch import RunFailed, TrainingRun
from subgroup_offset.cluster.processes import terminable
from subgroup_offset.evaluation.checkpoint import Checkpoint
from subgroup_offset.evaluation.generations import SampleCounter, read_generations
from subgroup_offset.evaluation.merge import merged, model_directory
from subgroup_offset.evaluation.plan import EvaluationError, Pending, SampleKey, SamplingPlan, verl_rows, write_rows
from subgroup_offset.evaluation.problems import content_hashes
from subgroup_offset.evaluation.progress import shown_progress
from subgroup_offset.evaluation.prompt_check import check_prompts
from subgroup_offset.evaluation.run_config import (
    Sampling,
    compose_run,
    default_settings,
    fixed_settings,
    overrides,
    shaping_settings,
)
from subgroup_offset.evaluation.settings import EvaluationRecord

SAMPLES = "samples"


@dataclass(frozen=True)
class Generation:
    """An evaluation that samples from a model."""

    checkpoint: Checkpoint
    plan: SamplingPlan
    sampling: Sampling
    #: Holds everything; all nodes of a run share it.
    directory: Path
    #: The user's, for the verl run.
    overrides: tuple[str, ...] = ()

    @property
    def samples_dir(self) -> Path:
        """Where the samples are."""
        return self.directory / SAMPLES

    def done(self) -> set[SampleKey]:
        """The samples that are there."""
        return {key for key, _ in read_generations(self.samples_dir)} if self.samples_dir.is_dir() else set()


def generate(evaluation: Generation, console: Console) -> None:
    """Generate what is missing. Ends with all samples on disk, or raises.

    Raises:
        EvaluationError: before anything is started, if something is wrong; afterwards, if the run has failed or samples
            are missing.
        KeyboardInterrupt: for Ctrl-C, SIGTERM and SIGHUP, after the run was ended.
    """
    directory, plan = evaluation.directory, evaluation.plan
    model = model_directory(evaluation.checkpoint)
    shaping = shaping_settings(_composed(evaluation, model, start=0))
    record = EvaluationRecord.open(directory, _settings(evaluation, shaping))
    pending = plan.remaining(evaluation.done())
    if not pending:
        console.print(f"All {plan.total} samples are there.", highlight=False)
        return
    missing, start = _count(pending), len(record.starts)
    if evaluation.checkpoint.sharded:
        with console.status(f"merging {evaluation.checkpoint.directory}"):
            merged(evaluation.checkpoint)
    longest = check_prompts(_composed(evaluation, model, start), plan.problems)
    console.print(
        f"{missing} of {plan.total} samples to generate from {model}; the longest prompt has {longest} tokens. "
        f"Log: {directory / 'run' / 'log.txt'}",
        highlight=False,
        soft_wrap=True,
    )
    rows = _rows_file(directory, start)
    rows.parent.mkdir(parents=True, exist_ok=True)
    write_rows(verl_rows(pending), rows)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record.starts.append({"time": now, "missing": missing, "overrides": list(evaluation.overrides)})
    record.save(directory)
    _run(evaluation, _arguments(evaluation, model, start), start, console)
    left = _count(plan.remaining(evaluation.done()))
    if left:
        shared = " None has arrived: do all nodes share the directory?" if left == missing else ""
        raise EvaluationError(
            f"verl's run has ended, and {left} samples are missing (their requests failed: see "
            f"{directory / 'run' / 'log.txt'}).{shared} The same command generates them."
        )


def _count(pending: Sequence[Pending]) -> int:
    return sum(len(item.samples) for item in pending)


def _rows_file(directory: Path, start: int) -> Path:
    return directory / "run" / f"rows-{start}.parquet"


def _composed(evaluation: Generation, model: Path, start: int) -> object:
    return compose_run(_arguments(evaluation, model, start), _fixed(evaluation, model, start))


def _fixed(evaluation: Generation, model: Path, start: int) -> dict[str, object]:
    rows = _rows_file(evaluation.directory, start)
    return fixed_settings(evaluation.sampling, start, model, rows, evaluation.samples_dir, evaluation.plan.total)


def _arguments(evaluation: Generation, model: Path, start: int) -> list[str]:
    """The user's overrides come last: they may change the defaults, and what they must not change is checked."""
    own = default_settings(evaluation.sampling) | _fixed(evaluation, model, start)
    return [*overrides(own), *evaluation.overrides]


def _settings(evaluation: Generation, shaping: dict[str, object]) -> dict[str, object]:
    checkpoint, sampling = evaluation.checkpoint, asdict(evaluation.sampling)
    return {
        "checkpoint": str(checkpoint.directory),
        "step": checkpoint.step,
        "files": checkpoint.fingerprint(),
        "benchmarks": content_hashes(evaluation.plan.problems),
        "replicas": evaluation.plan.replicas,
        **sampling,
        "verl": shaping,
    }


def _run(evaluation: Generation, arguments: Sequence[str], start: int, console: Console) -> None:
    counter = SampleCounter(evaluation.samples_dir)
    with terminable():
        run = TrainingRun(
            evaluation.directory / "run",
            ["--config-name=ppo_trainer", *arguments],
            cwd=Path.cwd(),
            resume=start > 0,
        )
        try:
            with shown_progress(console, counter.count, evaluation.plan.total):
                run.wait()
        except RunFailed as failed:
            done = f"{counter.count()} of {evaluation.plan.total} samples are there; the same command goes on."
            raise EvaluationError(f"{failed}\n{done}") from failed
        except BaseException:
            run.stop()
            raise

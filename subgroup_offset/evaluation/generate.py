"""Sample what is still missing of an evaluation: one run of ``sampler.py`` in a process of its own."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from subgroup_offset.cluster.launch import RunFailed, TrainingRun
from subgroup_offset.cluster.processes import terminable
from subgroup_offset.evaluation.checkpoint import Checkpoint
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.merge import merged, model_directory
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey, SamplingPlan, write_requests
from subgroup_offset.evaluation.problems import content_hashes
from subgroup_offset.evaluation.prompt_check import check_prompts
from subgroup_offset.evaluation.run_config import (
    Sampling,
    compose_run,
    fixed_settings,
    run_arguments,
    shaping_settings,
)
from subgroup_offset.evaluation.settings import EvaluationRecord
from subgroup_offset.progress import Rate, shown

SAMPLER = ("-m", "subgroup_offset.evaluation.sampler")


@dataclass(frozen=True)
class Generation:
    """An evaluation that samples from a model."""

    checkpoint: Checkpoint
    plan: SamplingPlan
    sampling: Sampling
    #: Holds everything.
    directory: Path
    #: The user's, for the run.
    overrides: tuple[str, ...] = ()

    @property
    def samples_dir(self) -> Path:
        """Where the samples are."""
        return self.directory / "samples"

    def remaining(self) -> list[SampleKey]:
        """The samples that are not there."""
        return self.plan.remaining({key for key, _ in read_generations(self.samples_dir)})

    def settings(self, config: Any) -> dict[str, Any]:
        """Whatever changes what the samples are, the run's config included."""
        return {
            "checkpoint": str(self.checkpoint.directory),
            "step": self.checkpoint.step,
            "files": self.checkpoint.fingerprint(),
            "benchmarks": content_hashes(self.plan.problems),
            "replicas": self.plan.replicas,
            **asdict(self.sampling),
            "verl": shaping_settings(config),
        }


def generate(evaluation: Generation, console: Console) -> None:
    """Sample what is missing. Ends with all samples on disk, or raises.

    Raises:
        EvaluationError: before anything is started, if something is wrong; afterwards, if the run has failed.
        KeyboardInterrupt: for Ctrl-C, SIGTERM and SIGHUP, after the run was ended.
    """
    directory, plan = evaluation.directory, evaluation.plan
    model = model_directory(evaluation.checkpoint)
    record = EvaluationRecord.read(directory)
    start = len(record.starts)
    requests = directory / "run" / f"requests-{start}.json"
    fixed = fixed_settings(evaluation.sampling, start, model, requests, evaluation.samples_dir)
    arguments = run_arguments(evaluation.sampling, fixed, evaluation.overrides)
    config = compose_run(arguments, fixed)
    record.agree(evaluation.settings(config), directory)
    missing = evaluation.remaining()
    if not missing:
        console.print(f"All {plan.total} samples are there.", highlight=False)
        return
    if evaluation.checkpoint.sharded:
        with console.status(f"merging {evaluation.checkpoint.directory}"):
            merged(evaluation.checkpoint)
    longest = check_prompts(config, plan.problems)
    console.print(
        f"{len(missing)} of {plan.total} samples to generate from {model}; the longest prompt has {longest} tokens. "
        f"Log: {directory / 'run' / 'log.txt'}",
        highlight=False,
        soft_wrap=True,
    )
    write_requests(requests, plan.problems, missing)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record.starts.append({"time": now, "missing": len(missing), "overrides": list(evaluation.overrides)})
    record.save(directory)
    try:
        _run(directory / "run", arguments, plan.total - len(missing), plan.total, console, resume=start > 0)
    except RunFailed as failed:
        left = len(evaluation.remaining())
        raise EvaluationError(
            f"{failed}\n{plan.total - left} of {plan.total} samples are there; the same command goes on."
        ) from failed


def _run(directory: Path, arguments: list[str], done: int, total: int, console: Console, *, resume: bool) -> None:
    """Run the sampler and show the number of samples, which it logs as verl's trainer logs steps."""
    rate = Rate()
    with terminable(), shown("samples", console) as show:
        rate.update(time.monotonic(), done)
        show(done, total, "starting Ray and the engines")
        run = TrainingRun(
            directory,
            arguments,
            program=SAMPLER,
            cwd=Path.cwd(),
            env={"VERL_FILE_LOGGER_PATH": str(directory / "metrics.jsonl")},
            resume=resume,
        )
        try:
            for step in run.follow():
                rate.update(time.monotonic(), done + step.step)
                show(done + step.step, total, rate.text(total))
        except BaseException:
            run.stop()
            raise

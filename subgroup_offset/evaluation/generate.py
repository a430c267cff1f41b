"""Sample what is still missing of an evaluation: one run of ``sampler.py`` in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from subgroup_offset.cluster.launch import RunFailed, TrainingRun
from subgroup_offset.cluster.processes import terminable
from subgroup_offset.evaluation.checkpoint import Checkpoint
from subgroup_offset.evaluation.generations import read_generations
from subgroup_offset.evaluation.merge import merged, model_directory
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey, SamplingPlan, write_requests
from subgroup_offset.evaluation.problems import content_hashes
from subgroup_offset.evaluation.prompt_check import check_prompts
from subgroup_offset.evaluation.run_config import Sampling, compose_run, fixed_settings, shaping_settings
from subgroup_offset.evaluation.settings import EvaluationRecord
from subgroup_offset.progress import Rate, shown

SAMPLES = "samples"


def generate(
    checkpoint: Checkpoint,
    plan: SamplingPlan,
    sampling: Sampling,
    directory: Path,
    overrides: Sequence[str],
    console: Console,
) -> None:
    """Sample what is missing. Ends with all samples in ``directory / SAMPLES``, or raises.

    Raises:
        EvaluationError: before anything is started, if something is wrong; afterwards, if the run has failed.
        KeyboardInterrupt: for Ctrl-C, SIGTERM and SIGHUP, after the run was ended.
    """

    def remaining() -> list[SampleKey]:
        return plan.remaining({key for key, _ in read_generations(directory / SAMPLES)})

    model, record = model_directory(checkpoint), EvaluationRecord.read(directory)
    start = len(record.starts)
    requests = directory / "run" / f"requests-{start}.json"
    fixed = fixed_settings(sampling, start, model, requests, directory / SAMPLES)
    config, arguments = compose_run(sampling, fixed, overrides)
    settings = {
        "checkpoint": str(checkpoint.directory),
        "step": checkpoint.step,
        "files": checkpoint.fingerprint(),
        "benchmarks": content_hashes(plan.problems),
        "replicas": plan.replicas,
        **asdict(sampling),
        "verl": shaping_settings(config),
    }
    record.agree(settings, directory)
    missing = remaining()
    if not missing:
        console.print(f"All {plan.total} samples are there.", highlight=False)
        return
    if checkpoint.sharded:
        with console.status(f"merging {checkpoint.directory}"):
            merged(checkpoint)
    longest = check_prompts(config, plan.problems)
    console.print(
        f"{len(missing)} of {plan.total} samples to generate from {model}; the longest prompt has {longest} tokens. "
        f"Log: {directory / 'run' / 'log.txt'}",
        highlight=False,
        soft_wrap=True,
    )
    write_requests(requests, plan.problems, missing)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record.starts.append({"time": now, "missing": len(missing), "overrides": list(overrides)})
    record.save(directory)
    failed = None
    try:
        _run(directory / "run", arguments, plan.total - len(missing), plan.total, console, resume=start > 0)
    except RunFailed as error:
        failed = error
    if left := len(remaining()):
        raise EvaluationError(
            f"{failed or 'The run has ended too early.'}\n"
            f"{plan.total - left} of {plan.total} samples are there; the same command goes on."
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
            program=("-m", "subgroup_offset.evaluation.sampler"),
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

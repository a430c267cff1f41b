"""What the Hydra launcher does: plans, checks and runs a sweep, and tells Hydra's sweeper how it went."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from subgroup_offset.launch import read_run_steps
from subgroup_offset.processes import hold
from subgroup_offset.sweep.plan import Planner
from subgroup_offset.sweep.program import task_overrides
from subgroup_offset.sweep.record import FINISHED
from subgroup_offset.sweep.runner import Entry, Runner, open_entry
from subgroup_offset.sweep.settings import SweepError, SweepSettings
from subgroup_offset.sweep.table import Progress

LOCK_NAME = "sweep.lock"
EXIT_INTERRUPTED = 130  # what shells report for Ctrl-C


class PostponedFailure(JobReturn):
    """A failed job with others to follow in later batches: Hydra's basic sweeper would end the sweep at it."""

    @property
    def return_value(self) -> Any:
        """None, without raising: the launcher raises for all failed jobs after the last batch."""
        return None


class SweepSession:
    """A sweep in this process, from its first batch of jobs to its last.

    Args:
        context: Hydra's.
        config: the sweep's composed config.
        settings: what Hydra instantiated the launcher with.

    Raises:
        SweepError: if a setting cannot be used, or another sweep runs in the same directory.
    """

    def __init__(self, context: HydraContext, config: DictConfig, settings: Mapping[str, Any]) -> None:
        self._config = config
        self._settings = SweepSettings(**{key: _plain(value) for key, value in settings.items()})
        self._planner = Planner(context.config_loader, config, self._settings)
        self._progress = Progress()
        self._runner = Runner(self._settings, self._progress)
        directory = self._planner.directory
        refusal = SweepError(
            f"Another sweep runs in {directory}: wait until it ends, or give this one another hydra.sweep.dir."
        )
        self._lock = hold(directory / LOCK_NAME, refusal)  # until this process ends, however it does
        self._entries: dict[tuple[str, ...], Entry] = {}

    def launch(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Run a batch of jobs.

        Args:
            job_overrides: the task overrides of each.
            first: number of the first.

        Raises:
            SweepError: before anything is started, if a job cannot be; after the last job of Hydra's basic sweeper, if
                any failed. For other sweepers a failed job's return raises when it is looked at.
            SystemExit: if the sweep is interrupted.
        """
        whole = _whole_sweep(self._config, job_overrides)
        self._open(whole or job_overrides, 0 if whole else first)
        batch = [self._entries[tuple(overrides)] for overrides in job_overrides]
        self._run(batch)
        returns = [_job_return(entry, self._settings.objective) for entry in batch]
        if whole is None:
            return returns
        if first + len(batch) < len(whole):
            return [_postponed(r) if r.status == JobStatus.FAILED else r for r in returns]
        self._raise_failures()
        return returns

    def _open(self, job_overrides: Sequence[Sequence[str]], first: int) -> None:
        """Plan jobs that are new, all before any of them runs."""
        new = [overrides for overrides in job_overrides if tuple(overrides) not in self._entries]
        if not new:
            return
        if not self._entries:
            self._greet(len(new))
        jobs = self._planner.plan(new, first)
        entries = [open_entry(job, self._progress.note) for job in jobs]
        for entry in entries:
            entry.save()
            self._entries[tuple(entry.job.overrides)] = entry
        if any(entry.job.save_freq <= 0 and entry.record.state != FINISHED for entry in entries):
            self._progress.note(
                "trainer.save_freq saves no checkpoints: a job that is cut off starts from its first step."
            )

    def _greet(self, jobs: int) -> None:
        self._progress.note(f"{jobs} jobs, one after another, in {self._planner.directory}")
        raw = OmegaConf.to_container(self._config.hydra.sweep, resolve=False)["dir"]
        if "${now:" in raw:
            self._progress.note(f"hydra.sweep.dir={raw} has the time in it: this sweep cannot be started again.")

    def _run(self, batch: Sequence[Entry]) -> None:
        try:
            with self._progress.shown([entry.row for entry in self._entries.values()]):
                self._runner.run(batch)
        except KeyboardInterrupt:
            self._progress.note(
                f"Interrupted; records and checkpoints are in {self._planner.directory}. "
                "The same command goes on with the sweep."
            )
            raise SystemExit(EXIT_INTERRUPTED) from None

    def _raise_failures(self) -> None:
        outcomes = [_outcome(entry, self._settings.objective) for entry in self._entries.values()]
        failed = [str(outcome) for outcome in outcomes if isinstance(outcome, SweepError)]
        if failed:
            raise SweepError("\n".join([f"{len(failed)} of {len(outcomes)} jobs failed:", *failed]))


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _whole_sweep(config: DictConfig, batch: Sequence[Sequence[str]]) -> Sequence[Sequence[str]] | None:
    """All jobs of a sweep by Hydra's basic sweeper, whose batch this is; None if the sweeper is another."""
    sweeper = config.hydra.sweeper
    if sweeper.get("_target_") != BasicSweeperConf._target_:
        return None
    if sweeper.max_batch_size is None:
        return batch
    arguments = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    arguments += task_overrides(config)
    (jobs,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(arguments), None)
    return jobs


def _job_return(entry: Entry, objective: str | None) -> JobReturn:
    job, outcome = entry.job, _outcome(entry, objective)
    failed = isinstance(outcome, SweepError)
    return JobReturn(
        overrides=job.overrides,
        cfg=job.config,
        hydra_cfg=job.hydra_config,
        working_dir=str(job.directory),
        task_name=job.hydra_config.hydra.job.name,
        status=JobStatus.FAILED if failed else JobStatus.COMPLETED,
        _return_value=outcome,
    )


def _postponed(failed: JobReturn) -> PostponedFailure:
    return PostponedFailure(**{f.name: getattr(failed, f.name) for f in dataclasses.fields(JobReturn)})


def _outcome(entry: Entry, objective: str | None) -> Any:
    """What a sweeper learns of a job: the metrics of its last step, or the objective's last value; or its failure."""
    if entry.record.state != FINISHED:
        return SweepError(entry.failure())
    steps = read_run_steps(entry.job.directory)
    if objective is None:
        return steps[-1].metrics if steps else {}
    values = [step.metrics[objective] for step in steps if step.metrics.get(objective) is not None]
    if values:
        return float(values[-1])
    logged = sorted({key for step in steps for key in step.metrics if key.startswith("val-")})
    return SweepError(
        f"{entry.job.name}: hydra.launcher.objective={objective} was never logged. Validation logged: "
        f"{', '.join(logged) or 'nothing'} ({entry.job.directory / 'metrics.jsonl'})."
    )

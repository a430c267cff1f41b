"""Sweeps: every job of a Hydra multirun as a training process of its own, one after another.

    python -m verl.trainer.main_ppo -m --config-name contrast algorithm.subgroup.lam=-0.3,0,0.3

Configs other than this package's take ``hydra/launcher=subgroup_offset``. Hydra's own launcher runs all jobs in one
process: Ray stays initialised, and ``trainer.default_local_dir`` is the same for all, so that the second job resumes
the first one's checkpoint and trains nothing.

``hydra.sweep.dir`` (by default ``outputs/sweeps/<config>/<recipe, experiment or trainer.experiment_name>``) gets a
directory for each job, named by the overrides that are swept (``lam=-0.3,seed=1``), with

- ``job.json``: its state (`job_record`),
- ``config.yaml``: the config of its last start, which a later start must not differ from,
- ``log.txt`` and ``metrics.jsonl``: of all its starts,
- ``checkpoints/`` and ``hydra/``.

Starting the same command again skips the jobs that have finished and resumes the others from their checkpoints
(``trainer.save_freq``). A job that fails does not end the sweep; the exit code is 1 if any did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeperConf
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from subgroup_offset.cluster.job_record import FAILED, FINISHED, PENDING, RUNNING, JobRecord, SweepError
from subgroup_offset.cluster.jobs import Job, current_program, plan_jobs
from subgroup_offset.cluster.launch import RunFailed, TrainingRun
from subgroup_offset.cluster.processes import exclusive_lock, terminable
from subgroup_offset.files import write_text
from subgroup_offset.text import flat

EXIT_INTERRUPTED = 130  # what shells report for Ctrl-C
_CONFIG = "config.yaml"
_COLOURS = {PENDING: "dim", RUNNING: "yellow", FINISHED: "green", FAILED: "red"}
_SHOWN = 2


def run_sweep(context: HydraContext, sweep: DictConfig, job_overrides: Sequence[Sequence[str]]) -> list[JobReturn]:
    """Plan, check and run all jobs of a sweep.

    Args:
        context: Hydra's.
        sweep: the sweep's composed config.
        job_overrides: the task overrides of each job.

    Raises:
        SweepError: before anything is started, if a job cannot be or another sweep runs in the same directory; after
            the last job, if any failed.
        SystemExit: if the sweep is interrupted.
    """
    sweeper = sweep.hydra.sweeper
    if sweeper.get("_target_") != BasicSweeperConf._target_ or sweeper.max_batch_size is not None:
        raise SweepError(
            "hydra/launcher=subgroup_offset runs whole sweeps of Hydra's basic sweeper: leave out "
            "hydra.sweeper.max_batch_size, and give another sweeper another launcher, as hydra/launcher=submitit_local."
        )
    directory = Path(str(sweep.hydra.sweep.dir)).resolve()
    other = f"Another sweep runs in {directory}: wait until it ends, or give this one another hydra.sweep.dir."
    with exclusive_lock(directory / "sweep.lock", SweepError(other)):
        display = Display()
        display.note(f"{len(job_overrides)} jobs, one after another, in {directory}")
        jobs = plan_jobs(context.config_loader, sweep, job_overrides, current_program())
        entries = [open_entry(job, display) for job in jobs]
        for entry in entries:
            entry.save()
        if any(not entry.job.saves and entry.record.state != FINISHED for entry in entries):
            display.note("trainer.save_freq saves no checkpoints: a job that is cut off starts from its first step.")
        try:
            with display.shown(entries), terminable():
                for entry in entries:
                    if entry.record.state != FINISHED:
                        _run(entry, display)
        except KeyboardInterrupt:
            display.note(
                f"Interrupted; records and checkpoints are in {directory}. The same command goes on with the sweep."
            )
            raise SystemExit(EXIT_INTERRUPTED) from None
    failed = [entry.failure() for entry in entries if entry.record.state == FAILED]
    if failed:
        raise SweepError("\n".join([f"{len(failed)} of {len(entries)} jobs failed:", *failed]))
    return [JobReturn(overrides=e.job.overrides, status=JobStatus.COMPLETED, _return_value=None) for e in entries]


@dataclass
class Entry:
    """A job, its record, and what is shown of them."""

    job: Job
    record: JobRecord
    #: An earlier start of the sweep had finished it.
    skipped: bool = False
    #: Why it failed.
    why: str = ""

    @property
    def log(self) -> Path:
        """Everything the job's process printed."""
        return self.job.directory / "log.txt"

    @property
    def state(self) -> str:
        """The state in words."""
        state = self.record.state
        if self.skipped:
            return f"{state} before"
        again = self.record.attempts > 1 and state in (RUNNING, FAILED)
        return f"{state}, start {self.record.attempts}" if again else state

    @property
    def steps(self) -> str:
        """Step of total."""
        total = self.record.total_steps
        return f"{self.record.step}/{'?' if total is None else total}"

    @property
    def validation(self) -> str:
        """The mean accuracies of the last validation, without what all their names begin with."""
        means = {k: v for k, v in self.record.validation.items() if "/mean@" in k} or self.record.validation
        parts = [f"{key.removeprefix('val-core/')} {value:.3f}" for key, value in means.items() if value is not None]
        return ", ".join(parts[:_SHOWN]) + (f", and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else "")

    def save(self) -> None:
        """Write the record into the job's directory."""
        self.record.save(self.job.directory)

    def failure(self) -> str:
        """One line about a failed job."""
        return f"{self.job.name} {self.why} at step {self.steps.replace('/', ' of ')}: {self.log}"


def open_entry(job: Job, display: Display) -> Entry:
    """The job with what an earlier start of the sweep left of it.

    Raises:
        SweepError: if it was started with another config, its process still runs, or there are checkpoints of which
            nothing is known.
    """
    record = JobRecord.load(job.directory)
    if record is None or record.attempts == 0:  # nothing binds a job that never ran to what it was to be
        if job.has_checkpoint():
            raise SweepError(
                f"{job.name}: {job.checkpoints} holds checkpoints of a run that is not part of this sweep, which verl "
                "would resume: remove them, or give another hydra.sweep.dir (or trainer.default_local_dir)."
            )
        record = job.new_record()
    else:
        _check_unchanged(job, record)
    if pid := record.running_process():
        raise SweepError(
            f"{job.name}: its process {pid} of an earlier start of the sweep, which was killed, still runs "
            f"({job.directory}): wait until it ends, or end it with `kill -INT {pid}`."
        )
    if record.state == RUNNING:
        display.note(
            f"{job.name}: its last start, on {record.host}, was cut off at step {record.step} and is taken up again."
        )
    record.overrides, record.total_steps = job.overrides, job.total_steps or record.total_steps
    return Entry(job, record, skipped=record.state == FINISHED)


def _check_unchanged(job: Job, record: JobRecord) -> None:
    def settings(text: str, made: JobRecord) -> dict[str, Any]:
        config = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
        return {"program": made.program, "checkpoints": made.checkpoints, **dict(flat(config))}

    path = job.directory / _CONFIG
    if not path.exists():
        raise SweepError(f"{path} is missing, so that nothing is known of the job there: remove its directory.")
    before, now = settings(path.read_text("utf-8"), record), settings(job.config, job.new_record())
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if changed:
        listed = [f"{key}={now.get(key)} (was {before.get(key)})" for key in changed[:_SHOWN]]
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise SweepError(
            f"{job.name} was started with another config. Now {', '.join(listed)}{more}. Give this sweep another "
            f"hydra.sweep.dir, or remove {job.directory}."
        )


def _run(entry: Entry, display: Display) -> None:
    """One start of a job, from its last checkpoint if it has any.

    Raises:
        KeyboardInterrupt: for Ctrl-C and SIGTERM, after the job was ended and its record written.
    """
    job, record = entry.job, entry.record
    write_text(job.directory / _CONFIG, job.config)
    record.start()
    entry.save()
    display.update(entry)
    resume = record.attempts > 1
    if resume:
        with entry.log.open("a", encoding="utf-8") as log:
            log.write(f"\n==== start {record.attempts}, {record.started} ====\n")
    run = TrainingRun(job.directory, job.command_line(), program=job.program, cwd=Path.cwd(), resume=resume)
    try:
        record.runs_as(run.pid)
        entry.save()
        for logged in run.follow():
            record.log(logged.step, logged.metrics)
            record.total_steps = record.total_steps or _announced_total(entry.log)
            entry.save()
            display.update(entry)
        record.end(FINISHED, run.exit_code)
    except RunFailed as failed:
        entry.why = failed.what
        record.end(FAILED, run.exit_code)
    except BaseException:
        run.stop()
        record.end(PENDING)  # exit code 0 would not mean that it is done
        raise
    finally:
        entry.save()
        display.update(entry)


def _announced_total(log: Path) -> int | None:
    """The number of steps that verl's trainer derives from its epochs and says in the log."""
    said = re.findall(rb"Total training steps: (\d+)", log.read_bytes())
    return int(said[-1]) if said else None


class Display:
    """The jobs as they go: a live table on a terminal, a line for each change elsewhere."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live: Live | None = None
        self._last: dict[str, str] = {}

    @contextmanager
    def shown(self, entries: Sequence[Entry]) -> Iterator[None]:
        """Show these jobs until the block ends."""
        if self._console.is_terminal:
            with Live(get_renderable=lambda: _table(entries), console=self._console, auto_refresh=False) as self._live:
                yield
            self._live = None
            return
        for entry in entries:
            self.update(entry)
        yield

    def update(self, entry: Entry) -> None:
        """A job has changed."""
        if self._live is not None:
            self._live.refresh()
            return
        parts = [f"{entry.job.name}: {entry.state}", f"step {entry.steps}", entry.validation]
        line = ", ".join(filter(None, parts))
        if self._last.get(entry.job.name) != line:
            self._last[entry.job.name] = line
            self.note(f"[{datetime.now():%H:%M:%S}] {line}")

    def note(self, text: str) -> None:
        """Print a line of its own."""
        self._console.print(text, markup=False, soft_wrap=True)


def _table(entries: Sequence[Entry]) -> Table:
    table = Table("job", "state", "step", "last validation")
    for entry in entries:
        state = Text(entry.state, style=_COLOURS[entry.record.state])
        table.add_row(Text(entry.job.name), state, entry.steps, Text(entry.validation))
    return table

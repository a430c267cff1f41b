"""Runs planned jobs one after another and keeps their records."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.launch import RunFailed, TrainingRun
from subgroup_offset.processes import terminable
from subgroup_offset.sweep.changes import changed_settings, save_config
from subgroup_offset.sweep.plan import Job
from subgroup_offset.sweep.record import FAILED, FINISHED, RUNNING, JobRecord
from subgroup_offset.sweep.settings import SweepError, SweepSettings
from subgroup_offset.sweep.table import Progress, Row


@dataclass
class Entry:
    """A job, its record and its row in the table."""

    job: Job
    record: JobRecord
    row: Row
    #: Why it failed.
    why: str = ""

    def save(self) -> None:
        """Write the record into the job's directory."""
        self.record.save(self.job.directory)

    @property
    def log(self) -> Path:
        """Everything the job's process printed."""
        return self.job.directory / "log.txt"

    def failure(self) -> str:
        """One line about a failed job."""
        return f"{self.job.name} {self.why} at step {self.row.progress.replace('/', ' of ')}: {self.log}"


def open_entry(job: Job, note: Callable[[str], None]) -> Entry:
    """The job with what an earlier start of the sweep left of it.

    Raises:
        SweepError: if the job's directory belongs to another job, its process still runs, or there are checkpoints
            of which nothing is known.
    """
    record = JobRecord.load(job.directory)
    unstarted = record is None or record.attempts == 0
    if unstarted and job.has_checkpoint():
        raise SweepError(
            f"{job.name}: {job.checkpoints} holds checkpoints of a run that is not part of this sweep, which verl "
            "would resume: remove them, or give another hydra.sweep.dir (or trainer.default_local_dir)."
        )
    if unstarted:
        record = new_record(job)  # nothing binds a job that never ran to what it was to be
    _check_same(job, record)
    _check_ended(job, record)
    record.total_steps = job.total_steps or record.total_steps
    if record.state == RUNNING:
        note(f"{job.name}: its last start, on {record.host}, was cut off at step {record.step} and is taken up again.")
    changed = changed_settings(job.directory, job.config)
    if changed and record.attempts:
        note(f"{job.name}: config files have changed since it was started, in {changed}; its overrides are the same.")
    return Entry(job, record, Row(job.name, record, skipped=record.state == FINISHED))


def new_record(job: Job) -> JobRecord:
    """The record of a job that was never started."""
    return JobRecord([*job.program, *job.config_name], job.overrides, str(job.checkpoints))


def _check_same(job: Job, record: JobRecord) -> None:
    now = new_record(job)
    before_has, now_has = ({*r.program, *r.overrides, f"checkpoints in {r.checkpoints}"} for r in (record, now))
    if before_has != now_has:
        raise SweepError(
            f"{job.directory} belongs to a job with other overrides. Recorded, not given now: "
            f"{_listed(before_has - now_has)}. Given now, not recorded: {_listed(now_has - before_has)}. "
            "Give this sweep another hydra.sweep.dir, or remove the directory."
        )


def _listed(settings: set[str]) -> str:
    return " ".join(sorted(settings)) or "nothing"


def _check_ended(job: Job, record: JobRecord) -> None:
    process = record.process()
    if process is not None:
        raise SweepError(
            f"{job.name}: its process {process.pid} of an earlier start of the sweep, which was killed, still runs "
            f"({job.directory}): wait until it ends, or end it with `kill -INT {process.pid}`."
        )


class Runner:
    """Runs entries; a job that fails does not keep the next from its turn."""

    def __init__(self, settings: SweepSettings, progress: Progress) -> None:
        self._settings, self._progress = settings, progress

    def run(self, entries: Sequence[Entry]) -> None:
        """Run what has not finished, in order.

        Raises:
            KeyboardInterrupt: for Ctrl-C and SIGTERM, after the running job was ended and its record written.
        """
        with terminable():
            for entry in entries:
                if entry.record.state != FINISHED:
                    self._run(entry)

    def _run(self, entry: Entry) -> None:
        for _ in range(1 + self._settings.retries):
            self._attempt(entry)
            if entry.record.state != FAILED:
                return

    def _attempt(self, entry: Entry) -> None:
        job, record = entry.job, entry.record
        record.start()
        entry.save()
        save_config(job.directory, job.config)
        self._progress.update(entry.row)
        resume = record.attempts > 1
        if resume:
            with entry.log.open("a", encoding="utf-8") as log:
                log.write(f"\n==== start {record.attempts}, {record.started} ====\n")
        run = TrainingRun(
            job.directory,
            job.command_line(),
            program=job.program,
            cwd=Path.cwd(),
            env=self._settings.env,
            resume=resume,
        )
        try:
            record.runs_as(run.pid)
            entry.save()
            for logged in run.follow(self._settings.timeout):
                record.log(logged.step, logged.metrics)
                record.total_steps = record.total_steps or _announced_total(entry.log)
                entry.save()
                self._progress.update(entry.row)
            record.end(run.exit_code, finished=True)
        except RunFailed as failed:
            entry.why = failed.what
            record.end(run.exit_code, finished=False)
        except BaseException:
            run.stop()
            record.interrupt()
            raise
        finally:
            entry.save()
            self._progress.update(entry.row)


def _announced_total(log: Path) -> int | None:
    """The number of steps that verl's trainer derives from its epochs and says in the log."""
    said = re.findall(rb"Total training steps: (\d+)", log.read_bytes())
    return int(said[-1]) if said else None

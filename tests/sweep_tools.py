"""Sweeps of ``sweep_program`` by a real ``-m`` command line, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from subgroup_offset.cluster.processes import hear_interrupts

TESTS = Path(__file__).resolve().parent
PROGRAM = "sweep_program"


class Workplace:
    """A directory to sweep in, and the files by which the jobs are told what to do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.control = root / "control"
        self.control.mkdir()
        self.sweep = root / "outputs" / "sweeps" / "tiny" / "tiny"  # config and experiment of the program

    def command(self, *overrides: str) -> list[str]:
        chosen = any(override.startswith("hydra/launcher=") for override in overrides)
        launcher = [] if chosen else ["hydra/launcher=subgroup_offset"]
        return [sys.executable, "-m", PROGRAM, "-m", *launcher, f"control={self.control}", *overrides]

    def start(self, *overrides: str, **kwargs: Any) -> subprocess.Popen:
        env = {**os.environ, "PYTHONPATH": str(TESTS)}
        kwargs = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "env": env,
            "preexec_fn": hear_interrupts,
            **kwargs,
        }
        return subprocess.Popen(self.command(*overrides), cwd=self.root, **kwargs)

    def run(self, *overrides: str) -> subprocess.CompletedProcess:
        process = self.start(*overrides)
        output, errors = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def started(self) -> list[dict[str, Any]]:
        """What the jobs' processes wrote when they started: lam, seed, the step they resumed from, pid."""
        journal = self.control / "journal"
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    def record(self, job: str) -> dict[str, Any]:
        return json.loads((self.sweep / job / "job.json").read_text())

    def tell(self, what: str) -> Path:
        """``fail-0.3`` or ``hold-0.3``, until the file is removed."""
        path = self.control / what
        path.touch()
        return path


def read_until(process: subprocess.Popen, text: str) -> list[str]:
    """The lines that a process prints, up to the first with ``text`` in it."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} was never printed: {''.join(lines)}\n{process.stderr.read()}")

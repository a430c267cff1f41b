"""Runs scripts in fresh interpreters. Sent to the nodes by value; also used on the driver's machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

_LONGEST_TAIL = 20000


def run_scripts(jobs: list[tuple[str, str, str]], timeout: float) -> dict[str, Any]:
    """Run all scripts side by side, each by this interpreter in a process of its own.

    Args:
        jobs: name, Python source and standard input of each.
        timeout: seconds after which those still running are ended.

    Returns:
        ``outputs``: name -> ``exit`` (None: ended by the timeout), ``stdout``, ``stderr`` (its end); ``clock``: the
        time on this machine when all were done.
    """
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONIOENCODING": "utf-8"}
    if environment.get("CUDA_VISIBLE_DEVICES") == "":
        # Ray hides the accelerators from a task that asks for none.
        del environment["CUDA_VISIBLE_DEVICES"]
    deadline = time.monotonic() + timeout
    running = [(name, *_start(source, text, environment)) for name, source, text in jobs]
    outputs = {name: _finish(process, files, deadline) for name, process, files in running}
    return {"outputs": outputs, "clock": time.time()}


def _start(source: str, text: str, environment: dict[str, str]) -> tuple[Any, Any]:
    # Files, not pipes: a full pipe would stop the script, and a grandchild that keeps one open would stop us.
    stdout, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (closed by _finish)
    with tempfile.TemporaryFile() as stdin:
        stdin.write(text.encode())
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
    return process, (stdout, stderr)


def _finish(process: Any, files: tuple[Any, Any], deadline: float) -> dict[str, Any]:
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(1)  # a process that hangs in a dead file system cannot be ended: it is left behind
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode("utf-8", "replace"))
        file.close()
    return {"exit": code, "stdout": texts[0], "stderr": texts[1][-_LONGEST_TAIL:]}

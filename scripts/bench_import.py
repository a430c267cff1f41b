"""What the plugin adds to ``import verl``: the same import with and without it, by turns, in fresh processes.

python scripts/bench_import.py [--rounds 9]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import Annotated

import typer

CODE = "import time; started = time.perf_counter(); import verl; print(time.perf_counter() - started)"


def seconds_to_import(plugins: str) -> float:
    """Seconds of ``import verl`` in a new process with ``VERL_USE_EXTERNAL_PLUGINS=plugins``."""
    environment = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": plugins}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main(rounds: Annotated[int, typer.Option(min=1)] = 9) -> None:
    """Print both medians, and the median of the differences of neighbouring runs."""
    seconds_to_import("none")  # fills the file cache
    pairs = [(seconds_to_import("none"), seconds_to_import("subgroup_offset")) for _ in range(rounds)]
    without, with_plugin = (statistics.median(column) for column in zip(*pairs, strict=True))
    difference = statistics.median(b - a for a, b in pairs)
    print(f"import verl: {without:.3f} s without the plugin, {with_plugin:.3f} s with it ({rounds} runs each, medians)")
    print(f"the plugin adds {1000 * difference:.0f} ms ({difference / without:+.1%})")


if __name__ == "__main__":
    typer.run(main)

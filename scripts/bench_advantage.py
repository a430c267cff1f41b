"""Time `grpo_subgroup` against verl's `grpo` and `grpo_vectorized` on the same batches, in one run.

    python scripts/bench_advantage.py [--quick]

All three get float32 rewards, an int64 mask and object arrays of ids, as verl's trainer passes them; ours decodes
labels and publishes its step metrics, verl's two get plain uids. Reported per shape: our best time, the best times of
verl's two as multiples of it, and the bytes that must move at least (rewards and mask read, result written) over our
time, as a share of the bandwidth of a large copy measured in this run. The copy writes into memory that is already
mapped; an estimator has to return a new matrix, so its pages are mapped on the way and 100% is out of reach.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import typer
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from verl.trainer.ppo import core_algos

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS

GROUPS = ((64, 8), (256, 32), (512, 16))
TOKENS = (1, 4096, 20480)
SUBGROUPS = 4


def main(quick: bool = typer.Option(False, help="Few repetitions, no 20480-token batches.")) -> None:
    torch.manual_seed(0)
    console = Console()
    bandwidth = copy_bandwidth(rounds=3 if quick else 10)
    table = Table(
        title=f"{torch.get_num_threads()} CPU threads, torch {torch.__version__}, copy {bandwidth / 1e9:.1f} GB/s"
    )
    for heading in ("rows", "tokens", "ours", "grpo / ours", "vectorized / ours", "GB/s", "of copy"):
        table.add_column(heading, justify="right")
    for tokens in TOKENS[:2] if quick else TOKENS:
        for prompts, rollouts in GROUPS:
            needed, free = peak_bytes(prompts * rollouts, tokens), available_bytes()
            if needed > 0.6 * free:
                console.print(
                    f"skipped {prompts}x{rollouts} rows of {tokens} tokens: needs {needed / 2**30:.1f} GiB, "
                    f"{free / 2**30:.1f} GiB available"
                )
                continue
            table.add_row(*measure(prompts, rollouts, tokens, bandwidth, quick))
    console.print(table)


def measure(prompts: int, rollouts: int, tokens: int, bandwidth: float, quick: bool) -> list[str]:
    """One row of the table."""
    rewards, mask, uids, labels = batch(prompts, rollouts, tokens)
    config = OmegaConf.create(
        {"adv_estimator": "grpo_subgroup", "norm_adv_by_std_in_grpo": True, "subgroup": {"lam": -0.3}}
    )
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: compute_grpo_subgroup_advantage(rewards, mask, labels, config),
        "grpo": lambda: core_algos.compute_grpo_outcome_advantage(rewards, mask, uids),
        "grpo_vectorized": lambda: core_algos.compute_grpo_vectorized_outcome_advantage(rewards, mask, uids),
    }
    rounds = (3 if quick else 6) if tokens > 1 else (50 if quick else 200)
    times = interleaved(calls, rounds)
    ours = times["ours"]
    moved = rewards.numel() * (rewards.element_size() + mask.element_size() + 4)
    rate = moved / ours
    return [
        f"{prompts}x{rollouts}",
        str(tokens),
        f"{ours * 1e3:.2f} ms",
        f"{times['grpo'] / ours:.2f}",
        f"{times['grpo_vectorized'] / ours:.2f}",
        f"{rate / 1e9:.2f}" if tokens > 1 else "-",
        f"{rate / bandwidth:.0%}" if tokens > 1 else "-",
    ]


def batch(prompts: int, rollouts: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Rewards on the last token of responses of random length, rows shuffled as load balancing leaves them."""
    shuffle = random.Random(0)
    rows = []
    for _ in range(prompts):
        uid = str(uuid.UUID(int=shuffle.getrandbits(128), version=4))
        for session in range(rollouts):
            solved = shuffle.random() < 0.4
            label = RolloutLabel(uid, session * SUBGROUPS // rollouts, session, 0, solved)
            # An object of its own per row, as what arrives from other processes is.
            rows.append(
                (uid.encode().decode(), label.encode(), float(solved), shuffle.randint(max(1, tokens // 4), tokens))
            )
    shuffle.shuffle(rows)
    uids, labels, scores, lengths = zip(*rows, strict=True)
    length = torch.tensor(lengths)
    rewards = torch.zeros(len(rows), tokens)
    rewards[torch.arange(len(rows)), length - 1] = torch.tensor(scores)
    mask = torch.zeros(len(rows), tokens, dtype=torch.int64)
    for row, end in enumerate(lengths):
        mask[row, :end] = 1
    return rewards, mask, np.array(uids, dtype=object), np.array(labels, dtype=object)


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Best seconds of each call, taken in turns: what else the machine does only ever adds to a time."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:  # the first turn warms up
                times[name].append(time.perf_counter() - start)
        STEP_METRICS.drain()
    return {name: min(values) for name, values in times.items()}


def copy_bandwidth(rounds: int, size: int = 2**28) -> float:
    """Bytes read and written per second by copying `size` bytes."""
    source, target = torch.ones(size // 4), torch.zeros(size // 4)
    best = min(interleaved({"copy": lambda: target.copy_(source)}, 1)["copy"] for _ in range(rounds))
    return 2 * size / best


def peak_bytes(rows: int, tokens: int) -> int:
    """Inputs (float32 rewards, int64 mask), a result, and the float32 copy of the mask that verl's two make."""
    return rows * tokens * (4 + 8 + 4 + 4)


def available_bytes() -> int:
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) * 1024 for line in info if line.startswith("MemAvailable"))


if __name__ == "__main__":
    typer.run(main)

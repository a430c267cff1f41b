"""Tables of graded samples for the tests of the evaluation."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from subgroup_offset.evaluation.samples import COLUMNS


def by_hand(benchmarks: dict[str, dict[str, list[str]]]) -> pd.DataFrame:
    """From one string a replica, one letter a sample: ``1`` right, ``0`` wrong, ``?`` without a verdict."""
    verdict = {"1": True, "0": False, "?": None}
    rows = [
        (benchmark, problem, r, s, verdict[letter])
        for benchmark, problems in benchmarks.items()
        for problem, replicas in problems.items()
        for r, letters in enumerate(replicas)
        for s, letter in enumerate(letters)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"correct": object})


def simulated(chances: dict[str, np.ndarray], replicas: int, samples: int, seed: int) -> pd.DataFrame:
    """Independent samples: `chances[benchmark]` (P,) is each problem's chance to be solved by one."""
    rng = np.random.default_rng(seed)
    rows = [
        (benchmark, f"{benchmark}-{i}", r, s, bool(rng.random() < chance))
        for benchmark, column in chances.items()
        for (i, chance), r, s in itertools.product(enumerate(column), range(replicas), range(samples))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))

"""Parquet files as verl's RLHFDataset reads them."""

import random
from itertools import product
from pathlib import Path

import pandas as pd

from .problems import WORDINGS, Pair, ToyProblem, split_pairs
from .prompts import messages

DATA_SOURCE = "math_dapo"  # Selects the reward function in verl.
BENCHMARK = "toy"  # `subgroup-offset eval --benchmark toy-val` reads toy-val.parquet.
TRAIN_SIZE = 1024
VAL_SIZE = 64


def _row(problem: ToyProblem, split: str, index: int) -> dict:
    return {
        "data_source": DATA_SOURCE,
        "prompt": messages(problem.text),
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
        "extra_info": {
            "benchmark": BENCHMARK,
            "id": f"{split}-{index}",
            "index": index,
            "split": split,
            "a": problem.a,
            "b": problem.b,
            "wording": problem.wording,
        },
    }


def _questions(rng: random.Random, pairs: list[Pair], size: int) -> list[ToyProblem]:
    """`size` questions; all questions over `pairs` come once before any comes again."""
    every = [ToyProblem(a, b, wording) for (a, b), wording in product(pairs, range(len(WORDINGS)))]
    chosen: list[ToyProblem] = []
    while len(chosen) < size:
        chosen += rng.sample(every, len(every))
    return chosen[:size]


def write_data(directory: Path, train_size: int = TRAIN_SIZE, val_size: int = VAL_SIZE, seed: int = 0) -> None:
    """Writes toy-train.parquet and toy-val.parquet into `directory`, over disjoint pairs of factors.

    The pairs of toy-val.parquet are held out of RL only: the warm start has seen all pairs. Raises ValueError if a
    size is not positive.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    train_pairs, val_pairs = split_pairs()
    rng = random.Random(seed)
    for split, key, pairs, size in (
        ("train", "train_size", train_pairs, train_size),
        ("val", "val_size", val_pairs, val_size),
    ):
        if size < 1:
            raise ValueError(f"{key}={size} leaves {BENCHMARK}-{split}.parquet empty; give a positive number of rows")
        rows = [_row(problem, split, i) for i, problem in enumerate(_questions(rng, pairs, size))]
        pd.DataFrame(rows).to_parquet(directory / f"{BENCHMARK}-{split}.parquet", index=False)

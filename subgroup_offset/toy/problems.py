"""Problems: the product of two small whole numbers, in a few wordings, and the results that just miss it."""

import random
from dataclasses import dataclass
from itertools import product

FACTORS = range(2, 13)
MAX_NUMBER = 200  # Every integer 0..MAX_NUMBER is one token; the largest near miss is 12 x 13 = 156.
WORDINGS = ("What is {a} times {b}?", "Multiply {a} by {b}.", "Find the product {a} x {b}.")
HELD_OUT_SHARE = 0.2
SPLIT_SEED = 2024  # A constant of the world: the split must not move with the seed of a run.

Pair = tuple[int, int]


@dataclass(frozen=True)
class ToyProblem:
    """One question: the factors and the index of its wording in WORDINGS."""

    a: int
    b: int
    wording: int

    @property
    def text(self) -> str:
        """The question as the user asks it."""
        return WORDINGS[self.wording].format(a=self.a, b=self.b)

    @property
    def answer(self) -> int:
        """The right result."""
        return self.a * self.b


def all_pairs() -> list[Pair]:
    """The 121 ordered pairs of factors, in order."""
    return list(product(FACTORS, repeat=2))


def near_misses(a: int, b: int) -> list[int]:
    """The four neighbours of a x b in the times table; none equals a x b and all lie in 0..MAX_NUMBER.

    A square has each of its two neighbours twice, which keeps the four equally likely.
    """
    return [(a - 1) * b, (a + 1) * b, a * (b - 1), a * (b + 1)]


def result_odds(a: int, b: int, success: float) -> dict[int, float]:
    """The probability of each result: the right product has `success`, the near misses share the rest."""
    odds = {a * b: success}
    for miss in near_misses(a, b):
        odds[miss] = odds.get(miss, 0.0) + (1 - success) / 4
    return odds


def sample_problem(rng: random.Random, pairs: list[Pair]) -> ToyProblem:
    """A uniformly drawn pair in a uniformly drawn wording."""
    a, b = rng.choice(pairs)
    return ToyProblem(a, b, rng.randrange(len(WORDINGS)))


def split_pairs() -> tuple[list[Pair], list[Pair]]:
    """The ordered pairs for RL training and those held out of RL for validation (about 20%).

    The split is over unordered pairs, so 7 x 8 and 8 x 7 are on the same side. The warm start sees all pairs:
    validation measures what RL on some problems does to others, not generalisation of the times table.
    """
    unordered = [(a, b) for a, b in all_pairs() if a <= b]
    held = set(random.Random(SPLIT_SEED).sample(unordered, round(HELD_OUT_SHARE * len(unordered))))
    validation = [(a, b) for a, b in all_pairs() if (min(a, b), max(a, b)) in held]
    training = [(a, b) for a, b in all_pairs() if (min(a, b), max(a, b)) not in held]
    return training, validation

"""Two runs on the same problems: differences per problem, and two tests over problems.

Problems differ far more from each other than runs do, so runs are compared inside problems. Both tests take a problem
as one observation, d = (second run) - (first run), each a mean over the run's replicas:

- The sign-flip permutation test asks how often random signs give a mean difference as large as the one seen. Its null
  hypothesis is that the two runs are exchangeable on every problem, hence that each d is as likely as -d.
- The sign test uses only which run is ahead on each problem. It needs less and sees less.

A small p says that the two *checkpoints* differ on such problems. It does not say that another training seed would show
the same. P-values are not adjusted for the number of benchmarks and metrics looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from subgroup_offset.evaluation.intervals import ReplicaValues
from subgroup_offset.evaluation.passk import replica_pass
from subgroup_offset.evaluation.samples import Replicas, SamplesError

EXACT_UP_TO = 20
"""Differences other than 0 up to which all 2^m signs are enumerated (a million); above, signs are drawn."""

# Means of equal counts can differ in the last bits; real differences are at least 1 / (replicas * samples).
_TIE = 1e-12
_ROWS = 10_000


class PermutationTest(NamedTuple):
    """Two-sided p-value, of all signs (`exact`) or of drawn ones."""

    p: float
    exact: bool


class SignTest(NamedTuple):
    """Problems on which the second run is ahead, behind and level, and the two-sided p-value."""

    ahead: int
    behind: int
    level: int
    p: float


def check_comparable(first: Replicas, second: Replicas, names: Sequence[str] = ("first", "second")) -> None:
    """Refuse two runs that cannot be paired.

    Runs may differ in their numbers of replicas, but not in samples per replica, which is the k of pass@k, nor in
    problems.

    Raises:
        SamplesError: naming what differs.
    """
    if first.samples != second.samples:
        raise SamplesError(
            f"replicas of {names[0]} have {first.samples} samples and those of {names[1]} {second.samples}: pass@"
            f"{first.samples} and pass@{second.samples} are different quantities. Evaluate both with one number."
        )
    keys = [run.table.index.droplevel(2).unique() for run in (first, second)]
    for name, other, only in ((*names, keys[0].difference(keys[1])), (*reversed(names), keys[1].difference(keys[0]))):
        if len(only):
            raise SamplesError(
                f"{len(only)} problems have complete replicas in {name} only, not in {other}: "
                f"{', '.join(map('/'.join, only))}. Finish that run, or remove the problems from both tables."
            )


def run_values(run: Replicas, benchmark: str, *, ungraded_right: bool = False) -> ReplicaValues:
    """pass@1 and pass@S of a benchmark's replicas; samples without a verdict are wrong unless `ungraded_right`."""
    right, sizes = run.stack(benchmark, ungraded_right=ungraded_right)
    return ReplicaValues(replica_pass(right, run.samples), sizes)


def sign_flip_test(
    differences: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    draws: int = 100_000,
    seed: int = 0,
    exact_up_to: int = EXACT_UP_TO,
) -> PermutationTest:
    """Two-sided sign-flip permutation test of a (weighted) mean of differences.

    Exact where at most `exact_up_to` differences are other than 0 (flipping a 0 changes nothing). Otherwise signs are
    drawn, and p = (1 + as large) / (1 + draws), which keeps the level for any number of draws and is never 0.

    Args:
        differences: (P,) one per problem.
        weights: (P,) positive; None: equal. For a mean over benchmarks, 1 / problems of the benchmark.
        draws: of the Monte Carlo version.
        seed: of the Monte Carlo version.
        exact_up_to: see above.
    """
    differences = np.asarray(differences, dtype=np.float64)
    weights = np.ones_like(differences) if weights is None else np.asarray(weights, dtype=np.float64)
    terms = (differences * weights)[np.abs(differences) > _TIE]
    # Sums of the same terms in another order differ in the last bits; they must count as equally large.
    threshold = abs(terms.sum()) - 1e-10 * np.abs(terms).sum()
    if len(terms) <= exact_up_to:
        sums = np.zeros(1)
        for term in terms:
            sums = np.concatenate([sums + term, sums - term])
        return PermutationTest(float((np.abs(sums) >= threshold).mean()), True)
    rng = np.random.default_rng(seed)
    large = 0
    for start in range(0, draws, _ROWS):
        flips = rng.integers(0, 2, size=(min(_ROWS, draws - start), len(terms)), dtype=np.int8)
        large += int((np.abs((2.0 * flips - 1.0) @ terms) >= threshold).sum())
    return PermutationTest((1 + large) / (1 + draws), False)


def sign_test(differences: np.ndarray) -> SignTest:
    """Two-sided exact sign test: the binomial distribution of 1/2 over the problems that are not level."""
    differences = np.asarray(differences, dtype=np.float64)
    ahead, behind = int((differences > _TIE).sum()), int((differences < -_TIE).sum())
    p = binomtest(ahead, ahead + behind).pvalue if ahead + behind else 1.0
    return SignTest(ahead, behind, len(differences) - ahead - behind, float(p))

"""pass@1, pass@S and pass@k, and how they differ from what verl logs.

Three quantities go by similar names, for a problem with n samples of which c are right:

- The paper's pass@1 and pass@16 ("Evaluation Details"): the mean over the 16 samples of a replica, and whether any of
  the 16 is right; both averaged over the replicas and the problems (`replica_pass`).
- The unbiased pass@k (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"): the chance that k of the n
  samples, drawn without replacement, hold a right one, 1 - C(n-c, k) / C(n, k) (`pass_at_k`). Over all samples of a
  problem it estimates the same quantity as the paper's pass@16, with less noise, because it averages over every way to
  put the samples into replicas and not over the one way in which they came.
- verl's `best@N/mean` (`process_validation_metrics`) is neither. There, all values of one uid are one prompt. For N =
  2, 4, 8, ... below their number n, and N = n, verl draws N of them with replacement, 1000 times with the fixed seed
  42, averages the largest value over the draws, and then over prompts. For verdicts of 0 and 1 this tends to
  1 - (1 - c/n)^N. At N = n = 16 with one right sample it is 1 - (15/16)^16 = 0.644, where the paper's pass@16 is 1.
  `best@N/std` is the standard deviation over the draws, averaged over prompts, and no error of the mean. Values of None
  are left out before, except that for `acc` the sessions that the trainer expected and that failed count as 0; a prompt
  with another n logs under another N. Replicas that are rows of their own in the validation data have uids of their
  own, and are prompts there. `mean@n` agrees with pass@1 where every prompt has n values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def replica_metrics(samples: int) -> tuple[str, ...]:
    """Names of what `replica_pass` gives for replicas of S samples: pass@1 and pass@S (one name where S is 1)."""
    return tuple(f"pass@{k}" for k in dict.fromkeys((1, samples)))


def replica_pass(right: np.ndarray, samples: int) -> np.ndarray:
    """pass@1 and pass@S of each replica.

    Args:
        right: (...,) how many of a replica's samples are right.
        samples: S, how many samples each replica has.

    Returns:
        (..., M) in [0, 1], the M values of `replica_metrics`.
    """
    right = np.asarray(right)
    both = np.stack([right / samples, (right > 0).astype(np.float64)], axis=-1)
    return both[..., : len(replica_metrics(samples))]


def pass_at_k(
    n: Sequence[int] | np.ndarray, c: Sequence[int] | np.ndarray, k: Sequence[int] | np.ndarray
) -> np.ndarray:
    """The unbiased pass@k of each problem, for several k at once.

    Args:
        n: (P,) samples of each problem.
        c: (P,) right ones among them.
        k: (K,) numbers of samples to draw, each from 1 to the smallest n.

    Returns:
        (P, K) in [0, 1], never falling in k: exactly 0 where c is 0 and exactly 1 where fewer than k are wrong.

    Raises:
        ValueError: for c outside [0, n], k below 1 or above some n, or values that are no whole numbers.
    """
    n, c, k = (_whole(name, values) for name, values in (("n", n), ("c", c), ("k", k)))
    if n.shape != c.shape:
        raise ValueError(f"n has {n.size} problems and c has {c.size}: give one of each per problem.")
    if ((c < 0) | (c > n)).any():
        i = int(((c < 0) | (c > n)).argmax())
        raise ValueError(f"problem {i} has c={c[i]} right of n={n[i]} samples: c must be from 0 to n.")
    if not k.size or not n.size:
        return np.zeros((n.size, k.size))
    if k.min() < 1:
        raise ValueError(f"k={k.min()}: pass@k needs k of 1 or more.")
    if k.max() > n.min():
        raise ValueError(
            f"k={k.max()} is more than the n={n.min()} samples of problem {int(n.argmin())}: pass@k draws k of the n "
            f"without replacement. Set k to at most {n.min()}, or take more samples."
        )
    # Factor j is the chance that draw j is wrong after j wrong ones. Binomials of 512 overflow; this product does not.
    j = np.arange(k.max())
    wrong = np.clip(n[:, None] - c[:, None] - j, 0, None) / (n[:, None] - j)
    return 1.0 - np.cumprod(wrong, axis=1)[:, k - 1]


def _whole(name: str, values: Sequence[int] | np.ndarray) -> np.ndarray:
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: give a flat sequence of whole numbers.")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}={array[:3].tolist()}... is of {array.dtype}: give whole numbers.")
    return array.astype(np.int64)

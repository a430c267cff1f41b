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


def pass_at_k(n: np.ndarray, c: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The unbiased pass@k of each problem, for several k at once.

    Args:
        n: (P,) samples of each problem.
        c: (P,) right ones among them, from 0 to n.
        k: (K,) numbers of samples to draw.

    Returns:
        (P, K) in [0, 1], never falling in k: exactly 0 where c is 0 and exactly 1 where fewer than k are wrong.

    Raises:
        ValueError: for k below 1 or above some n.
    """
    n, c, k = (np.asarray(values, dtype=np.int64) for values in (n, c, k))
    if k.min() < 1 or k.max() > n.min():
        raise ValueError(f"k={k.tolist()}: pass@k draws k of n without replacement, here 1 to {n.min()}.")
    # Factor j is the chance that draw j is wrong after j wrong ones. Binomials of 512 overflow; this product does not.
    j = np.arange(k.max())
    wrong = np.clip(n[:, None] - c[:, None] - j, 0, None) / (n[:, None] - j)
    return 1.0 - np.cumprod(wrong, axis=1)[:, k - 1]

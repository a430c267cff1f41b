"""Which of the usable previews become the K strategies of a prompt."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import combinations

_WORD = re.compile(r"\w+")


def words(text: str) -> frozenset[str]:
    """The lower-cased words of a text. Splitting at ``\\w+`` is our choice: the paper only says "word-set"."""
    return frozenset(_WORD.findall(text.lower()))


def jaccard_distance(a: str, b: str) -> float:
    """1 - |A & B| / |A | B| over the word sets of two texts, in [0, 1]; 0 for two texts without words."""
    return _set_distance(words(a), words(b))


def mean_pairwise_distance(previews: Sequence[str]) -> float | None:
    """Mean Jaccard distance over all pairs of previews; None for fewer than two."""
    if len(previews) < 2:
        return None
    sets = [words(p) for p in previews]
    pairs = list(combinations(sets, 2))
    return sum(_set_distance(a, b) for a, b in pairs) / len(pairs)


def select_previews(previews: Sequence[str], k: int, method: str = "diverse", seed: int = 0) -> list[int]:
    """Indices of the previews to keep, at most ``k``, in the order in which they were chosen.

    ``diverse`` (paper, appendix "Diversity-based selection") greedily maximises the pairwise word-set Jaccard
    distance. The paper leaves the start and the greedy criterion open; ours: the two farthest previews first, then
    again and again the one whose summed distance to those kept is largest, ties to the lower index. It is
    deterministic. ``random`` (Table 4) draws uniformly without replacement, reproducibly in ``seed``.

    Args:
        previews: extracted previews.
        k: how many to keep, at least 1. With ``k`` or fewer previews all are kept, in their order.
        method: ``diverse`` or ``random``.
        seed: of ``random``.

    Raises:
        ValueError: for an unknown method or ``k`` below 1.
    """
    if k < 1:
        raise ValueError(f"k={k} keeps no preview: set it to 1 or above.")
    if method not in ("diverse", "random"):
        raise ValueError(f"method={method!r} is unknown: use 'diverse' or 'random'.")
    if len(previews) <= k:
        return list(range(len(previews)))
    if method == "random":
        return random.Random(seed).sample(range(len(previews)), k)
    return _greedy([words(p) for p in previews], k)


def _greedy(sets: list[frozenset[str]], k: int) -> list[int]:
    distance = [[_set_distance(a, b) for b in sets] for a in sets]
    count = len(sets)
    if k == 1:
        return [max(range(count), key=lambda i: (sum(distance[i]), -i))]
    chosen = list(max(combinations(range(count), 2), key=lambda p: (distance[p[0]][p[1]], -p[0], -p[1])))
    while len(chosen) < k:
        rest = (i for i in range(count) if i not in chosen)
        chosen.append(max(rest, key=lambda i: (sum(distance[i][j] for j in chosen), -i)))
    return chosen


def _set_distance(a: frozenset[str], b: frozenset[str]) -> float:
    union = len(a | b)
    return 1.0 - len(a & b) / union if union else 0.0

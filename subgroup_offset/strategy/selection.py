"""Which of the usable previews become the K strategies of a prompt."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

# Scripts written without spaces count by the character; all else by runs of letters, digits and underscores.
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

Words = frozenset[str]


def words(text: str) -> Words:
    """The lower-cased words of a text; Chinese and Japanese characters are words of their own.

    The paper only says "word-set": what a word is, and that a preview's headers count like all its text, is ours.
    """
    return frozenset(_WORD.findall(text.lower()))


def jaccard_distance(a: str, b: str) -> float:
    """1 - |A & B| / |A | B| over the word sets of two texts, in [0, 1]; 0 for two texts without words."""
    return float(_set_distance(words(a), words(b)))


def mean_pairwise_distance(previews: Sequence[str]) -> float | None:
    """Mean Jaccard distance over all pairs of previews; None for fewer than two."""
    if len(previews) < 2:
        return None
    distances = [_set_distance(a, b) for a, b in combinations([words(p) for p in previews], 2)]
    return float(sum(distances) / len(distances))


def select_previews(previews: Sequence[str], k: int, method: str = "diverse", seed: int = 0) -> list[int]:
    """Indices of the previews to keep, at most ``k``, in the order in which they were chosen.

    ``diverse`` (paper, appendix "Diversity-based selection") greedily maximises the pairwise word-set Jaccard
    distance. ``random`` (Table 4) draws uniformly without replacement, reproducibly in ``seed``.

    The paper leaves open how the greedy search starts, what it adds up and how ties end. Ours: the two farthest
    previews first, then again and again the one whose summed distance to those kept is largest; for ``k=1`` the one
    whose summed distance to all is largest; ties to the lower index. Distances are compared as exact fractions, so
    that rounding decides nothing.

    Args:
        previews: extracted previews.
        k: how many to keep, at least 1. With ``k`` or fewer previews all are kept, in their order.
        method: ``diverse`` or ``random``.
        seed: of ``random``.

    Raises:
        ValueError: for an unknown method or ``k`` below 1.
    """
    return _select([(words(p),) for p in previews], k, method, seed)


def select_pairs(pairs: Sequence[tuple[str, str]], k: int, method: str = "diverse", seed: int = 0) -> list[int]:
    """Indices of the pairs to keep in paired sampling, at most ``k``, in the order in which they were chosen.

    The criterion of :func:`select_previews` with pairs as the units. The paper does not say how it selects pairs;
    ours: two pairs are as far apart as the distances among their four previews sum up to, those between the halves of
    one pair included, so that two equal halves count against a pair just as two equal pairs do. First the two
    farthest pairs, then again and again the pair that adds most to that sum; for ``k=1`` the pair whose halves are
    farthest apart, then the one farthest from all others; ties to the lower index.

    Args:
        pairs: the two extracted previews of each usable call.
        k: how many pairs to keep, at least 1 (K/2 for K strategies).
        method: ``diverse`` or ``random``.
        seed: of ``random``.

    Raises:
        ValueError: for an unknown method or ``k`` below 1.
    """
    return _select([(words(a), words(b)) for a, b in pairs], k, method, seed)


def _select(units: Sequence[tuple[Words, ...]], k: int, method: str, seed: int) -> list[int]:
    if k < 1:
        raise ValueError(f"k={k} keeps no preview: set it to 1 or above.")
    if method not in ("diverse", "random"):
        raise ValueError(f"method={method!r} is unknown: use 'diverse' or 'random'.")
    if len(units) <= k:
        return list(range(len(units)))
    if method == "random":
        return random.Random(seed).sample(range(len(units)), k)
    return _greedy(units, k)


def _greedy(units: Sequence[tuple[Words, ...]], k: int) -> list[int]:
    """Greedy maximum of the distances among all texts of the kept units; a unit is one preview or a pair."""
    count = len(units)
    inside = [sum((_set_distance(a, b) for a, b in combinations(unit, 2)), Fraction()) for unit in units]
    between = [[Fraction()] * count for _ in units]
    for i, j in combinations(range(count), 2):
        distance = sum((_set_distance(a, b) for a in units[i] for b in units[j]), Fraction())
        between[i][j] = between[j][i] = distance
    if k == 1:
        return [max(range(count), key=lambda i: (inside[i], sum(between[i]), -i))]
    farthest = max(
        combinations(range(count), 2), key=lambda p: (inside[p[0]] + inside[p[1]] + between[p[0]][p[1]], -p[0], -p[1])
    )
    chosen = list(farthest)
    while len(chosen) < k:
        rest = (i for i in range(count) if i not in chosen)
        chosen.append(max(rest, key=lambda i: (inside[i] + sum(between[i][j] for j in chosen), -i)))
    return chosen


def _set_distance(a: Words, b: Words) -> Fraction:
    union = len(a | b)
    return Fraction(len(a ^ b), union) if union else Fraction()

"""Selection of the K strategies (paper, appendix "Diversity-based selection")."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.strategy import jaccard_distance, select_pairs, select_previews
from subgroup_offset.strategy.selection import mean_pairwise_distance

TEXTS = st.lists(st.text("abc ", max_size=8), min_size=1, max_size=7)
PAIRS = st.lists(st.tuples(st.text("abc ", max_size=6), st.text("abc ", max_size=6)), min_size=1, max_size=6)


def exact(a: str, b: str) -> Fraction:
    """The distance once more, from its definition, so that the criterion is checked against another writing of it."""
    union = set(a.split()) | set(b.split())
    return 1 - Fraction(len(set(a.split()) & set(b.split())), len(union)) if union else Fraction(0)


def spread(units) -> Fraction:
    """Sum of the distances among all texts of some units (tuples of texts)."""
    return sum((exact(a, b) for a, b in combinations([text for unit in units for text in unit], 2)), Fraction(0))


def assert_greedy(units, chosen):
    """Each step added a unit that no other one beats, and no equal one with a lower index; the first two at once."""
    best = max(combinations(range(len(units)), 2), key=lambda p: (spread(units[i] for i in p), [-i for i in p]))
    assert tuple(chosen[:2]) == best
    for step in range(2, len(chosen)):
        kept = chosen[:step]
        rest = [i for i in range(len(units)) if i not in kept]
        assert chosen[step] == max(rest, key=lambda i: (spread(units[j] for j in [*kept, i]), -i))


def test_distance_by_hand():
    assert jaccard_distance("use symmetry", "use coordinates") == pytest.approx(2 / 3)
    assert jaccard_distance("Use, symmetry!", "symmetry use") == 0
    assert jaccard_distance("a", "b") == 1
    assert jaccard_distance("", "...") == 0
    assert jaccard_distance("利用对称性", "利用坐标") == pytest.approx(5 / 7)  # 2 of 7 characters in common
    assert mean_pairwise_distance(["a b", "a c", "d"]) == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert mean_pairwise_distance(["a"]) is None


def test_diverse_by_hand():
    # 0 and 2 are the first farthest pair (distance 1); then 3 shares fewer words with them than 1 does.
    previews = ["a b c d", "a b c e", "w x y z", "a w m n"]
    assert select_previews(previews, 2) == [0, 2]
    assert select_previews(previews, 3) == [0, 2, 3]


def test_ties_go_to_the_lower_index():
    assert select_previews(["a", "a", "b", "b"], 2) == [0, 2]
    assert select_previews(["same"] * 4, 3) == [0, 1, 2]


@given(TEXTS, st.integers(1, 8), st.sampled_from(["diverse", "random"]), st.integers(0, 5))
def test_keeps_k_distinct_indices(previews, k, method, seed):
    chosen = select_previews(previews, k, method, seed)
    assert len(chosen) == len(set(chosen)) == min(k, len(previews))
    assert all(0 <= i < len(previews) for i in chosen)
    assert chosen == select_previews(previews, k, method, seed)


@given(TEXTS.filter(lambda t: len(t) > 2), st.data())
def test_diverse_is_the_greedy_maximum(previews, data):
    k = data.draw(st.integers(2, len(previews) - 1))
    assert_greedy([(p,) for p in previews], select_previews(previews, k))


@given(PAIRS.filter(lambda p: len(p) > 2), st.data())
def test_pairs_by_the_same_criterion(pairs, data):
    k = data.draw(st.integers(2, len(pairs) - 1))
    assert_greedy(pairs, select_pairs(pairs, k))


@given(PAIRS, st.integers(1, 7), st.sampled_from(["diverse", "random"]), st.integers(0, 5))
def test_keeps_k_distinct_pairs(pairs, k, method, seed):
    chosen = select_pairs(pairs, k, method, seed)
    assert len(chosen) == len(set(chosen)) == min(k, len(pairs))
    assert all(0 <= i < len(pairs) for i in chosen)
    assert chosen == select_pairs(pairs, k, method, seed)


def test_pairs_by_hand():
    # 1 and 3 have no word in common at all, halves included; 0 and 2 each repeat one.
    pairs = [("a b", "a c"), ("a b", "c d"), ("e f", "e f"), ("e f", "g h")]
    assert select_pairs(pairs, 2) == [1, 3]
    assert select_pairs(pairs, 3) == [1, 3, 0]
    assert select_pairs(pairs, 1) == [1]  # 1 and 3 tie in their halves and in what they share with the others
    assert select_pairs([("a", "a"), ("b", "c")], 1) == [1]


def test_one_preview_is_the_farthest_from_all():
    assert select_previews(["a b", "a b c", "x"], 1) == [2]
    assert select_previews(["a", "a", "a"], 1) == [0]


def test_rounding_decides_no_tie():
    # The fourth choice is a tie of 0 and 4, which sums of floats give to 4.
    previews = ["a b f c", "c f", "a d", "d e b", "c f e"]
    assert sum(exact(previews[0], previews[i]) for i in (1, 2, 3)) == sum(
        exact(previews[4], previews[i]) for i in (1, 2, 3)
    )
    assert select_previews(previews, 4) == [1, 2, 3, 0]


def test_random_is_uniform():
    counts = [0] * 6
    for seed in range(3000):
        for i in select_previews(["x"] * 6, 2, "random", seed):
            counts[i] += 1
    assert all(abs(c - 1000) < 150 for c in counts)
    sets = Counter(frozenset(select_pairs([("x", "y")] * 4, 2, "random", seed)) for seed in range(3000))
    assert len(sets) == 6 and all(abs(c - 500) < 110 for c in sets.values())


@pytest.mark.parametrize(("k", "method", "message"), [(0, "diverse", "k=0"), (2, "best", "method='best'")])
def test_refusals(k, method, message):
    with pytest.raises(ValueError, match=message):
        select_previews(["a", "b", "c"], k, method)
    with pytest.raises(ValueError, match=message):
        select_pairs([("a", "b")] * 3, k, method)

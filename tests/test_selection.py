"""Selection of the K strategies (paper, appendix "Diversity-based selection")."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.strategy import jaccard_distance, select_previews
from subgroup_offset.strategy.selection import mean_pairwise_distance

TEXTS = st.lists(st.text("abc ", max_size=8), min_size=1, max_size=7)


def test_distance_by_hand():
    assert jaccard_distance("use symmetry", "use coordinates") == pytest.approx(2 / 3)
    assert jaccard_distance("Use, symmetry!", "symmetry use") == 0
    assert jaccard_distance("a", "b") == 1
    assert jaccard_distance("", "...") == 0
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


@given(TEXTS.filter(lambda t: len(t) > 2))
def test_diverse_begins_with_a_farthest_pair(previews):
    i, j = select_previews(previews, 2)
    farthest = max(jaccard_distance(a, b) for a, b in combinations(previews, 2))
    assert jaccard_distance(previews[i], previews[j]) == farthest


def test_random_is_uniform():
    counts = [0] * 6
    for seed in range(3000):
        for i in select_previews(["x"] * 6, 2, "random", seed):
            counts[i] += 1
    assert all(abs(c - 1000) < 150 for c in counts)


@pytest.mark.parametrize(("k", "method", "message"), [(0, "diverse", "k=0"), (2, "best", "method='best'")])
def test_refusals(k, method, message):
    with pytest.raises(ValueError, match=message):
        select_previews(["a", "b", "c"], k, method)

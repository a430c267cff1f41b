"""How rollouts are spread over strategies, whatever their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.slots import slot_sizes

N, PAIRS = st.integers(1, 300), st.integers(1, 20)


@given(n=N, k=st.integers(1, 40))
def test_all_rollouts_are_spread_as_evenly_as_it_goes(n, k):
    sizes = slot_sizes(n, k)
    assert sum(sizes) == n and 1 <= len(sizes) <= k
    assert max(sizes) - min(sizes) <= 1 and list(sizes) == sorted(sizes, reverse=True)


@given(n=st.integers(2, 300), k=st.integers(2, 40))
def test_there_is_something_to_compare(n, k):
    """Two slots wherever there are two rollouts, two rollouts in each wherever there are four; else all K slots."""
    sizes = slot_sizes(n, k)
    assert len(sizes) >= 2
    assert n < 4 or min(sizes) >= 2
    assert len(sizes) == k or n < 2 * k


@given(n=st.integers(2, 300), pairs=PAIRS)
def test_paired_slots_come_in_pairs(n, pairs):
    sizes = slot_sizes(n, 2 * pairs, step=2)
    assert sum(sizes) == n and len(sizes) % 2 == 0 and 2 <= len(sizes) <= 2 * pairs
    assert max(sizes) - min(sizes) <= 1 and (n < 4 or min(sizes) >= 2)


@given(k=st.integers(1, 20), z=st.integers(1, 20), other=N, step=st.sampled_from([1, 2]))
def test_a_given_number_a_strategy_is_kept_where_it_fits(k, z, other, step):
    k *= step
    assert slot_sizes(k * z, k, z, step) == (z,) * k
    if other != k * z:
        assert slot_sizes(other, k, z, step) == slot_sizes(other, k, None, step)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(1, (1,)), (2, (1, 1)), (3, (2, 1)), (4, (2, 2)), (5, (3, 2)), (6, (2, 2, 2)), (8, (2,) * 4), (17, (5, 4, 4, 4))],
)
def test_small_numbers_over_four_strategies(n, sizes):
    assert slot_sizes(n, 4) == sizes


def test_no_rollouts_are_none():
    with pytest.raises(ValueError, match=r"n=0 is no number of rollouts: set it to 1"):
        slot_sizes(0, 4)

"""Tests over problems of the difference of two runs."""

import itertools

import numpy as np
import pytest
from graded import by_hand
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation.paired import SignTest, check_comparable, run_values, sign_flip_test, sign_test
from subgroup_offset.evaluation.samples import SamplesError, complete_replicas

EIGHTHS = st.lists(st.integers(-8, 8).map(lambda i: i / 8), max_size=9)


@given(EIGHTHS, st.data())
def test_exact_test_is_the_enumeration_of_all_signs(differences, data):
    weights = data.draw(st.lists(st.sampled_from([1, 2, 4]), min_size=len(differences), max_size=len(differences)))
    terms = np.array(differences) * weights
    seen = abs(terms.sum())
    flips = [abs(np.dot(signs, terms)) >= seen for signs in itertools.product((1, -1), repeat=len(terms))]
    found = sign_flip_test(differences, weights)
    assert found.exact and found.p == np.mean(flips)


@given(st.lists(st.integers(-999, 999).map(lambda i: i / 999), min_size=1, max_size=9), st.randoms())
def test_neither_order_nor_direction_matters(differences, random):
    shuffled = random.sample(differences, len(differences))
    assert sign_flip_test(differences).p == sign_flip_test(shuffled).p == sign_flip_test(-np.array(differences)).p


def test_known_values():
    assert sign_flip_test([0.1] * 5).p == 2 / 32
    assert sign_flip_test([0.1] * 20).p == 2 / 2**20
    assert sign_flip_test([0.3, 0.1, -0.2, 0.0]).p == 6 / 8  # of the sums 6, 4, 0, 2 and their negatives, 2 and above
    assert sign_flip_test([0.0, 0.0]).p == sign_flip_test([]).p == 1


def test_sums_that_differ_in_the_last_bits_are_equally_large():
    differences = [0.1, 0.2, 0.3, 0.4, 0.7]
    for order in itertools.permutations(differences):
        assert sign_flip_test(order).p == 2 / 32


@pytest.mark.parametrize("weighted", [False, True])
def test_drawn_signs_agree_with_all_signs(weighted):
    rng = np.random.default_rng(0)
    differences = rng.normal(0.3, 1.0, 14)
    weights = rng.choice([1 / 10, 1 / 4], 14) if weighted else None
    exact = sign_flip_test(differences, weights)
    drawn = sign_flip_test(differences, weights, exact_up_to=0, seed=1)
    assert exact.exact and not drawn.exact
    assert drawn.p == pytest.approx(exact.p, abs=0.006)
    assert drawn == sign_flip_test(differences, weights, exact_up_to=0, seed=1)


def test_drawn_p_is_never_zero():
    assert sign_flip_test(np.ones(40), draws=999).p == 1 / 1000


@pytest.mark.parametrize("exact_up_to", [0, 20])
def test_p_is_uniform_without_an_effect_and_small_with_one(exact_up_to):
    rng = np.random.default_rng(5)
    null, effect = [], []
    for seed in range(400):
        noise = rng.normal(size=12) * rng.exponential(size=12)
        settings = {"draws": 400, "seed": seed, "exact_up_to": exact_up_to}
        null.append(sign_flip_test(noise, **settings).p)
        effect.append(sign_flip_test(noise + 1.5, **settings).p)
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        assert np.mean(np.array(null) <= level) == pytest.approx(level, abs=3.5 * np.sqrt(level * (1 - level) / 400))
    assert np.mean(np.array(effect) <= 0.05) > 0.8


def test_sign_test():
    assert sign_test([0.1, 0.2, 0.0, -0.3, 0.1]) == SignTest(3, 1, 1, 10 / 16)
    assert sign_test([1.0] * 6).p == 2 / 64
    assert sign_test([1.0, -1.0]).p == sign_test([0.0]).p == sign_test([]).p == 1
    assert sign_test([1e-17, -1e-16]).level == 2  # rounding is no lead


@given(EIGHTHS)
def test_sign_test_is_the_flip_test_of_signs(differences):
    assert sign_test(differences).p == pytest.approx(sign_flip_test(np.sign(differences)).p, abs=1e-12)


def test_runs_that_cannot_be_paired():
    one = complete_replicas(by_hand({"aime": {"1": ["10"], "2": ["10"]}, "hmmt": {"1": ["00"]}}))
    two = complete_replicas(by_hand({"aime": {"1": ["10"], "3": ["10"]}, "hmmt": {"1": ["00"]}}))
    with pytest.raises(
        SamplesError, match="1 problems have complete replicas in base only, not in new: aime/2"
    ) as caught:
        check_comparable(one, two, ("base", "new"))
    assert "aime/3" not in str(caught.value)
    fewer = complete_replicas(by_hand({"aime": {"1": ["10"]}, "hmmt": {"1": ["00"]}}))
    with pytest.raises(SamplesError, match="in base only, not in new: aime/2"):
        check_comparable(fewer, one, ("new", "base"))
    other = complete_replicas(by_hand({"aime": {"1": ["101"], "2": ["100"]}, "hmmt": {"1": ["000"]}}))
    with pytest.raises(SamplesError, match="base have 2 samples and those of new 3"):
        check_comparable(one, other, ("base", "new"))
    check_comparable(one, one)


def test_values_of_a_run():
    run = complete_replicas(by_hand({"aime": {"1": ["1?", "00"], "2": ["??"]}}))
    values = run_values(run, "aime")
    np.testing.assert_allclose(values.problem_means, [[0.25, 0.5], [0, 0]])
    np.testing.assert_allclose(run_values(run, "aime", ungraded_right=True).problem_means, [[0.5, 0.5], [1, 1]])
    assert values.sizes.tolist() == [2, 1]

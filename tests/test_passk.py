"""pass@k: closed forms, enumeration, and what verl's best@N is instead."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation.passk import pass_at_k, replica_metrics, replica_pass

COUNTS = st.integers(1, 600).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@pytest.mark.parametrize("n", range(1, 8))
def test_equals_the_share_of_subsets_with_a_right_sample(n):
    for c in range(n + 1):
        verdicts = [i < c for i in range(n)]
        for k in range(1, n + 1):
            hits = [any(drawn) for drawn in itertools.combinations(verdicts, k)]
            assert pass_at_k([n], [c], [k])[0, 0] == pytest.approx(sum(hits) / len(hits), abs=1e-14)


@given(st.lists(COUNTS, min_size=1, max_size=5), st.data())
def test_equals_exact_arithmetic(counts, data):
    n, c = zip(*counts, strict=True)
    ks = data.draw(st.lists(st.integers(1, min(n)), min_size=1, max_size=6))
    found = pass_at_k(n, c, ks)
    assert found.shape == (len(n), len(ks))
    exact = [[float(1 - Fraction(comb(a - b, k), comb(a, k))) for k in ks] for a, b in counts]
    np.testing.assert_allclose(found, exact, atol=1e-12, rtol=0)


@given(COUNTS)
def test_curve_of_a_problem(counts):
    n, c = counts
    curve = pass_at_k([n], [c], range(1, n + 1))[0]
    assert curve[0] == pytest.approx(c / n, abs=1e-15)
    assert curve[-1] == float(c > 0)
    assert (np.diff(curve) >= 0).all() and curve.min() >= 0 and curve.max() <= 1
    assert (curve[n - c :] == 1.0).all()  # fewer than k are wrong
    assert c or not curve.any()


def test_one_right_of_many():
    """pass@k of c = 1 is k / n."""
    ks = [1, 3, 16, 511, 512]
    np.testing.assert_allclose(pass_at_k([512], [1], ks)[0], np.array(ks) / 512, atol=1e-13, rtol=0)


@pytest.mark.parametrize("k", [0, 9])
def test_what_cannot_be_estimated(k):
    with pytest.raises(ValueError, match=rf"k=\[1, {k}\]: .* 1 to 8"):
        pass_at_k([20, 8], [1, 1], [1, k])


def test_a_replica():
    assert replica_metrics(16) == ("pass@1", "pass@16")
    assert replica_pass(np.array([0, 4, 16]), 16).tolist() == [[0, 0], [0.25, 1], [1, 1]]


def test_a_replica_of_one_sample_has_one_metric():
    assert replica_metrics(1) == ("pass@1",)
    assert replica_pass(np.array([[0, 1]]), 1).tolist() == [[[0], [1]]]


@given(st.integers(2, 6), st.data())
def test_unbiased_estimate_is_the_mean_over_all_ways_to_form_replicas(size, data):
    """Over every choice of one replica's samples out of all, pass@S of the replica averages to the estimate."""
    verdicts = data.draw(st.lists(st.booleans(), min_size=size, max_size=9))
    chosen = [sum(drawn) for drawn in itertools.combinations(verdicts, size)]
    average = replica_pass(np.array(chosen), size)[:, 1].mean()
    assert pass_at_k([len(verdicts)], [sum(verdicts)], [size])[0, 0] == pytest.approx(average, abs=1e-12)


def test_verls_best_at_n_is_another_quantity():
    """verl draws with replacement: what the module's docstring says of `best@N`, on verl itself."""
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    right = {"a": 1, "b": 4}
    values = [float(i < c) for c in right.values() for i in range(16)]
    uids = [uid for uid in right for _ in range(16)]
    found = process_validation_metrics(["aime"] * 32, uids, {"acc": values})["aime"]["acc"]
    for n in (2, 4, 8, 16):
        expected = np.mean([1 - (1 - c / 16) ** n for c in right.values()])
        assert found[f"best@{n}/mean"] == pytest.approx(expected, abs=0.03)
    assert found["best@16/mean"] < 0.87 < replica_pass(np.array([1, 4]), 16)[:, 1].mean() == 1
    assert found["mean@16"] == replica_pass(np.array([1, 4]), 16)[:, 0].mean()
    spread = [np.sqrt((1 - c / 16) ** 16 * (1 - (1 - c / 16) ** 16)) for c in right.values()]
    assert found["best@16/std"] == pytest.approx(np.mean(spread), abs=0.03)

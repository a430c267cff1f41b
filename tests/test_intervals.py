"""Bootstrap intervals: the variance they stand for, their coverage, and what they cannot say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation import intervals
from subgroup_offset.evaluation.intervals import (
    OVER,
    BootstrapSettings,
    ReplicaValues,
    bootstrap_means,
    percentile_interval,
)
from subgroup_offset.evaluation.passk import replica_pass


def of(values: np.ndarray, sizes=None) -> ReplicaValues:
    """One metric; `values` (P, R)."""
    values = np.asarray(values, dtype=np.float64)[..., None]
    return ReplicaValues(values, np.full(len(values), values.shape[1]) if sizes is None else np.asarray(sizes))


def draws(run: ReplicaValues, over: str, n_boot: int = 20_000, seed: int = 0) -> np.ndarray:
    return bootstrap_means([run], over, BootstrapSettings(n_boot=n_boot, seed=seed))[0, :, 0]


@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_draws_have_the_variance_of_the_mean(replicas):
    rng = np.random.default_rng(3)
    values = rng.normal(rng.normal(size=(6, 1)), 0.8, (6, replicas))
    inside = values.var(axis=1, ddof=1).mean() / replicas
    between = values.mean(axis=1).var(ddof=1)
    run = of(values)
    assert draws(run, "samples").mean() == pytest.approx(values.mean(), abs=0.01)
    assert draws(run, "samples").var() == pytest.approx(inside / 6, rel=0.05)
    assert draws(run, "problems").mean() == pytest.approx(values.mean(), abs=0.02)
    # Between problems without bias, and the replicas' noise a second time.
    assert draws(run, "problems").var() == pytest.approx(between / 6 + inside * (1 - 1 / replicas) / 5, rel=0.05)


def test_problems_with_different_numbers_of_replicas():
    """Each problem weighs the same, and what stands behind its last replica does not matter."""
    values = np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, np.nan, np.nan], [1.0, 1.0, 1.0, np.nan]])
    run = of(values, [4, 2, 3])
    np.testing.assert_allclose(run.problem_means[:, 0], [0.5, 0.5, 1.0])
    variance = (np.var([0, 1, 1, 0], ddof=1) / 4 + np.var([1, 0], ddof=1) / 2) / 9
    assert draws(ReplicaValues(np.nan_to_num(run.values, nan=7.0), run.sizes), "samples").var() == pytest.approx(
        variance, rel=0.05
    )
    assert draws(ReplicaValues(np.nan_to_num(run.values, nan=7.0), run.sizes), "samples").max() <= 1


@pytest.mark.parametrize("over", OVER)
def test_coverage(over):
    """95% intervals hold the truth in about 95 of 100 simulated evaluations, for pass@1 and for pass@S."""
    rng = np.random.default_rng(11)
    problems, replicas, samples, times = 30, 6, 4, 500
    hits = np.zeros(2)
    fixed = rng.beta(0.4, 1.0, problems)
    population = rng.beta(0.4, 1.0, 1_000_000)
    truth = replica_truth(population if over == "problems" else fixed, samples)
    for seed in range(times):
        chances = rng.beta(0.4, 1.0, problems) if over == "problems" else fixed
        right = rng.binomial(samples, chances[:, None], (problems, replicas))
        run = ReplicaValues(replica_pass(right, samples), np.full(problems, replicas))
        found = bootstrap_means([run], over, BootstrapSettings(n_boot=300, seed=seed))[0]
        low, high = percentile_interval(found, 0.95)
        hits += (low <= truth) & (truth <= high)
    # Three standard errors of 500 cases are 0.03.
    assert (hits / times > 0.915).all() and (hits / times < 0.98).all(), hits / times


def replica_truth(chances: np.ndarray, samples: int) -> np.ndarray:
    return np.array([chances.mean(), (1 - (1 - chances) ** samples).mean()])


def test_paired_draws_share_problems_and_not_replicas():
    """A run against itself plus a constant: over problems all of the problems' spread cancels."""
    chances = np.linspace(0.0, 1.0, 12)[:, None]
    first, second = of(np.tile(chances, 5)), of(np.tile(chances + 0.25, 5))
    found = bootstrap_means([first, second], "problems", BootstrapSettings())
    np.testing.assert_allclose(found[1] - found[0], 0.25)
    assert found[0].std() > 0.05
    noisy = of(np.random.default_rng(0).random((12, 5)))
    found = bootstrap_means([noisy, noisy], "samples", BootstrapSettings())
    assert abs(np.corrcoef(found[0, :, 0], found[1, :, 0])[0, 1]) < 0.1


def test_draws_are_reproducible_and_streams_differ(monkeypatch):
    run = of(np.random.default_rng(0).random((5, 4)))
    settings = BootstrapSettings(n_boot=500, seed=4)
    again = [bootstrap_means([run], "problems", settings, stream) for stream in ("a", "a", "b")]
    assert (again[0] == again[1]).all() and (again[0] != again[2]).any()
    assert (draws(run, "problems", 500, 4) != draws(run, "problems", 500, 5)).any()
    monkeypatch.setattr(intervals, "_CELLS", 700)  # many blocks in place of one
    assert draws(run, "samples").var() == pytest.approx(run.values.var(axis=1, ddof=1).mean() / 20, rel=0.05)


@given(st.floats(0, 1), st.sampled_from(OVER))
def test_equal_values_have_no_spread(value, over):
    np.testing.assert_allclose(draws(of(np.full((3, 2), value)), over, 100), value)


@pytest.mark.parametrize(
    ("shape", "sizes", "over"),
    [((1, 4), None, "problems"), ((3, 1), None, "samples"), ((3, 2), [2, 1, 2], "samples"), ((0, 0), None, "samples")],
)
def test_no_interval_without_two_of_a_kind(shape, sizes, over):
    found = draws(of(np.ones(shape), sizes), over, 100)
    assert found.shape == (100,) and np.isnan(found).all()


def test_one_replica_is_enough_over_problems():
    values = np.random.default_rng(0).random((9, 1))
    assert draws(of(values), "problems").var() == pytest.approx(values.var(ddof=1) / 9, rel=0.05)


def test_percentiles():
    low, high = percentile_interval(np.stack([np.arange(1001.0), -np.arange(1001.0)], axis=1), 0.9)
    assert low.tolist() == pytest.approx([50, -950]) and high.tolist() == pytest.approx([950, -50])

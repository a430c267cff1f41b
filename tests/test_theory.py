"""Each sentence of docs/theory.md, by exact models."""

from __future__ import annotations

import numpy as np
import pytest
from theory import (
    WAYS,
    Prompt,
    decided_by_rollout,
    direction,
    estimator_gradients,
    expected_gradient,
    mean_abs_offset,
    own_reward_factor,
    random_prompts,
    reliability,
    scores,
    spaced,
    true_gradient,
)


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    return list(random_prompts(2000))


def rates(*p: float) -> np.ndarray:
    """(K, 2) policies over a wrong and a right answer."""
    return np.array([[1 - value, value] for value in p])


# 1. The noise floor.


@pytest.mark.parametrize(
    ("p", "spread", "logged", "true"),
    [(0.5, 0.0, 0.122, 0.0), (0.5, 0.2, 0.136, 0.067), (0.5, 0.4, 0.172, 0.133), (0.25, 0.0, 0.106, 0.0)],
)
def test_offsets_of_strategies_that_are_alike_are_not_0(p, spread, logged, true):
    found = spaced(p, spread)
    assert mean_abs_offset(found, 8) == pytest.approx(logged, abs=5e-4)
    assert np.abs(found - p).mean() == pytest.approx(true, abs=5e-4)


@pytest.mark.parametrize(("spread", "b"), [(0.0, 0.0), (0.1, 0.056), (0.2, 0.195), (0.4, 0.510)])
def test_the_reliability_tells_them_apart(spread, b):
    assert reliability(spaced(0.5, spread), 8) == pytest.approx(b, abs=5e-4)


def test_the_noise_falls_with_more_rollouts():
    floor = [mean_abs_offset(spaced(0.5, 0.0), z) for z in (2, 4, 8, 16, 32)]
    assert floor == sorted(floor, reverse=True)
    assert floor[2] / floor[4] == pytest.approx(2, rel=0.05)  # as one over the root of Z


# 2. Trained under the prompt it was sampled from, lam only changes the step's size.


@pytest.mark.parametrize("lam", [-1.0, -0.3, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("policies", [(0.5, 0.5), (0.2, 0.7), (0.05, 0.9)])
def test_the_conditioned_gradient_has_lam_in_its_size_alone(policies, lam):
    guided, rollouts = rates(*policies), 3
    found, _ = estimator_gradients(guided, guided[0], rollouts, lam)
    for q, gradient in zip(guided, found, strict=True):
        own = q @ (np.array([0.0, 1.0])[:, None] * scores(q))  # of that strategy's success rate
        np.testing.assert_allclose(gradient, own_reward_factor(lam, 2, rollouts) * own, atol=1e-7)


def test_the_factor_of_the_papers_setting():
    assert own_reward_factor(-0.3, 4, 8) == pytest.approx(0.997, abs=5e-4)
    assert own_reward_factor(0.3, 4, 8) == pytest.approx(0.941, abs=5e-4)


def test_a_division_by_the_standard_deviation_couples_lam_a_little():
    """The one thing besides: sigma depends on the same rewards."""
    guided = rates(0.2, 0.7)
    sizes = {}
    for lam in (-0.3, 0.3):
        found, _ = estimator_gradients(guided, guided[0], 3, lam, std="sample")
        sizes[lam] = found[:, 1] / (guided[:, 0] * guided[:, 1])
    for lam, found in sizes.items():
        assert (found > 0).all(), lam
    ratios = sizes[-0.3] / sizes[0.3]
    assert abs(ratios[0] / ratios[1] - 1) < 0.1


# 3. Under the plain prompt lam has a direction.


@pytest.mark.parametrize("policies", [(0.2, 0.7), (0.05, 0.9)])
def test_the_plain_gradient_moves_with_lam(policies):
    """Contrast takes the plain policy further towards success, Alignment holds it back: by the estimator itself."""
    guided, plain = rates(*policies), rates(0.4)[0]
    gains = [estimator_gradients(guided, plain, 3, lam)[1][1] for lam in (-0.3, 0.0, 0.3)]
    assert gains[0] > gains[1] > gains[2] > 0


@pytest.mark.parametrize(
    ("way", "size", "along", "grpo"),
    [
        ("plain prompt, no weights", 0.159, -0.62, 0.960),
        ("OC-GRPO, weights in [0.01, 1]", 0.085, -0.58, 0.988),
        ("weights in [0.1, 10]", 0.006, -0.12, 1.000),
        ("exact weights", 0.0, 0.0, 1.000),
    ],
)
def test_how_much_of_lam_is_left(prompts, way, size, along, grpo):
    found = direction(way, prompts)
    assert found.size == pytest.approx(size, abs=6e-4)
    assert found.cosine == pytest.approx(along, abs=6e-3)
    assert found.grpo_cosine == pytest.approx(grpo, abs=6e-4)


def test_exact_weights_give_the_true_gradient_whatever_lam(prompts):
    for prompt in prompts[:50]:
        grpo, offset = expected_gradient(prompt, WAYS["exact weights"](prompt))
        np.testing.assert_allclose(offset, 0, atol=1e-12)
        np.testing.assert_allclose(grpo, true_gradient(prompt), atol=1e-12)


def test_the_true_gradient_is_that_of_the_expected_reward(prompts):
    prompt, step = prompts[0], 1e-6
    logits = np.log(prompt.plain)
    for y in range(len(logits)):
        up, down = (np.exp(logits + sign * step * np.eye(len(logits))[y]) for sign in (1, -1))
        slope = (up / up.sum() - down / down.sum()) @ prompt.reward / (2 * step)
        assert true_gradient(prompt)[y] == pytest.approx(slope, abs=1e-8)


# 4. Where the rollout itself decides its subgroup, lam moves probability between subgroups.


def test_lam_moves_probability_towards_or_away_from_the_better_subgroup(prompts):
    for prompt in prompts[:50]:
        subgroup = np.arange(len(prompt.plain)) % 2
        good = [
            prompt.plain[subgroup == s] @ prompt.reward[subgroup == s] / prompt.plain[subgroup == s].sum()
            for s in (0, 1)
        ]
        if abs(good[0] - good[1]) < 0.05:
            continue
        better = subgroup == int(good[1] > good[0])
        towards = np.where(better, 1.0, 0.0) @ prompt.plain  # mass of the better subgroup
        mass = prompt.plain @ ((better - towards)[:, None] * scores(prompt.plain))  # its gradient
        contrast, grpo, alignment = (
            decided_by_rollout(prompt.plain, prompt.reward, subgroup, lam) @ mass for lam in (-0.5, 0.0, 0.5)
        )
        assert contrast > grpo > alignment

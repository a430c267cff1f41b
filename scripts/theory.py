"""What lam does in expectation: exact small models, enumerated without sampling, and their figures.

    python scripts/theory.py [--output outputs/theory]

docs/theory.md says what each number means; tests/test_theory.py holds them to it. Responses are one token long:
answer y of Y has probability pi(y) under the plain prompt and q_k(y) under strategy k; r(y) is its reward. Gradients
are with respect to the logits of the policy that is trained, for which the score of y is e_y minus the probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from subgroup_offset.advantage import subgroup_advantages

Array = NDArray[np.float64]


# The noise of offsets.


def binomial(n: int, p: float) -> Array:
    """(n + 1,) probabilities of 0..n successes."""
    return np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])


def mean_abs_offset(p: Array, rollouts: int) -> float:
    """E |mu_k - mu_g| over strategies k with success rates p (K,) and Z rollouts each, exactly."""
    k = len(p)
    total = 0.0
    for own in range(k):
        others = np.ones(1)
        for other in range(k):
            if other != own:
                others = np.convolve(others, binomial(rollouts, p[other]))
        mine = binomial(rollouts, p[own])
        c, rest = np.arange(len(mine))[:, None], np.arange(len(others))[None, :]
        offset = c / rollouts - (c + rest) / (k * rollouts)
        total += float((np.abs(offset) * mine[:, None] * others[None, :]).sum()) / k
    return total


def spaced(p: float, spread: float, strategies: int = 4) -> Array:
    """(K,) equally spaced success rates around p whose largest and smallest are ``spread`` apart."""
    return p + spread * np.linspace(-0.5, 0.5, strategies)


def reliability(p: Array, rollouts: int) -> float:
    """B = tau^2 / (tau^2 + s^2 / Z): the share of an offset's spread that is no noise."""
    tau2, noise = p.var(ddof=1), float((p * (1 - p)).mean()) / rollouts
    return float(tau2 / (tau2 + noise))


# One prompt: what is sampled, what is trained.


@dataclass(frozen=True)
class Prompt:
    """A prompt's answers.

    Attributes:
        plain: (Y,) pi, the policy under the plain prompt.
        guided: (K, Y) q, the policy under each strategy.
        reward: (Y,) r.
    """

    plain: Array
    guided: Array
    reward: Array


def random_prompts(number: int, answers: int = 8, strategies: int = 4, seed: int = 3) -> Iterator[Prompt]:
    """Prompts with random logits, strategies that move them at random, and about a third of the answers right."""
    rng = np.random.default_rng(seed)
    while number:
        logits = rng.normal(size=answers)
        guided = softmax(logits + rng.normal(size=(strategies, answers)))
        reward = (rng.random(answers) < 0.35).astype(float)
        if reward.min() < reward.max():
            number -= 1
            yield Prompt(softmax(logits), guided, reward)


def softmax(logits: Array) -> Array:
    """Along the last axis."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def scores(policy: Array) -> Array:
    """(Y, Y) grad log policy(y), a row for each y."""
    return np.eye(len(policy)) - policy


def true_gradient(prompt: Prompt) -> Array:
    """(Y,) of the expected reward under the plain prompt."""
    baseline = prompt.plain @ prompt.reward
    return prompt.plain @ ((prompt.reward - baseline)[:, None] * scores(prompt.plain))


def expected_gradient(prompt: Prompt, weights: Array) -> tuple[Array, Array]:
    """Trained under the plain prompt on what the strategies sample, with each token weighted (K, Y).

    Returns:
        (Y,) GRPO's gradient, and (Y,) what a lam of 1 adds to it: the expectation of -delta_k times the score.
    """
    rates = prompt.guided @ prompt.reward
    mean, score = rates.mean(), scores(prompt.plain)
    grpo, offset = np.zeros(len(score)), np.zeros(len(score))
    for rate, q, w in zip(rates, prompt.guided, weights, strict=True):
        grpo += (q * w * (prompt.reward - mean)) @ score / len(rates)
        offset -= (rate - mean) * ((q * w) @ score) / len(rates)
    return grpo, offset


#: How tokens are weighted when strategies sample and the plain prompt is trained (K, Y).
WAYS: dict[str, Callable[[Prompt], Array]] = {
    "plain prompt, no weights": lambda p: np.ones_like(p.guided),
    "OC-GRPO, weights in [0.01, 1]": lambda p: np.clip(p.plain / p.guided, 0.01, 1.0),
    "weights in [0.1, 10]": lambda p: np.clip(p.plain / p.guided, 0.1, 10.0),
    "exact weights": lambda p: p.plain / p.guided,
}


@dataclass(frozen=True)
class Direction:
    """Means over prompts."""

    #: |lam's part| / |GRPO|, for lam = 1.
    size: float
    #: Cosine of lam's part, for a positive lam, with the gradient of the expected reward.
    cosine: float
    #: Cosine of GRPO's with it.
    grpo_cosine: float


def direction(way: str, prompts: list[Prompt]) -> Direction:
    """What lam does to the plain policy when it is trained this way."""
    sizes, norms, cosines, grpo_cosines = [], [], [], []
    for prompt in prompts:
        grpo, offset = expected_gradient(prompt, WAYS[way](prompt))
        true = true_gradient(prompt)
        sizes.append(np.linalg.norm(offset))
        norms.append(np.linalg.norm(grpo))
        cosines.append(cosine(offset, true))
        grpo_cosines.append(cosine(grpo, true))
    return Direction(float(np.mean(sizes) / np.mean(norms)), float(np.mean(cosines)), float(np.mean(grpo_cosines)))


def cosine(a: Array, b: Array) -> float:
    """Of the angle between two vectors; 0 where one is 0."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size > 1e-12 else 0.0


# The estimator itself, over every outcome of a small group.


def estimator_gradients(
    guided: Array, plain: Array, rollouts: int, lam: float, std: str = "none"
) -> tuple[Array, Array]:
    """E[A * score] by the package's own estimator over all outcomes of K strategies with Z rollouts each.

    Args:
        guided: (K, 2) q_k of a wrong and a right answer (rewards 0 and 1).
        plain: (2,) pi.
        rollouts: Z.
        lam: the estimator's.
        std: the estimator's.

    Returns:
        (K, 2) the gradient of each strategy's own conditioned policy, and (2,) that of the plain one.
    """
    strategies = len(guided)
    conditioned, unconditioned = np.zeros((strategies, 2)), np.zeros(2)
    slots = [k for k in range(strategies) for _ in range(rollouts)]
    for answers in itertools.product((0, 1), repeat=len(slots)):
        probability = math.prod(guided[k, y] for k, y in zip(slots, answers, strict=True))
        rewards = torch.tensor(answers, dtype=torch.float64)
        advantages = subgroup_advantages(rewards, ["prompt"] * len(slots), slots, lam, std=std).advantages.tolist()
        for k, y, a in zip(slots, answers, advantages, strict=True):
            conditioned[k] += probability * a * scores(guided[k])[y] / rollouts
            unconditioned += probability * a * scores(plain)[y] / len(slots)
    return conditioned, unconditioned


def own_reward_factor(lam: float, strategies: int, rollouts: int) -> float:
    """What one's own reward inside both means makes of the gradient: 1 - (1 - lam) / (K Z) - lam / Z."""
    return 1 - (1 - lam) / (strategies * rollouts) - lam / rollouts


# Subgroups that the rollout itself decides.


def decided_by_rollout(policy: Array, reward: Array, subgroup: NDArray[np.int64], lam: float) -> Array:
    """(Y,) E[A * score] where answer y is in ``subgroup[y]``, with exact means in place of a group's."""
    mean = policy @ reward
    means = np.array([policy[subgroup == s] @ reward[subgroup == s] / policy[subgroup == s].sum() for s in (0, 1)])
    advantage = reward - (mean + lam * (means[subgroup] - mean))
    return policy @ (advantage[:, None] * scores(policy))


def main(output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("outputs/theory")) -> None:
    """Print the tables and draw the figures."""
    console = Console()
    output.mkdir(parents=True, exist_ok=True)
    noise = Table(
        "p", "spread", "E |offset|", "true |offset|", "reliability B", title="K = 4 strategies, Z = 8 rollouts"
    )
    for p in (0.5, 0.25):
        for spread in (0.0, 0.1, 0.2, 0.4):
            rates = spaced(p, spread)
            found = (mean_abs_offset(rates, 8), np.abs(rates - rates.mean()).mean(), reliability(rates, 8))
            noise.add_row(f"{p:g}", f"{spread:g}", *(f"{value:.3f}" for value in found))
    console.print(noise)
    prompts = list(random_prompts(2000))
    ways = Table("trained under", "|lam's part| / |GRPO|", "cosine of +lam with the truth", "of GRPO with the truth")
    for way in WAYS:
        found = direction(way, prompts)
        ways.add_row(way, f"{found.size:.3f}", f"{found.cosine:+.2f}", f"{found.grpo_cosine:.3f}")
    console.print(ways)
    _draw(output, prompts[:400])
    console.print(f"figures: {output}/noise.svg, {output}/direction.svg")


def _draw(output: Path, prompts: list[Prompt]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    spreads = np.linspace(0, 0.6, 25)
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.plot(spreads, [mean_abs_offset(spaced(0.5, s), 8) for s in spreads], label="mean |offset| as logged")
    axes.plot(spreads, [np.abs(spaced(0.5, s) - 0.5).mean() for s in spreads], "--", label="of the true rates")
    axes.plot(spreads, [reliability(spaced(0.5, s), 8) for s in spreads], ":", label="reliability B")
    axes.set_xlabel("best less worst strategy's success rate (p = 0.5, K = 4, Z = 8)")
    axes.legend(frameon=False)
    figure.savefig(output / "noise.svg")
    lams = np.linspace(-1, 1, 21)
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for way in WAYS:
        found = [(*expected_gradient(p, WAYS[way](p)), true_gradient(p)) for p in prompts]
        gains = [float(np.mean([(grpo + lam * offset) @ true for grpo, offset, true in found])) for lam in lams]
        zero = gains[len(lams) // 2]
        axes.plot(lams, np.array(gains) / zero, label=way)
    axes.set_xlabel("lam")
    axes.set_ylabel("first-order gain of the plain policy, lam = 0 is 1")
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(output / "direction.svg")


if __name__ == "__main__":
    typer.run(main)

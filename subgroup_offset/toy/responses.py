"""Responses that solve a problem by a named strategy: the same three lines for plain and execution prompts."""

import random
from typing import NamedTuple

from .problems import ToyProblem, result_odds
from .strategies import STRATEGIES, Strategy, sample_plain_strategy

FOLLOW_SHARE = 0.95  # The rest names another strategy than the preview's: the narrow escape.


class Response(NamedTuple):
    """A response, where in its text the drawn result first stands, and the odds of the results it was drawn from."""

    text: str
    spot: int
    odds: dict[str, float]


def solve(rng: random.Random, problem: ToyProblem, strategy: Strategy) -> Response:
    """A response by `strategy`, for instance `Method: recall\\n7 x 8 = 56\\nAnswer: 56`.

    Success belongs to the strategy that is named, whatever the prompt was: that is why what RL teaches on
    conditioned rollouts carries over to plain prompts.
    """
    odds = {str(n): p for n, p in result_odds(problem.a, problem.b, strategy.success).items()}
    result = rng.choices(list(odds), weights=list(odds.values()))[0]
    head = f"Method: {strategy.name}\n{problem.a} x {problem.b} = "
    return Response(f"{head}{result}\nAnswer: {result}", len(head), odds)


def plain_response(rng: random.Random, problem: ToyProblem) -> Response:
    """A response to the plain prompt, by a strategy drawn with the plain shares."""
    return solve(rng, problem, sample_plain_strategy(rng))


def execution_response(rng: random.Random, problem: ToyProblem, strategy: Strategy) -> Response:
    """A response to an execution prompt that carries a preview of `strategy`."""
    if rng.random() >= FOLLOW_SHARE:
        strategy = rng.choice([other for other in STRATEGIES if other is not strategy])
    return solve(rng, problem, strategy)


def plain_success() -> float:
    """Expected success of plain responses at temperature 1."""
    return sum(s.plain_share * s.success for s in STRATEGIES)


def execution_success(strategy: Strategy) -> float:
    """Expected success of execution responses under a preview of `strategy` at temperature 1."""
    others = [s.success for s in STRATEGIES if s is not strategy]
    return FOLLOW_SHARE * strategy.success + (1 - FOLLOW_SHARE) * sum(others) / len(others)

"""Whether verl's reward can be earned: a ground truth that it cannot read would make every solution wrong."""

from __future__ import annotations

from collections.abc import Iterable

from subgroup_offset.data.build import Problem
from subgroup_offset.data.errors import BadCell, RowErrors

_UNREADABLE = BadCell(
    "is not accepted by verl's reward in a right solution",
    "Give the final answer alone, on one line of at most 280 characters.",
)


def check_scores(problems: Iterable[Problem], data_source: str, errors: RowErrors) -> None:
    """Score a right solution of every problem with verl's ``default_compute_score``; what fails goes to ``errors``.

    Raises:
        NotImplementedError: (verl's) for a data source without a reward.
    """
    from verl.utils.reward_score import default_compute_score

    mark = "####" if data_source == "openai/gsm8k" else "Answer:"
    for problem in problems:
        score = default_compute_score(data_source, f"{mark} {problem.answer}", problem.answer)
        if not (score["acc"] if isinstance(score, dict) else score == 1):
            errors.add(problem.where, problem.id, "ground truth", problem.answer, _UNREADABLE)

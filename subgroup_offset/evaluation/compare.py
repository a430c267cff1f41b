"""Where the grades differ from the training reward, verl's ``math_dapo``.

The reward compares texts, so it misses answers that are spelled otherwise than the reference, and sees the last 300
characters only; on the other hand it takes the first formula of ``$3$ or $4$`` for the answer, and ``x = 4`` at the end
of anything. Training keeps it, as the recipe does; this says what it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.grading import Verdict

TAIL = 300  #: Characters at the end of a response, all that ``math_dapo`` looks at.

EARLIER = "right here only: the answer is not in the last 300 characters"
BOX = "right here only: a box, and no answer line"
SPELLING = "right here only: spelled otherwise than the reference"
ONLY_REWARD = "right for math_dapo only: "


@dataclass(frozen=True)
class Reward:
    """What ``math_dapo`` says of a response."""

    correct: bool
    #: The answer it read, as it normalises it.
    answer: str
    #: Whether the last :data:`TAIL` characters hold the same answer as the whole response.
    sees_answer: bool


def load_reward() -> Callable[[str, str, FoundAnswer | None], Reward]:
    """verl's ``math_dapo`` as a function of response, reference and the answer found; importing verl takes seconds."""
    from verl.utils.reward_score.math_dapo import compute_score

    def reward(response: str, reference: str, found: FoundAnswer | None) -> Reward:
        seen = find_answer(response[-TAIL:])
        scored = compute_score(response, reference)
        same = found is None or (seen is not None and (seen.text, seen.source) == (found.text, found.source))
        return Reward(bool(scored["acc"]), str(scored["pred"]), same)

    return reward


def disagreement(found: FoundAnswer | None, verdict: Verdict, reward: Reward) -> str | None:
    """The kind of a disagreement, or None where both say the same.

    An undecided verdict disagrees with a reward that is right. Of one that is wrong nothing is said: such verdicts are
    reported as undecided anyway.
    """
    if bool(verdict.correct) == reward.correct:
        return None
    if reward.correct:
        return ONLY_REWARD + verdict.reason
    if not reward.sees_answer:
        return EARLIER
    return BOX if found is not None and found.source == "box" else SPELLING

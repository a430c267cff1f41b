"""``algorithm.subgroup.context=plain``: rollouts that were sampled with a preview are trained under the plain prompt.

The prompt of a row is exchanged before verl scores and stores it. So the trainer's log-probabilities, its reference and
its update are all under the plain prompt, the one that is evaluated, and its sequences are shorter. The response, its
mask and the sampler's log-probabilities, which are under the prompt with the preview, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from verl.experimental.agent_loop import AgentLoopOutput

#: The field of every row that says whether it was sampled with a preview (1) or without (0).
GUIDED = "sgo_guided"
#: Keys of the step's metrics: rows that got the plain prompt, and rows that should have.
ROWS_SWAPPED, ROWS_NOT_SWAPPED = "oc/rows_swapped_count", "oc/rows_not_swapped_count"


def exchange_prompt(outputs: Sequence[AgentLoopOutput], sampled: Sequence[int], plain: Sequence[int]) -> int:
    """Put the ids of the plain chat in place of those of the sampled one, in all rows of a session that begin with it.

    Args:
        outputs: the rows of a session; those of several turns carry their history behind the chat. Changed in place.
        sampled: ids of the chat that the agent loop was given.
        plain: ids of the dataset's chat.

    Returns:
        How many rows begin otherwise, and stay as they are.
    """
    left = 0
    for output in outputs:
        ids = list(output.prompt_ids)
        if ids[: len(sampled)] == list(sampled):
            output.prompt_ids = [*plain, *ids[len(sampled) :]]
        else:
            left += 1
    return left

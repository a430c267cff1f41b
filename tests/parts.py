"""A partition of a user's own, for ``test_settings_runs.py``."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.partition import FinishedRollout, Partition, make_partition


def by_method(rollouts: Sequence[FinishedRollout]) -> list[str]:
    """Parts a toy prompt's rollouts by the method that each one names in its first line."""
    return [rollout.text.split("\n", 1)[0] for rollout in rollouts]


#: What each training step uses, from step 1 on.
PARTITIONS: dict[str, Partition] = {
    "length": make_partition("length"),
    "turns": make_partition("turns"),
    "field": make_partition("field", field="pred"),
    "method": by_method,
}


class AnotherEveryStep:
    """Uses one partition after the other, so that one run tries them all."""

    def __call__(self, rollouts: Sequence[FinishedRollout]) -> Sequence[int | str]:
        # The version of the weights that generated the rollout, which verl counts from 0: one update a step.
        version = int(rollouts[0].fields["global_steps"])
        return list(PARTITIONS.values())[version](rollouts)

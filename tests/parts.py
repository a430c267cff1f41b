"""A partition of a user's own, for ``test_settings_runs.py``."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.partition import FinishedRollout


class ByMethod:
    """Parts a toy prompt's rollouts by the method that each one names in its first line."""

    def __call__(self, rollouts: Sequence[FinishedRollout]) -> Sequence[int | str]:
        return [rollout.text.split("\n", 1)[0] for rollout in rollouts]

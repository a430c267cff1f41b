"""RLOO: the mean of the other rollouts as baseline (arXiv 2402.14740).

    A_i = r_i - (1 / (k - 1)) * sum_{j != i} r_j = (r_i - mu_g) * k / (k - 1)

GRPO without a standard deviation, up to a factor that depends on the group's size only. When it degenerates: one
rollout has no others: 0. With lam, the offset has the same scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView


@dataclass(frozen=True)
class RLOO(Method):
    """Slot scale."""

    slots: ClassVar[tuple[str, ...]] = ("scale",)

    def scale(self, g: GroupView) -> Tensor:
        """(B,) k / (k - 1)."""
        return g.k / (g.k - 1).clamp(min=1)

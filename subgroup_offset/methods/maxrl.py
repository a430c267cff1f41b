"""MaxRL: the gradient of the log of a prompt's success rate, which favours prompts that are seldom solved.

    A_i = (s_i - p) / p

on verdicts s, p their mean; as a comparison point in arXiv 2609.04063, of which SignBalance is the mirror image
(success for failure). Rewards of math verifiers are often -1 and 1, for which a division by their mean says nothing:
hence verdicts. When it degenerates: p = 0 has no gradient: 0. One success in k: its advantage is k - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView


@dataclass(frozen=True)
class MaxRL(Method):
    """Slot scale, on verdicts."""

    slots: ClassVar[tuple[str, ...]] = ("scale",)
    on_verdicts: ClassVar[bool] = True

    def scale(self, g: GroupView) -> Tensor:
        """(B,) 1 / p; groups without a success are constant, and 0 whatever it is."""
        return g.k / g.c.clamp(min=1)

"""F-GRPO: a focal weight that takes from prompts which are solved already (arXiv 2602.06717, as quoted by 2609.00444).

    w_i = (1 - p)^gamma        on every row of the group, p = c / k its success rate

When it degenerates: gamma = 0 is GRPO; p = 1 has weight 0, and is constant anyway; p = 0 has weight 1. The source
leaves gamma open (it differs by run); 1.0 here. Rewards that are no verdicts: p counts successes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_number


@dataclass(frozen=True)
class FGRPO(Method):
    """Slot weight; reads verdicts alone."""

    slots: ClassVar[tuple[str, ...]] = ("weight",)
    #: How fast the weight falls with the success rate; 0 is GRPO.
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if require_number("algorithm.subgroup.method.f_grpo.gamma", self.gamma) < 0:
            raise ConfigError(f"algorithm.subgroup.method.f_grpo.gamma={self.gamma} is negative: set it to 0 or above.")

    def weight(self, g: GroupView) -> Tensor:
        """(B,) (1 - p)^gamma."""
        return (1 - g.p) ** self.gamma

"""QAE: a quantile of the group's rewards as baseline, in place of the mean (published code of QAE).

    b_g = inf { x : F_g(x) >= q },   F_g the distribution of the group's rewards: the ceil(q k)-th smallest of them

With verdicts: b = 0 where p <= 1 - q, so that wrong rollouts get exactly 0 and the rare right ones are reinforced;
b = 1 elsewhere, and right rollouts get 0. When it degenerates: a constant group: 0. The published code interpolates
between two rewards (`torch.quantile`; c = 5 of 8 gives b = 0.8 where the definition says 1); here it is the definition.
The group's advantages do not sum to 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_number


@dataclass(frozen=True)
class Quantile(Method):
    """Slot baseline."""

    slots: ClassVar[tuple[str, ...]] = ("baseline",)
    #: q, in (0, 1].
    q: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < require_number("algorithm.subgroup.method.quantile.q", self.q) <= 1:
            raise ConfigError(
                f"algorithm.subgroup.method.quantile.q={self.q} is no share: set it in (0, 1], for example to 0.4."
            )

    def baseline(self, g: GroupView) -> Tensor:
        """(B,) the group's quantile."""
        # Rounded before the ceiling: 0.3 * 10 is a little above 3 in floating point.
        place = torch.ceil((self.q * g.k).mul(1e9).round().div(1e9)).clamp(min=1) - 1
        return g.total(torch.where(g.rank == place, g.r, 0.0))

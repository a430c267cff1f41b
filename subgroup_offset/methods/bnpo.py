"""BNPO: rewards normalised by a Beta density that is fitted to the batch's success rates (code: changyi7231/BNPO).

    A_i = (s_i - p_g) / BetaPDF(p_g; alpha, beta)
    alpha = max(1 + a / 3, 1), beta = max(1 + b / 3, 1)
    a = (m (1 - m) / v - 1) m, b = (m (1 - m) / v - 1) (1 - m),   m, v mean and variance of the p_g of all prompts

on verdicts. When it degenerates: v >= m (1 - m), a batch more spread than any Beta density: a, b <= 0, so that alpha =
beta = 1, the mean as baseline and nothing else. v = 0, or one prompt only: the moments say nothing, and alpha = beta
= 1 is our choice. 1 / density is bounded by `max_weight`. v has ddof 1 (ours; the code's batches are large). The one
method in which a group's advantages depend on the other groups.
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
class BNPO(Method):
    """Slot scale, on verdicts."""

    slots: ClassVar[tuple[str, ...]] = ("scale",)
    on_verdicts: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = ("bnpo/alpha", "bnpo/beta")
    #: Largest 1 / density.
    max_weight: float = 1e6

    def __post_init__(self) -> None:
        if require_number("algorithm.subgroup.method.bnpo.max_weight", self.max_weight) <= 0:
            raise ConfigError(
                f"algorithm.subgroup.method.bnpo.max_weight={self.max_weight} is not above 0: set it to 1e6, for one."
            )

    def scale(self, g: GroupView) -> Tensor:
        """(B,) 1 / density at the group's success rate."""
        alpha, beta = fit(g)
        g.metrics |= {"bnpo/alpha": float(alpha), "bnpo/beta": float(beta)}
        inside = g.p.clamp(1 / (2 * g.k), 1 - 1 / (2 * g.k))  # groups at 0 or 1 are constant
        density = torch.distributions.Beta(alpha, beta).log_prob(inside).exp()
        return (1 / density).clamp(max=self.max_weight)


def fit(g: GroupView) -> tuple[Tensor, Tensor]:
    """alpha and beta, both scalars of 1 or above."""
    share = torch.where(g.valid, 1 / g.k, 0.0)  # each group once
    groups, one = share.sum(), torch.ones((), dtype=torch.float64, device=share.device)
    mean = (share * g.p).sum() / groups
    variance = (share * (g.p - mean).square()).sum() / (groups - 1)
    excess = mean * (1 - mean) / variance - 1
    if groups.round() < 2 or variance < 1e-15:  # what rounding leaves of equal rates
        return one, one
    return (1 + excess * mean / 3).clamp(min=1), (1 + excess * (1 - mean) / 3).clamp(min=1)

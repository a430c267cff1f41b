"""Stratified-GRPO (SAN): rewards normalised within their stratum, blended with GRPO (as described in surveys of it).

    A_i = alpha * (r_i - mu_k) / (sigma_k + eps) + (1 - alpha) * (r_i - mu_g) / (sigma_g + eps),   eps = 1e-6

Strata are the subgroups. alpha has no default that could be verified; 0.8 here. When it degenerates: a stratum of one
rollout, or with equal rewards: its first term is 0. alpha = 0 is GRPO, alpha = 1 GRPO in each subgroup. A lam beside
it would be a second baseline of the subgroup, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from subgroup_offset.advantage import EPSILON
from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_number


@dataclass(frozen=True)
class Stratified(Method):
    """Slots baseline and scale."""

    slots: ClassVar[tuple[str, ...]] = ("baseline", "scale")
    takes_lam: ClassVar[bool] = False
    #: Share of the stratum's own normalisation, in [0, 1].
    alpha: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= require_number("algorithm.subgroup.method.stratified.alpha", self.alpha) <= 1:
            raise ConfigError(
                f"algorithm.subgroup.method.stratified.alpha={self.alpha} is no share: set it within [0, 1]."
            )

    def baseline(self, g: GroupView) -> Tensor:
        """(B,) mu_g, moved towards mu_k by the stratum's share of the scale."""
        share = self._of_stratum(g) / self.scale(g).clamp(min=EPSILON)
        return g.mean + share * (g.sub_mean - g.mean)

    def scale(self, g: GroupView) -> Tensor:
        """(B,) the sum of both terms' factors."""
        return self._of_stratum(g) + (1 - self.alpha) / (g.std() + EPSILON)

    def _of_stratum(self, g: GroupView) -> Tensor:
        return torch.where(g.sub_varied, self.alpha / (g.sub_std() + EPSILON), 0.0)

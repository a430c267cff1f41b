"""How much of the offsets of a batch is no sampling noise, and offsets that are shrunk to it.

A subgroup's mean of Z rewards scatters around its expectation, so offsets differ where nothing is different: at a
success rate of one half, with K = 4 and Z = 8, the mean |delta| of strategies that are all alike is 0.12. Pooled over
the groups g of a batch that have two different rewards (method of moments, empirical Bayes; counting rows only)::

    s2_g  = sum_i (r_i - mu_k(i))^2 / (N_g - K_g)            within subgroups
    S_g   = sum_k Z_k delta_k^2                              between them; E S_g = (K_g - 1) s2_g + n0_g tau2
    n0_g  = N_g - sum_k Z_k^2 / N_g
    tau2  = max(0, sum_g (S_g - (K_g - 1) s2_g)) / sum_g n0_g
    s2    = sum_g (N_g - K_g) s2_g / sum_g (N_g - K_g)
    B_k   = tau2 / (tau2 + s2 / Z_k)                         reliability of the offset of a subgroup of Z_k rollouts

Our own; no paper of the family has it. When it degenerates:

- No group has a subgroup of two rollouts, so that nothing is known of the scatter: B is undefined (None), and an
  offset is taken as it is.
- tau2 = 0, the offsets are no larger than noise makes them: B = 0.
- One subgroup a group: its offset is 0 whatever B.
- B is computed from the rewards that it scales; with 64 prompts its own standard deviation is about 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from subgroup_offset.grouping import GroupStatistics


@dataclass(frozen=True, slots=True)
class Reliability:
    """Of one batch.

    Attributes:
        factors: (S + 1,) B_k, 0 for subgroups without rows.
        mean: over the rollouts of the pooled groups.
    """

    factors: Tensor
    mean: float


def offset_reliability(stats: GroupStatistics) -> Reliability | None:
    """Pooled over a batch of B rows in S subgroups and G groups; None where there is nothing to pool."""
    size = stats.subgroup_count
    there = size > 0
    groups, rollouts = len(stats.mean), _sum_groups(stats, size)
    subgroups = _sum_groups(stats, there.double())
    means = stats.subgroup_sum / size.clamp(min=1)
    deviations = (stats.values - means.index_select(0, stats.subgroup)).square()
    within = torch.zeros(groups, dtype=torch.float64, device=size.device).index_add_(0, stats.group, deviations)
    freedom = rollouts - subgroups
    pooled = stats.varied & (freedom > 0)
    if not pooled.any():
        return None
    variance = within / freedom.clamp(min=1)
    between = _sum_groups(stats, size * stats.offsets().square())
    n0 = rollouts - _sum_groups(stats, size.square()) / rollouts.clamp(min=1)
    excess = (between - (subgroups - 1) * variance)[pooled].sum()
    spread = n0[pooled].sum()
    tau2 = excess.clamp(min=0) / spread if spread > 0 else torch.zeros_like(excess)
    noise = within[pooled].sum() / freedom[pooled].sum()
    factors = torch.where(there & (tau2 > 0), tau2 / (tau2 + noise / size.clamp(min=1)), 0.0)
    rows = pooled.index_select(0, stats.group)
    return Reliability(factors, float(factors.index_select(0, stats.subgroup)[rows].mean()))


def shrunk(offsets: Tensor, stats: GroupStatistics, reliability: Reliability | None) -> Tensor:
    """(S + 1,) offsets times their reliability, less their mean over the rollouts of the group, which stays 0."""
    if reliability is None:
        return offsets
    smaller = offsets * reliability.factors
    size = _sum_groups(stats, stats.subgroup_count).clamp(min=1)
    centre = _sum_groups(stats, stats.subgroup_count * smaller) / size
    varied = stats.varied.index_select(0, stats.parent) & (stats.subgroup_count > 0)
    return torch.where(varied, smaller - centre.index_select(0, stats.parent), 0.0)


def offset_share(stats: GroupStatistics) -> float:
    """D of `lam.py`: E (mu_k - mu_g)^2 / E (r - mu_g)^2, the means without the row's own reward."""
    n = stats.group_count.index_select(0, stats.group)
    z = stats.subgroup_count.index_select(0, stats.subgroup)
    rows = stats.varied.index_select(0, stats.group) & (z > 1)
    if not rows.any():
        return 0.0
    r, n, z = stats.values[rows], n[rows], z[rows]
    group_mean = (stats.mean.index_select(0, stats.group)[rows] * n - r) / (n - 1)
    subgroup_mean = (stats.subgroup_sum.index_select(0, stats.subgroup)[rows] - r) / (z - 1)
    squares = (r - group_mean).square().mean()
    return float((subgroup_mean - group_mean).square().mean() / squares)


def _sum_groups(stats: GroupStatistics, x: Tensor) -> Tensor:
    """(S + 1,) of subgroups -> (G + 1,) of their groups."""
    return torch.zeros(len(stats.mean), dtype=torch.float64, device=x.device).index_add_(0, stats.parent, x)

"""Group-relative advantages with a baseline that is shifted along the subgroup offset.

For a prompt g whose rollouts i fall into subgroups c(i), with rewards r_i, group mean mu_g, group standard deviation
sigma_g and subgroup means mu_c ("One Offset, Two Directions", arXiv 2611.00782, equation numbers from there):

    delta_i  = mu_c(i) - mu_g                                                            Eq. (5)
    b_i      = mu_g + lam * delta_i                                                      Eq. (6)
    A_i      = (r_i - b_i) / sigma_g = (1 - lam) * A_glob_i + lam * A_loc_i              Eq. (7)
    A_glob_i = (r_i - mu_g) / sigma_g,   A_loc_i = (r_i - mu_c(i)) / sigma_g             Eq. (1), (8)
    A_i      = A_glob_i - lam * delta_i / sigma_g                                        Eq. (9)

lam > 0 is Alignment, lam < 0 Contrast, lam = 0 GRPO. When it degenerates:

- All rewards of a group equal, or one rollout only: sigma_g = 0, and every output is exactly 0 (but the mean). It is
  decided by max == min: a computed standard deviation is not exactly 0 for constants such as 0.9.
- One subgroup in a group, or equal subgroup means: delta = 0, plain GRPO whatever lam.
- lam = 1: only differences within a subgroup are left, so a subgroup with equal rewards gets 0.
- One rollout per subgroup: mu_c(i) = r_i, so A = (1 - lam) * A_glob, a rescaled GRPO.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from subgroup_offset.grouping import Grouping, GroupStatistics, group_statistics, index_groups

EPSILON = 1e-6
"""Added to the standard deviation before dividing, as verl's grpo does."""

STD_MODES = ("sample", "population", "none")


@dataclass(frozen=True, slots=True)
class SubgroupAdvantages:
    """What `subgroup_advantages` computed; tensors of shape (B,) on the device of the rewards.

    Rows that did not count (`valid` False) have 0 in all float tensors.

    Attributes:
        advantages: float32, A of Eq. (7).
        global_advantages: float32, A_glob of Eq. (1), what GRPO would give.
        offsets: float32, delta of Eq. (5) as used (after shuffling), in units of the reward.
        offset_term: float32, lam * delta / sigma of Eq. (9).
        group_mean: float32, mu_g, in units of the reward.
        group_std: float32, sigma_g without the 1e-6, exactly 0 for constant groups; the sample one for std "none".
        baseline: float32, b of Eq. (6), in units of the reward.
        valid: bool, the rows that counted.
        constant: bool, rows of groups without two different rewards (groups of one rollout included).
        group: int64, number of the row's prompt.
        subgroup: int64, number of the row's subgroup; different prompts never share one.
    """

    advantages: Tensor
    global_advantages: Tensor
    offsets: Tensor
    offset_term: Tensor
    group_mean: Tensor
    group_std: Tensor
    baseline: Tensor
    valid: Tensor
    constant: Tensor
    group: Tensor
    subgroup: Tensor


@torch.no_grad()
def subgroup_advantages(
    rewards: Tensor,
    prompt_ids: Sequence[Hashable] | Tensor,
    subgroup_ids: Sequence[Hashable] | Tensor,
    lam: float,
    *,
    std: str = "sample",
    valid: Tensor | None = None,
    shuffle_seed: int | None = None,
) -> SubgroupAdvantages:
    """Advantages of a batch of B rollouts in any order, Eqs. (1), (5)-(9).

    Args:
        rewards: (B,) floating point, any device. Statistics are float64, results float32 on the same device.
        prompt_ids: (B,) hashable ids or a tensor; rows with equal ids form a group.
        subgroup_ids: (B,) the same for subgroups, which are within a prompt: one id under two prompts is two
            subgroups. Groups and subgroups may have any sizes.
        lam: the paper's lambda, any finite number (the paper uses -0.7 ... 0.7).
        std: "sample" (ddof 1) or "population" (ddof 0), to which 1e-6 is added, or "none" for no division (Dr.GRPO).
        valid: (B,) bool; rows that are False count in no statistic and get 0. Rows whose reward is not finite are
            treated the same. Neither changes anything for the rows of other groups.
        shuffle_seed: not None for the paper's ablation "Offset shuffling": within a prompt every subgroup gets the
            offset of another one, along a random ring. The ring depends only on the seed, the prompt id and the
            ids of the prompt's subgroups that have valid rows. Offsets still sum to 0 over a group if its
            subgroups are of equal size.

    Raises:
        ValueError: shapes that do not match, an unknown `std`, a `lam` that is not finite.
        TypeError: `rewards` that are not a floating-point tensor.
    """
    if not isinstance(rewards, Tensor) or not rewards.is_floating_point():
        kind = rewards.dtype if isinstance(rewards, Tensor) else type(rewards).__name__
        raise TypeError(f"rewards must be a floating-point tensor, got {kind}; convert with rewards.float()")
    if rewards.dim() != 1:
        raise ValueError(f"rewards must have shape (B,), got {tuple(rewards.shape)}; sum over tokens first")
    prompts = _as_ids("prompt_ids", prompt_ids, len(rewards))
    subgroups = _as_ids("subgroup_ids", subgroup_ids, len(rewards))
    return grouped_advantages(
        rewards, index_groups(prompts, subgroups), lam, std=std, valid=valid, shuffle_seed=shuffle_seed
    )


@torch.no_grad()
def grouped_advantages(
    rewards: Tensor,
    grouping: Grouping,
    lam: float,
    *,
    std: str = "sample",
    valid: Tensor | None = None,
    shuffle_seed: int | None = None,
) -> SubgroupAdvantages:
    """`subgroup_advantages` for rows whose groups are integers already; arguments and errors as there."""
    if std not in STD_MODES:
        raise ValueError(f"std must be one of {', '.join(STD_MODES)}, got {std!r}")
    if not math.isfinite(lam):
        raise ValueError(f"lam must be a finite number, got {lam!r}; 0 is plain GRPO")
    stats = group_statistics(rewards, grouping, valid)
    return offset_advantages(stats, lam, stats.offsets(shuffle_seed), std)


def offset_advantages(stats: GroupStatistics, lam: float, offsets: Tensor, std: str) -> SubgroupAdvantages:
    """Eq. (7) from statistics that are there already; `offsets` (S + 1,), `std` one of STD_MODES."""
    sigma = stats.sigma(ddof=0 if std == "population" else 1)
    divisor = torch.ones_like(sigma) if std == "none" else sigma + EPSILON
    return normal_form(stats, lam, offsets, (1 / divisor).index_select(0, stats.group), sigma=sigma)


@torch.no_grad()
def normal_form(
    stats: GroupStatistics,
    lam: float,
    offsets: Tensor,
    scale: Tensor,
    *,
    sigma: Tensor,
    baseline: Tensor | None = None,
) -> SubgroupAdvantages:
    """A = s * (r - b - lam * delta): Eq. (7) with any offsets, scale and baseline; constant groups get 0.

    Args:
        stats: of B rows.
        lam: the paper's lambda.
        offsets: (S + 1,) delta of each subgroup.
        scale: (B,) s; read only where a row counts and its group is not constant.
        sigma: (G + 1,) standard deviations, to be passed on as `group_std`.
        baseline: (B,) b without the offset's part, read where the row counts; None is mu_g.
    """
    row_varied = stats.varied.index_select(0, stats.group)
    row_scale = torch.where(row_varied, scale, 0.0)
    row_mean = stats.mean.index_select(0, stats.group)
    base = row_mean if baseline is None else torch.where(stats.keep, baseline, 0.0)
    row_offset = offsets.index_select(0, stats.subgroup)
    shift = lam * row_offset
    global_advantages, offset_term = (stats.values - base) * row_scale, shift * row_scale
    row_subgroup = stats.grouping.subgroup.to(stats.group.device)
    return SubgroupAdvantages(
        advantages=(global_advantages - offset_term).float(),
        global_advantages=global_advantages.float(),
        offsets=row_offset.float(),
        offset_term=offset_term.float(),
        group_mean=row_mean.float(),
        group_std=sigma.index_select(0, stats.group).float(),
        baseline=(base + shift).float(),
        valid=stats.keep,
        constant=stats.keep & ~row_varied,
        group=stats.parent.index_select(0, row_subgroup),
        subgroup=row_subgroup,
    )


def _as_ids(name: str, ids: Sequence[Hashable] | Tensor, rows: int) -> Sequence[Hashable]:
    """`ids` as plain Python values, so that 3 means the same whether it came in a tensor, an array or a list."""
    shape = getattr(ids, "shape", None)
    if (len(shape) != 1) if shape is not None else isinstance(ids, str):
        raise ValueError(f"{name} must be one id per row, shape ({rows},), got {'text' if shape is None else shape}")
    if len(ids) != rows:
        raise ValueError(f"{name} must have one id per row: got {len(ids)} ids for {rows} rewards")
    return ids.tolist() if hasattr(ids, "tolist") else ids

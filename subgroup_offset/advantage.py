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

import hashlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which group and subgroup each of B rows is in, as integers.

    Attributes:
        subgroup: (B,) int64, in [0, S).
        parent: (S,) int64, the group of each subgroup, in [0, G).
        num_groups: G.
        names: for each of the S subgroups its (prompt id, subgroup id), which seed the shuffle;
            not needed without one.
    """

    subgroup: Tensor
    parent: Tensor
    num_groups: int
    names: Sequence[tuple[Hashable, Hashable]] = ()


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


def index_groups(prompt_ids: Sequence[Hashable], subgroup_ids: Sequence[Hashable]) -> Grouping:
    """Turn ids (B,) into the integers that the sums are taken over, in order of first appearance."""
    codes: dict[tuple[Hashable, Hashable], int] = {}
    rows = [codes.setdefault(pair, len(codes)) for pair in zip(prompt_ids, subgroup_ids, strict=True)]
    groups: dict[Hashable, int] = {}
    parent = [groups.setdefault(prompt, len(groups)) for prompt, _ in codes]
    return Grouping(
        torch.tensor(rows, dtype=torch.int64), torch.tensor(parent, dtype=torch.int64), len(groups), list(codes)
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
    if valid is not None and valid.shape != rewards.shape:
        expected = tuple(rewards.shape)
        raise ValueError(f"valid must have the shape of rewards, {expected}, got {tuple(valid.shape)}")

    device = rewards.device
    keep = torch.isfinite(rewards)
    if valid is not None:
        keep &= valid.to(device=device, dtype=torch.bool)
    # Rows that do not count are summed into one extra subgroup of one extra group, which nothing reads: no row of a
    # real group sees them, so even a NaN cannot leak, and results stay the same to the bit.
    num_groups, num_subgroups = grouping.num_groups, len(grouping.parent)
    parent = torch.nn.functional.pad(grouping.parent.to(device), (0, 1), value=num_groups)
    row_subgroup = grouping.subgroup.to(device)
    subgroup = torch.where(keep, row_subgroup, num_subgroups)
    group = parent.index_select(0, subgroup)
    values = torch.where(keep, rewards, 0).double()

    def total(size: int, index: Tensor, source: Tensor) -> Tensor:
        return torch.zeros(size, dtype=torch.float64, device=device).index_add_(0, index, source)

    subgroup_count = total(num_subgroups + 1, subgroup, torch.ones_like(values))
    subgroup_sum = total(num_subgroups + 1, subgroup, values)
    group_count = total(num_groups + 1, parent, subgroup_count)
    mean = total(num_groups + 1, parent, subgroup_sum) / group_count.clamp_(min=1)
    row_mean = mean.index_select(0, group)
    # Centred before squaring: with 1000.1 added to every reward the squares alone would lose the spread.
    centred = values - row_mean
    ddof = 0 if std == "population" else 1
    variance = total(num_groups + 1, group, centred * centred) / (group_count - ddof).clamp_(min=1)

    lowest = torch.full_like(mean, torch.inf).scatter_reduce_(0, group, values, "amin")
    highest = torch.full_like(mean, -torch.inf).scatter_reduce_(0, group, values, "amax")
    varied = lowest < highest  # not in the extra group, where all values are 0
    sigma = variance.sqrt_().mul_(varied)
    scale = varied.double() if std == "none" else varied / (sigma + EPSILON)

    offset = subgroup_sum / subgroup_count.clamp(min=1) - mean.index_select(0, parent)
    # Without rows a subgroup has no mean, and rounding gives a constant group offsets that are not quite 0.
    offset = torch.where(varied.index_select(0, parent) & (subgroup_count > 0), offset, 0.0)
    if shuffle_seed is not None:
        keys = _shuffle_keys(grouping.names, shuffle_seed).to(device)
        offset = _rotate(offset, torch.where(subgroup_count > 0, parent, num_groups), keys)

    row_offset, row_scale = offset.index_select(0, subgroup), scale.index_select(0, group)
    shift = lam * row_offset
    global_advantages, offset_term = centred * row_scale, shift * row_scale
    return SubgroupAdvantages(
        advantages=(global_advantages - offset_term).float(),
        global_advantages=global_advantages.float(),
        offsets=row_offset.float(),
        offset_term=offset_term.float(),
        group_mean=row_mean.float(),
        group_std=sigma.index_select(0, group).float(),
        baseline=(row_mean + shift).float(),
        valid=keep,
        constant=keep & (row_scale == 0),
        group=parent.index_select(0, row_subgroup),
        subgroup=row_subgroup,
    )


def _rotate(offset: Tensor, ring: Tensor, keys: Tensor) -> Tensor:
    """Give each subgroup the offset of the next one of its ring, in the order of the keys.

    Args: (S,) offsets, the ring each belongs to (its group, or a spare one for those without rows), sort keys.
    A step along a ring of two or more never ends where it began, so no subgroup keeps its own offset.
    """
    order = torch.argsort(keys, stable=True)
    order = order[torch.argsort(ring[order], stable=True)]
    sorted_ring = ring[order]
    position = torch.arange(len(order), device=order.device)
    first = torch.searchsorted(sorted_ring, sorted_ring)
    last = torch.searchsorted(sorted_ring, sorted_ring, right=True) - 1
    following = torch.where(position == last, first, position + 1)
    rotated = torch.empty_like(offset)
    rotated[order] = offset[order[following]]
    return rotated


def _shuffle_keys(names: Sequence[tuple[Hashable, Hashable]], seed: int) -> Tensor:
    """(S + 1,) sort keys; the last is the spare subgroup's. Python's hash() is salted per process, so not that."""
    digests = (hashlib.blake2b(repr((seed, *name)).encode(), digest_size=8).digest() for name in names)
    keys = [int.from_bytes(digest, "big", signed=True) for digest in digests]
    return torch.tensor([*keys, 0], dtype=torch.int64)


def _as_ids(name: str, ids: Sequence[Hashable] | Tensor, rows: int) -> Sequence[Hashable]:
    """`ids` as plain Python values, so that 3 means the same whether it came in a tensor, an array or a list."""
    shape = getattr(ids, "shape", None)
    if (len(shape) != 1) if shape is not None else isinstance(ids, str):
        raise ValueError(f"{name} must be one id per row, shape ({rows},), got {'text' if shape is None else shape}")
    if len(ids) != rows:
        raise ValueError(f"{name} must have one id per row: got {len(ids)} ids for {rows} rewards")
    return ids.tolist() if hasattr(ids, "tolist") else ids

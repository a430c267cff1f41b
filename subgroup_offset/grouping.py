"""Which rows of a batch belong together, and the sums over them that every formula here is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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


def index_groups(prompt_ids: Sequence[Hashable], subgroup_ids: Sequence[Hashable]) -> Grouping:
    """Turn ids (B,) into the integers that the sums are taken over, in order of first appearance."""
    codes: dict[tuple[Hashable, Hashable], int] = {}
    rows = [codes.setdefault(pair, len(codes)) for pair in zip(prompt_ids, subgroup_ids, strict=True)]
    groups: dict[Hashable, int] = {}
    parent = [groups.setdefault(prompt, len(groups)) for prompt, _ in codes]
    return Grouping(
        torch.tensor(rows, dtype=torch.int64), torch.tensor(parent, dtype=torch.int64), len(groups), list(codes)
    )


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """The sums over groups and subgroups that everything here is made of, in float64.

    Rows that do not count are summed into one extra subgroup of one extra group, which nothing reads: no row of a
    real group sees them, so even a NaN cannot leak, and results stay the same to the bit.

    Attributes:
        grouping: of the B rows, S subgroups and G groups.
        keep: (B,) bool, the rows that count.
        values: (B,) the rewards, 0 where a row does not count.
        subgroup: (B,) int64 in [0, S], S for rows that do not count.
        group: (B,) int64 in [0, G], likewise.
        parent: (S + 1,) int64, the group of each subgroup.
        subgroup_count: (S + 1,) rows that count.
        subgroup_sum: (S + 1,) of rewards.
        group_count: (G + 1,) rows that count, 1 where none does.
        mean: (G + 1,) mu_g.
        varied: (G + 1,) bool, groups with two different rewards. By max and min: a computed standard deviation is
            not exactly 0 for constants such as 0.9.
    """

    grouping: Grouping
    keep: Tensor
    values: Tensor
    subgroup: Tensor
    group: Tensor
    parent: Tensor
    subgroup_count: Tensor
    subgroup_sum: Tensor
    group_count: Tensor
    mean: Tensor
    varied: Tensor

    @property
    def centred(self) -> Tensor:
        """(B,) r - mu_g."""
        return self.values - self.mean.index_select(0, self.group)

    def sigma(self, ddof: int) -> Tensor:
        """(G + 1,) standard deviations, exactly 0 for constant groups."""
        # Centred before squaring: with 1000.1 added to every reward the squares alone would lose the spread.
        squares = _total(len(self.mean), self.group, self.centred.square())
        return (squares / (self.group_count - ddof).clamp_(min=1)).sqrt_().mul_(self.varied)

    def offsets(self, shuffle_seed: int | None = None) -> Tensor:
        """(S + 1,) delta of Eq. (5), 0 in constant groups; each another subgroup's with a `shuffle_seed`."""
        offset = self.subgroup_sum / self.subgroup_count.clamp(min=1) - self.mean.index_select(0, self.parent)
        # Without rows a subgroup has no mean, and rounding gives a constant group offsets that are not quite 0.
        there = self.subgroup_count > 0
        offset = torch.where(self.varied.index_select(0, self.parent) & there, offset, 0.0)
        if shuffle_seed is None:
            return offset
        keys = _shuffle_keys(self.grouping.names, shuffle_seed).to(offset.device)
        return _rotate(offset, torch.where(there, self.parent, self.grouping.num_groups), keys)


@torch.no_grad()
def group_statistics(rewards: Tensor, grouping: Grouping, valid: Tensor | None = None) -> GroupStatistics:
    """The statistics of B rows; arguments and errors as in `subgroup_advantages`."""
    if valid is not None and valid.shape != rewards.shape:
        expected = tuple(rewards.shape)
        raise ValueError(f"valid must have the shape of rewards, {expected}, got {tuple(valid.shape)}")
    device = rewards.device
    keep = torch.isfinite(rewards)
    if valid is not None:
        keep &= valid.to(device=device, dtype=torch.bool)
    num_groups, num_subgroups = grouping.num_groups, len(grouping.parent)
    parent = torch.nn.functional.pad(grouping.parent.to(device), (0, 1), value=num_groups)
    subgroup = torch.where(keep, grouping.subgroup.to(device), num_subgroups)
    group = parent.index_select(0, subgroup)
    values = torch.where(keep, rewards, 0).double()

    subgroup_count = _total(num_subgroups + 1, subgroup, torch.ones_like(values))
    subgroup_sum = _total(num_subgroups + 1, subgroup, values)
    group_count = _total(num_groups + 1, parent, subgroup_count)
    mean = _total(num_groups + 1, parent, subgroup_sum) / group_count.clamp_(min=1)
    lowest = torch.full_like(mean, torch.inf).scatter_reduce_(0, group, values, "amin")
    highest = torch.full_like(mean, -torch.inf).scatter_reduce_(0, group, values, "amax")
    return GroupStatistics(
        grouping=grouping,
        keep=keep,
        values=values,
        subgroup=subgroup,
        group=group,
        parent=parent,
        subgroup_count=subgroup_count,
        subgroup_sum=subgroup_sum,
        group_count=group_count,
        mean=mean,
        varied=lowest < highest,  # not in the extra group, where all values are 0
    )


def _total(size: int, index: Tensor, source: Tensor) -> Tensor:
    """(size,) sums of the float64 `source` over rows of equal `index`."""
    return torch.zeros(size, dtype=torch.float64, device=source.device).index_add_(0, index, source)


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

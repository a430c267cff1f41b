"""A batch as formulas read it: every statistic of a group is there for each of its rows.

A method then reads like its formula: ``(g.success - g.p) / (1 - g.p)`` is a vector with one entry a row. Rows that do
not count (padding, a reward that is not finite, all but the last output of a session) are in a spare group of their
own and have 0 in every statistic; what a method says about them is never read.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from subgroup_offset.grouping import GroupStatistics
from subgroup_offset.methods.rows import Rows


class GroupView:
    """B rows in prompt groups and subgroups, T response tokens wide. All statistics are float64.

    Args:
        stats: of the rows that count: one for each rollout.
        success: (B,) bool, the verifier's verdict on each row.
        mask: (B, T), 0 where a token is none of the policy's.
        rollout: (B,) int64, the row that speaks for each row's rollout: itself but for sessions with several outputs.
        rows: what else is known of the rows.
    """

    def __init__(
        self, stats: GroupStatistics, success: Tensor, mask: Tensor, rollout: Tensor | None, rows: Rows
    ) -> None:
        self.stats = stats
        self.valid = stats.keep
        self.mask = mask != 0
        self.success = (success.to(self.valid.device) & self.valid).double()
        self._rollout, self._rows = rollout, rows
        self._read: dict[str, Tensor] = {}
        #: What methods have to say of the step, by the key it is logged under.
        self.metrics: dict[str, float] = {}

    # Each row's group.

    def total(self, x: Tensor) -> Tensor:
        """(B,) -> (B,): for each row the sum of ``x`` over the rows of its group that count."""
        return self._sum(x, self.stats.group, len(self.stats.mean))

    def average(self, x: Tensor) -> Tensor:
        """(B,) -> (B,): the mean likewise."""
        return self.total(x) / self.k

    @property
    def r(self) -> Tensor:
        """(B,) rewards."""
        return self.stats.values

    @cached_property
    def k(self) -> Tensor:
        """(B,) rollouts of the group, at least 1."""
        return self.stats.group_count.index_select(0, self.stats.group)

    @cached_property
    def c(self) -> Tensor:
        """(B,) successes of the group."""
        return self.total(self.success)

    @property
    def p(self) -> Tensor:
        """(B,) the group's success rate, c / k."""
        return self.c / self.k

    @cached_property
    def mean(self) -> Tensor:
        """(B,) mu_g."""
        return self.stats.mean.index_select(0, self.stats.group)

    def std(self, ddof: int = 1) -> Tensor:
        """(B,) sigma_g, exactly 0 for constant groups."""
        return self.stats.sigma(ddof).index_select(0, self.stats.group)

    @cached_property
    def varied(self) -> Tensor:
        """(B,) bool: the group has two different rewards. All others get advantage 0, whatever a method says."""
        return self.stats.varied.index_select(0, self.stats.group)

    def largest(self, x: Tensor) -> Tensor:
        """(B,) -> (B,): the largest of the rows of the group that count; -inf for rows that do not."""
        x = torch.where(self.valid, x.double(), -torch.inf)
        size = len(self.stats.mean)
        top = torch.full((size,), -torch.inf, dtype=torch.float64, device=x.device)
        return top.scatter_reduce(0, self.stats.group, x, "amax").index_select(0, self.stats.group)

    def differ(self, x: Tensor) -> Tensor:
        """(B,) -> (B,) bool: two rows of the group that count have different values."""
        return self.valid & varied(x.double(), self.stats.group, len(self.stats.mean))

    @cached_property
    def rank(self) -> Tensor:
        """(B,) int64: how many rewards of the group are sorted before the row's, 0 to k - 1; ties in any order."""
        order = torch.argsort(self.r, stable=True)
        order = order[torch.argsort(self.stats.group[order], stable=True)]
        first = torch.searchsorted(self.stats.group[order], self.stats.group[order])
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - first
        return rank

    def number_of_groups(self, where: Tensor) -> float:
        """How many groups the rows ``where`` (B,) bool make up, which must be whole groups."""
        return float((where & self.valid).double().div(self.k).sum().round())

    # Each row's subgroup.

    @cached_property
    def sub_k(self) -> Tensor:
        """(B,) rollouts of the subgroup, at least 1."""
        return self.stats.subgroup_count.clamp(min=1).index_select(0, self.stats.subgroup)

    @cached_property
    def sub_mean(self) -> Tensor:
        """(B,) mu_k."""
        sums = self.stats.subgroup_sum.index_select(0, self.stats.subgroup)
        return sums / self.sub_k

    def sub_std(self, ddof: int = 1) -> Tensor:
        """(B,) sigma_k, up to rounding 0 for a subgroup with equal rewards, and for one row."""
        squares = self._sum((self.r - self.sub_mean) ** 2, self.stats.subgroup, len(self.stats.parent))
        return (squares / (self.sub_k - ddof).clamp(min=1)).sqrt()

    @cached_property
    def sub_varied(self) -> Tensor:
        """(B,) bool: the subgroup has two different rewards."""
        return varied(self.r, self.stats.subgroup, len(self.stats.parent)) & self.valid

    # Each row's tokens.

    def read(self, field: str) -> Tensor:
        """(B, T) what verl keeps of the rows' tokens, such as ``old_log_probs``; 0 outside the mask.

        Raises:
            ConfigError: some rows have no such field; the message says which setting makes verl keep it.
        """
        if field not in self._read:
            values = self._rows.tokens(field, self.mask.any(dim=-1), self.mask.shape[1])
            self._read[field] = torch.where(self.mask, values.to(self.mask.device), 0.0)
        return self._read[field]

    def has(self, field: str) -> bool:
        """Whether `read` would find this field in this run."""
        return self._rows.has(field)

    def objects(self, field: str, where: Tensor) -> list:
        """What the rows ``where`` (B,) bool have in a field of any type, in their order."""
        return self._rows.objects(field, where)

    def of_rollout(self, x: Tensor) -> Tensor:
        """(B,) -> (B,): what the row that speaks for a rollout has, for all of the rollout's rows."""
        return x if self._rollout is None else x.index_select(0, self._rollout)

    def token_sum(self, x: Tensor) -> Tensor:
        """(B, T) -> (B,): the sum of ``x`` over the tokens of each row's rollout, all of its outputs together."""
        sums = torch.where(self.mask, x, 0.0).sum(dim=-1, dtype=torch.float64)
        if self._rollout is None:
            return sums
        return torch.zeros_like(sums).index_add_(0, self._rollout, sums).index_select(0, self._rollout)

    def token_mean(self, x: Tensor) -> Tensor:
        """(B, T) -> (B,): the mean likewise; 0 for a row without tokens."""
        return self.token_sum(x) / self.token_sum(self.mask).clamp(min=1)

    def _sum(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        x = torch.where(self.valid, x, 0.0).double()
        return torch.zeros(size, dtype=torch.float64, device=x.device).index_add_(0, index, x).index_select(0, index)


def varied(x: Tensor, index: Tensor, size: int) -> Tensor:
    """(B,) bool: two different values of ``x`` (B,) among the rows of the same ``index`` (B,) in [0, size)."""
    low = torch.full((size,), torch.inf, dtype=torch.float64, device=x.device).scatter_reduce(0, index, x, "amin")
    high = torch.full_like(low, -torch.inf).scatter_reduce(0, index, x, "amax")
    return (low < high).index_select(0, index)


def partial_credit_groups(rewards: Tensor, success: Tensor, stats: GroupStatistics) -> float:
    """In how many groups equal verdicts have unequal rewards, which a method on verdicts does not see."""
    cell = stats.group * 2 + success.long()
    unequal = varied(torch.where(stats.keep, rewards, 0.0).double(), cell, 2 * len(stats.mean)) & stats.keep
    return float(stats.group[unequal].unique().numel())

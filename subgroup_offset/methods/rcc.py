"""RCC, reward-confidence correction: a baseline that knows how far each rollout has moved (arXiv 2603.13134, abstract).

    b* = mean(r) + 2 Cov(r, d),   d_i = log pi_old(y_i) - log pi_ref(y_i)

the first order in d of E[w^2 r] / E[w^2], w = e^d, which minimises the variance of an importance-weighted gradient of
the group; `form: exact` is that quotient itself. Only the baseline is described: the scale stays what `std` says.

What the source leaves open, and the choice here: d is taken once a batch, before any update (old, not current); its
mean over the tokens of a rollout (`shift: mean`), since e^{2d} of a sum over thousands of tokens means nothing; the
sample covariance; b* is kept within the group's rewards (`clamp`), which a weighted mean never leaves and the
linearisation can. Its sum over the group is -2 k Cov / sigma, not 0: that is the point.

When it degenerates: d constant in a group, as in the first step, where policy and reference are one: GRPO to the bit. A
constant group: 0. A rollout whose log-probabilities are not finite is left out of the covariance, counted, and has the
group's b*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import require_bool, require_choice

_KEY = "algorithm.subgroup.method.rcc"


@dataclass(frozen=True)
class RCC(Method):
    """Slot baseline; reads the log-probabilities of the policy before the update and of the reference."""

    slots: ClassVar[tuple[str, ...]] = ("baseline",)
    needs_labels: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = ("rcc/abs_correction", "rcc/rows_clamped", "rcc/rows_without_shift")
    #: d over the tokens of a rollout: their ``mean`` or their ``sum``.
    shift: str = "mean"
    #: ``linear`` or ``exact``.
    form: str = "linear"
    #: Whether the linear b* is kept within the rewards of its group.
    clamp: bool = True

    def __post_init__(self) -> None:
        require_choice(f"{_KEY}.shift", self.shift, ("mean", "sum"))
        require_choice(f"{_KEY}.form", self.form, ("linear", "exact"))
        require_bool(f"{_KEY}.clamp", self.clamp)

    def baseline(self, g: GroupView) -> Tensor:
        """(B,) b*."""
        difference = g.read("old_log_probs") - g.read("ref_log_prob")
        d = g.token_mean(difference) if self.shift == "mean" else g.token_sum(difference)
        there = g.valid & torch.isfinite(d)
        d = torch.where(there, d, 0.0)
        k = g.total(there.double())
        mean_r, mean_d = (g.total(torch.where(there, x, 0.0)) / k.clamp(min=1) for x in (g.r, d))
        if self.form == "exact":
            # Less the group's largest d: the quotient stays, and nothing overflows.
            top = g.largest(torch.where(there, d, -torch.inf))
            weights = torch.where(there, (2 * (d - torch.where(k > 0, top, 0.0))).exp(), 0.0)
            best = g.total(weights * g.r) / g.total(weights).clamp(min=torch.finfo(torch.float64).tiny)
            correction = torch.where(k > 0, best, g.mean) - g.mean
        else:
            products = torch.where(there, (g.r - mean_r) * (d - mean_d), 0.0)
            correction = 2 * g.total(products) / (k - 1).clamp(min=1)
        alike = ~g.differ(torch.where(there, d, mean_d))
        correction = torch.where(alike, 0.0, correction)
        b = g.mean + correction
        kept = torch.minimum(torch.maximum(b, -g.largest(-g.r)), g.largest(g.r)) if self.clamp else b
        rows = g.valid & g.varied
        if rows.any():
            g.metrics["rcc/abs_correction"] = float((kept - g.mean).abs()[rows].mean())
        g.metrics["rcc/rows_clamped"] = float((rows & (kept != b)).sum())
        g.metrics["rcc/rows_without_shift"] = float((g.valid & ~there).sum())
        return kept

    def check_run(self, config: Any, findings: Any) -> None:
        """The reference's log-probabilities have to be computed."""
        actor = config.actor_rollout_ref.actor
        if not (actor.get("use_kl_loss") or config.algorithm.get("use_kl_in_reward")):
            findings.error(
                f"{_KEY} compares with the reference policy, and actor_rollout_ref.actor.use_kl_loss=False has none: "
                "set actor_rollout_ref.actor.use_kl_loss=True (with kl_loss_coef=0 the loss stays without it)."
            )

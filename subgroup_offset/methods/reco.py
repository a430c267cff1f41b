"""ReCo: rollouts that occur again and again count less, and confident tokens move less (arXiv 2607.26862, abstract).

Two parts, each an option; the source's code was not to be had, so what it leaves open is our choice and named here.

`occurrence`: a rollout's weight is the inverse of how often it is expected in its group of G, 1 / (1 + (G - 1) pi):
it is there once, and each other one is the same with probability pi. A probability of a whole sequence underflows, so
pi is the geometric mean over its tokens (`probability: mean`); `exact` is the sequence's; `duplicates` looks at no
probability and takes 1 / the number of equal responses. With a `cap`, the weight is min(1 / (G pi), cap) instead, as
in a third party's version (cap 5). Weights have mean 1 in each group.

`variance`: PPO's ratio gives way to the ratio of Bernoulli variances v = p (1 - p) / (p_o (1 - p_o)), p and p_o the
token's probability now and before (policy loss `subgroup_reco`). As a differentiated factor v has the wrong sign for
p > 1/2, so it is a weight on log pi: loss = -A * sg[v clipped] * log pi, without gradient where PPO's minimum has none.

When it degenerates: all rollouts equally probable: equal weights, GRPO to the bit. p = p_o: v = 1, PPO's own first
update. p at 0 or 1: kept 1e-4 away. A log-probability that is not finite: its rollout has weight 1 before the mean.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods import losses
from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_bool, require_choice, require_number

_KEY = "algorithm.subgroup.method.reco"
_AWAY = 1e-4


@dataclass(frozen=True)
class ReCo(Method):
    """Slot weight with ``occurrence``, loss with ``variance``."""

    logs: ClassVar[tuple[str, ...]] = ("reco/weight_min", "reco/weight_max", "actor/reco_ratio_max")
    #: Weights by expected occurrence.
    occurrence: bool = True
    #: ``mean``, ``exact`` or ``duplicates``.
    probability: str = "mean"
    #: Largest 1 / (G pi); null for 1 / (1 + (G - 1) pi), which needs none.
    cap: float | None = None
    #: The ratio of variances in the loss.
    variance: bool = False

    def __post_init__(self) -> None:
        require_bool(f"{_KEY}.occurrence", self.occurrence)
        require_bool(f"{_KEY}.variance", self.variance)
        require_choice(f"{_KEY}.probability", self.probability, ("mean", "exact", "duplicates"))
        if self.cap is not None and require_number(f"{_KEY}.cap", self.cap) <= 0:
            raise ConfigError(f"{_KEY}.cap={self.cap} is not above 0: set it to 5, or to null for no cap.")
        if not (self.occurrence or self.variance):
            raise ConfigError(f"{_KEY}.occurrence and {_KEY}.variance are both false: set one, or remove the method.")

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that these settings fill."""
        return *["weight"] * self.occurrence, *["loss"] * self.variance

    @property
    def needs_labels(self) -> bool:
        """Log-probabilities and responses are read from the rows."""
        return self.occurrence

    @property
    def losses(self) -> tuple[str, ...]:
        """The loss that it acts in."""
        return ("subgroup_reco",) if self.variance else ()

    def weight(self, g: GroupView) -> Tensor:
        """(B,) w, with mean 1 over each group."""
        weight = self._duplicates(g) if self.probability == "duplicates" else self._by_probability(g)
        # Equal weights are 1 exactly, which their quotient by the mean need not be.
        weight = torch.where(g.differ(weight), weight / g.average(weight).clamp(min=1e-300), 1.0)
        if g.valid.any():
            found = weight[g.valid]
            g.metrics |= {"reco/weight_min": float(found.min()), "reco/weight_max": float(found.max())}
        return weight

    def _by_probability(self, g: GroupView) -> Tensor:
        logs = g.read("old_log_probs")
        log_pi = g.token_mean(logs) if self.probability == "mean" else g.token_sum(logs)
        pi = log_pi.exp()
        weight = 1 / (1 + (g.k - 1) * pi) if self.cap is None else (1 / (g.k * pi)).clamp(max=self.cap)
        return torch.where(torch.isfinite(log_pi), weight, 1.0)

    def _duplicates(self, g: GroupView) -> Tensor:
        rows = g.valid.nonzero().flatten().tolist()
        texts = zip(g.stats.group[g.valid].tolist(), map(_hashable, g.objects("responses", g.valid)), strict=True)
        texts = list(texts)
        number = Counter(texts)
        weight = torch.ones_like(g.r)
        weight[rows] = torch.tensor([1 / number[text] for text in texts], dtype=weight.dtype, device=weight.device)
        return weight


def reco_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """-A * sg[clip(v)] * log pi; ``rollout_is_weights`` (B, T) or (B, 1) multiply, as in verl's losses.

    Its value is not PPO's, its gradient at the first update is. Where the clipped ratio is the smaller objective there
    is no gradient.
    """
    low, high = losses.bounds(config)
    ratio = variance_ratio(old_log_prob, log_prob.detach())
    _, beyond = losses.clipped(ratio, advantages, 1 - low, 1 + high, None)
    loss = -advantages * torch.where(beyond, 0.0, ratio) * log_prob
    if rollout_is_weights is not None:
        loss = loss * rollout_is_weights
    metrics = losses.step_metrics(old_log_prob, log_prob, response_mask, beyond)
    if response_mask.any():
        metrics["actor/reco_ratio_max"] = float(ratio[response_mask.bool()].max())
    return losses.aggregated(loss, response_mask, loss_agg_mode, config), metrics


def variance_ratio(old: Tensor, new: Tensor) -> Tensor:
    """(B, T) p (1 - p) / (p_o (1 - p_o)) of log-probabilities."""
    p, p_old = (x.exp().clamp(_AWAY, 1 - _AWAY) for x in (new, old))
    return p * (1 - p) / (p_old * (1 - p_old))


def _hashable(ids: Any) -> tuple[Any, ...]:
    return tuple(ids.tolist() if hasattr(ids, "tolist") else ids)


LOSSES = {"subgroup_reco": reco_loss}

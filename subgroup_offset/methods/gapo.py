"""GAPO, group-adaptive clipping: rare successes may move further (arXiv 2609.00444, its formula for eps_hi(c)).

    eps_hi(c) = eps_lo + (eps_max - eps_lo) * (k - c) / (k - 1)       for tokens with A > 0

c of a prompt's k rollouts succeeded; eps_lo and eps_max are verl's `clip_ratio_low` and `clip_ratio_high`. The lower
bound, and the dual clip of negative advantages, are as ever. Policy losses `subgroup_gapo` (each token's ratio) and
`subgroup_gapo_seq` (one ratio a rollout, the geometric mean of its tokens', as GSPO; the paper's main setting). The
paper takes A = r - mu (`std: none`), eps 0.2/0.28 a token, 3e-3/5e-3 or 7e-5/3e-4 a sequence.

The loss sees rows, not groups. So the estimator writes the rarity (k - c) / (k - 1) of each row's group into the one
field that verl hands on (`bound: count`). `bound: advantage` needs no field: it takes A / A_max with A_max = (k - 1) /
k, the same thing for verdicts, `std: none` and lam = 0; with lam it becomes a bound of each row, another method.

When it degenerates: one update a batch: the ratio is 1, nothing is clipped, plain GRPO. c = k: eps_lo, and A = 0.
c = 0 counts as 1. eps_max = eps_lo: verl's vanilla loss to the bit. k = 1: eps_lo, and A = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods import losses
from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import require_choice

_KEY = "algorithm.subgroup.method.gapo"
_ACTOR = "actor_rollout_ref.actor"
#: Above it a clip range can hardly be meant for the mean ratio of a rollout.
_LARGEST_OF_SEQUENCES = 0.05


@dataclass(frozen=True)
class GAPO(Method):
    """Slots clip and loss."""

    losses: ClassVar[tuple[str, ...]] = ("subgroup_gapo", "subgroup_gapo_seq")
    logs: ClassVar[tuple[str, ...]] = ("actor/gapo_eps_min", "actor/gapo_eps_max", "actor/gapo_hit")
    #: What a row's bound follows from: its group's ``count`` of successes, or the row's ``advantage``.
    bound: str = "count"

    def __post_init__(self) -> None:
        require_choice(f"{_KEY}.bound", self.bound, ("count", "advantage"))

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that these settings fill."""
        return ("clip", "loss") if self.bound == "count" else ("loss",)

    @property
    def needs_labels(self) -> bool:
        """The rarity is written to the rows."""
        return self.bound == "count"

    def rarity(self, g: GroupView) -> Tensor:
        """(B,) (k - c) / (k - 1), 0 for rows that do not count."""
        rarity = (g.k - g.c.clamp(min=1)) / (g.k - 1).clamp(min=1)
        return torch.where(g.valid, rarity, 0.0)

    def check_run(self, config: Any, findings: Any) -> None:
        """The clip has to be able to bind, and the field to be its own."""
        actor, algorithm = config.actor_rollout_ref.actor, config.algorithm
        low, high = (actor.get(name) for name in ("clip_ratio_low", "clip_ratio_high"))
        if low is not None and high is not None and high < low:
            findings.error(
                f"{_ACTOR}.clip_ratio_high={high}, the bound of the rarest success, is below {_ACTOR}.clip_ratio_low="
                f"{low}, that of the commonest: {_KEY} needs it at or above, for example 0.28 and 0.2."
            )
        mode = (actor.get("policy_loss") or {}).get("loss_mode")
        if mode == "subgroup_gapo_seq" and high is not None and high > _LARGEST_OF_SEQUENCES:
            findings.warn(
                f"{_ACTOR}.clip_ratio_high={high} is a bound for ratios of tokens, and {_ACTOR}.policy_loss.loss_mode="
                f"{mode} clips the mean of a rollout's, which hardly ever goes so far: set clip_ratio_low and "
                "clip_ratio_high to some thousandths (the paper's are 0.003 and 0.005)."
            )
        if actor.get("ppo_mini_batch_size") == config.data.get("train_batch_size") and actor.get("ppo_epochs") == 1:
            findings.error(
                f"{_ACTOR}.ppo_mini_batch_size={actor.ppo_mini_batch_size} is the whole batch and {_ACTOR}.ppo_epochs=1"
                f": with one update a batch no ratio leaves 1, and {_KEY} never acts. Set ppo_mini_batch_size below "
                f"data.train_batch_size={config.data.train_batch_size}."
            )
        if (algorithm.get("rollout_correction") or {}).get("rollout_is"):
            findings.error(
                f"algorithm.rollout_correction.rollout_is={algorithm.rollout_correction.rollout_is} and {_KEY} cannot "
                "be used together, for both need the field rollout_is_weights: set rollout_is to null."
            )
        if (config.get("distillation") or {}).get("enabled"):
            findings.error(
                f"distillation.enabled=True and {_KEY} cannot be used together: verl's distillation has a loss of its "
                "own, which would multiply by the field that the bounds are in. Set it to False."
            )
        plain = algorithm.get("norm_adv_by_std_in_grpo") is False or algorithm.subgroup.get("std") == "none"
        if self.bound == "advantage" and not plain:
            findings.error(
                f"{_KEY}.bound=advantage reads the bound off r - mu, and algorithm.subgroup.std="
                f"{algorithm.subgroup.get('std', 'sample')} divides it: set algorithm.subgroup.std=none."
            )


def _high(advantages: Tensor, config: Any, rarity: Tensor | None) -> Tensor:
    """The upper bound: of each row (B, 1) by its rarity, of each token (B, T) by its advantage without."""
    low, high = losses.bounds(config)
    if rarity is None:
        largest = (config.rollout_n - 1) / config.rollout_n
        rarity = (advantages / largest).clamp(0, 1)
    # In float64: where both bounds are equal, the sum is to be what verl's own loss clips at, to the bit.
    return 1 + (low + (high - low) * rarity.double())


def gapo_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
    *,
    by_sequence: bool = False,
) -> tuple[Tensor, dict[str, float]]:
    """The clipped loss whose upper bound is each row's own; ``rollout_is_weights`` (B, 1) is the rarity.

    Returns:
        The scalar loss, and metrics of the micro-batch. ``actor/gapo_hit`` is the share of tokens with A > 0 whose
        ratio is beyond its bound.
    """
    if by_sequence:
        ratio, dual = losses.sequence_ratio(old_log_prob, log_prob, response_mask), None
    else:
        ratio, dual = losses.token_ratio(old_log_prob, log_prob), config.get("clip_ratio_c", 3.0)
    high = _high(advantages, config, rollout_is_weights)
    loss, beyond = losses.clipped(ratio, advantages, 1 - losses.bounds(config)[0], high, dual)
    positive = response_mask.bool() & (advantages > 0)
    metrics = losses.step_metrics(old_log_prob, log_prob, response_mask, beyond)
    if dual is not None:
        metrics["actor/pg_clipfrac_lower"] = losses.dual_share(ratio, advantages, response_mask, dual)
    metrics["actor/gapo_hit"] = losses.share(ratio > high, positive)
    there = (high - 1).detach().expand_as(advantages)[response_mask.bool()]
    if there.numel():
        metrics |= {"actor/gapo_eps_min": float(there.min()), "actor/gapo_eps_max": float(there.max())}
    return losses.aggregated(loss, response_mask, loss_agg_mode, config), metrics


def gapo_sequence_loss(*args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, float]]:
    """:func:`gapo_loss` with one ratio a rollout, and no dual clip, as verl's GSPO has none."""
    return gapo_loss(*args, **kwargs, by_sequence=True)


LOSSES = {"subgroup_gapo": gapo_loss, "subgroup_gapo_seq": gapo_sequence_loss}

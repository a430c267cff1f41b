"""OC-GRPO: rollouts sampled with a preview s, trained under the plain prompt x (arXiv 2607.19313 and its code).

    w[t] = clamp( exp( gamma * (log pi_old(y_t | x, y_<t) - log pi_old(y_t | x, s, y_<t)) ), floor, cap )

multiplies the advantage of each token of a guided row; all others have w = 1. The first log-probability is the
trainer's own, since the row's prompt is x (`rollout/context.py`); the second is the sampler's. No extra pass.

`level`: one weight a ``token`` (the paper's code), or one a rollout: exp of the ``mean`` difference, or of its sum,
``sequence``, which is exact and of next to no use (its median was 0.26 for answers of 20 tokens).

When it degenerates:

- A slot without a preview is sampled under the plain prompt: w is exactly 1 there, whatever the engines' kernels say.
  What the two log-probabilities differ by there is the engine gap (`oc/engine_gap`), which biases w downwards because
  of the cap; differences up to `tolerance` count as none.
- A sampler's log-probability that is not finite: w = 1 for that token, counted.
- With top_p < 1 or top_k > 0 the sampler's are those of the renormalised distribution, and w is too small.
- w is an importance weight that the cap and the floor make biased: exact weights would cancel the offsets' expected
  effect, these leave about half of it (docs/methods.md).

`normalize: batch` divides by the mean weight of the step's guided tokens, since a mean over tokens shrinks with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_choice, require_number

_KEY = "algorithm.subgroup.method.oc_grpo"
_ROLLOUT = "actor_rollout_ref.rollout"


@dataclass(frozen=True)
class OCGRPO(Method):
    """Slots context (the worker exchanges the prompt) and token; reads log-probabilities of both."""

    slots: ClassVar[tuple[str, ...]] = ("context", "token")
    needs_labels: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = (
        "oc/weight_mean",
        "oc/share_at_floor",
        "oc/share_at_cap",
        "oc/log_ratio_mean",
        "oc/engine_gap",
        "oc/nonfinite_tokens_count",
    )
    #: Exponent of the weight; 0 makes all weights 1, which is ``context: plain`` alone.
    gamma: float = 1.0
    #: Smallest weight, above 0.
    floor: float = 0.01
    #: Largest weight; 1 never lets a token count for more than it would without.
    cap: float = 1.0
    #: ``token``, ``mean`` or ``sequence``.
    level: str = "token"
    #: ``none`` or ``batch``.
    normalize: str = "none"
    #: Differences of log-probabilities up to this one, in nats, count as none.
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gamma", "floor", "cap"):
            require_number(f"{_KEY}.{name}", getattr(self, name))
        if not self.tolerance == float("inf") and require_number(f"{_KEY}.tolerance", self.tolerance) < 0:
            raise ConfigError(f"{_KEY}.tolerance={self.tolerance} is negative: set it to 0 or above.")
        if self.gamma < 0:
            raise ConfigError(f"{_KEY}.gamma={self.gamma} is negative: set it to 0 (no weights) or above.")
        if not 0 < self.floor <= 1 <= self.cap:
            raise ConfigError(
                f"{_KEY}.floor={self.floor} and {_KEY}.cap={self.cap} do not have 1, the weight of an unguided row, "
                "between them: set floor in (0, 1] and cap to 1 or above."
            )
        require_choice(f"{_KEY}.level", self.level, ("token", "mean", "sequence"))
        require_choice(f"{_KEY}.normalize", self.normalize, ("none", "batch"))

    def token(self, g: GroupView) -> Tensor:
        """(B, T) w, 1 outside guided rows and outside the mask."""
        rows = g.mask.any(dim=-1)
        guided = torch.zeros(len(rows), dtype=torch.bool, device=g.mask.device)
        guided[rows] = torch.tensor([bool(flag) for flag in g.objects("sgo_guided", rows)], device=g.mask.device)
        ratio = g.read("old_log_probs") - g.read("rollout_log_probs")
        broken = g.mask & ~torch.isfinite(ratio)
        ratio = torch.where(broken | (ratio.abs() <= self.tolerance), 0.0, ratio)
        there = g.mask & guided[:, None]
        weights = torch.where(there, self._weights(g, ratio), 1.0)
        self._log(g, ratio, broken, there, weights)
        if self.normalize == "batch" and there.any():
            weights = torch.where(there, weights / weights[there].mean(), weights)
        return weights

    def _weights(self, g: GroupView, ratio: Tensor) -> Tensor:
        if self.level != "token":
            of_rollout = g.token_mean(ratio) if self.level == "mean" else g.token_sum(ratio)
            ratio = of_rollout[:, None].expand_as(ratio)
        return (self.gamma * ratio).exp().clamp(self.floor, self.cap)

    def _log(self, g: GroupView, ratio: Tensor, broken: Tensor, there: Tensor, weights: Tensor) -> None:
        g.metrics["oc/nonfinite_tokens_count"] = float(broken.sum())
        if there.any():
            found = weights[there]
            g.metrics["oc/weight_mean"] = float(found.mean())
            g.metrics["oc/share_at_floor"] = float((found <= self.floor).double().mean())
            g.metrics["oc/share_at_cap"] = float((found >= self.cap).double().mean())
            g.metrics["oc/log_ratio_mean"] = float(ratio[there].mean())
        unguided = g.mask & ~there
        if unguided.any():
            g.metrics["oc/engine_gap"] = float(ratio[unguided].abs().mean())

    def check_run(self, config: Any, findings: Any) -> None:
        """Both log-probabilities have to be there, each under its own prompt."""
        rollout = config.actor_rollout_ref.rollout
        if not rollout.get("calculate_log_probs"):
            findings.error(
                f"{_KEY} compares with the sampler's log-probabilities, and {_ROLLOUT}.calculate_log_probs=False keeps "
                f"none: set {_ROLLOUT}.calculate_log_probs=True."
            )
        if (config.algorithm.get("rollout_correction") or {}).get("bypass_mode"):
            findings.error(
                f"algorithm.rollout_correction.bypass_mode=True takes the sampler's log-probabilities for the "
                f"trainer's, and {_KEY} would compare them with themselves: set it to False, or use "
                "algorithm.subgroup.context=plain without the method."
            )
        if rollout.get("top_p", 1.0) < 1 or rollout.get("top_k", -1) > 0:
            findings.warn(
                f"{_ROLLOUT}.top_p={rollout.get('top_p')} and top_k={rollout.get('top_k')} renormalise the sampler's "
                f"log-probabilities, so that the weights of {_KEY} are too small: set them to 1.0 and -1."
            )

"""What the policy losses of methods have in common; each is verl's own clipped loss but for what its method changes.

verl calls them as ``fn(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config, rollout_is_weights)``
with (B, T) tensors of a micro-batch, in which groups are scattered. ``config`` is verl's ActorConfig; its
``global_batch_info`` has to reach ``agg_loss``, or sharded runs are scaled wrongly.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Bounds of a log ratio before it is exponentiated, as in verl's losses.
TOKEN_LIMIT, SEQUENCE_LIMIT = 20.0, 10.0


def bounds(config: Any) -> tuple[float, float]:
    """The lower and the upper clip range that verl's losses would use."""
    low, high = config.clip_ratio_low, config.clip_ratio_high
    return config.clip_ratio if low is None else low, config.clip_ratio if high is None else high


def token_ratio(old: Tensor, new: Tensor) -> Tensor:
    """(B, T) pi_new / pi_old of each token."""
    return torch.exp(torch.clamp(new - old, min=-TOKEN_LIMIT, max=TOKEN_LIMIT))


def sequence_ratio(old: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    """(B, T) the geometric mean of a row's ratios at each of its tokens, with each token's own gradient (GSPO)."""
    mean = ((new - old) * mask).sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)
    return torch.exp(torch.clamp(new - new.detach() + mean.detach()[:, None], max=SEQUENCE_LIMIT))


def clipped(ratio: Tensor, advantages: Tensor, low: Any, high: Any, dual: float | None) -> tuple[Tensor, Tensor]:
    """PPO's pessimistic loss of each token, and where the ratio is beyond its bound, both (B, T).

    Args:
        ratio: (B, T).
        advantages: (B, T).
        low: lowest ratio, a number or (B, 1).
        high: highest ratio, likewise.
        dual: bound of the loss of a negative advantage, in multiples of it; None for none.
    """
    free = -advantages * ratio
    lowest, highest = (torch.as_tensor(edge, dtype=ratio.dtype, device=ratio.device) for edge in (low, high))
    bound = -advantages * torch.clamp(ratio, lowest, highest)
    loss = torch.maximum(free, bound)
    if dual is not None:
        loss = torch.where(advantages < 0, torch.min(-advantages * dual, loss), loss)
    return loss, torch.gt(bound, free)


def aggregated(loss: Tensor, mask: Tensor, mode: str, config: Any) -> Tensor:
    """The scalar that is differentiated."""
    from verl.trainer.ppo.core_algos import agg_loss

    return agg_loss(loss_mat=loss, loss_mask=mask, loss_agg_mode=mode, **config.global_batch_info)


def share(found: Tensor, among: Tensor) -> float:
    """Of the tokens ``among`` (B, T) bool, those that are ``found``; 0 of none."""
    return float((found & among).sum() / among.sum().clamp(min=1))


def step_metrics(old: Tensor, new: Tensor, mask: Tensor, beyond: Tensor) -> dict[str, float]:
    """What verl's losses log under the same names."""
    kl = ((old - new).detach().clamp(-TOKEN_LIMIT, TOKEN_LIMIT) * mask).sum() / mask.sum().clamp(min=1)
    return {"actor/pg_clipfrac": share(beyond, mask.bool()), "actor/ppo_kl": float(kl)}


def dual_share(ratio: Tensor, advantages: Tensor, mask: Tensor, dual: float) -> float:
    """The share of tokens whose negative advantage is held by the dual clip."""
    return share((advantages < 0) & (ratio > dual), mask.bool())


def register(core_algos: Any) -> None:
    """Make all losses known to verl under their names; calling it again changes nothing."""
    from subgroup_offset.methods import gapo, reco

    for name, loss in {**gapo.LOSSES, **reco.LOSSES}.items():
        core_algos.register_policy_loss(name)(loss)

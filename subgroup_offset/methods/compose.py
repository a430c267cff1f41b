"""One normal form for all methods, and which of them can be used together.

    A[i,t] = u[i,t] * w[i] * s[i] * (r[i] - b[i] - lam * delta[i])

Slots and their functions are in `base.py`. With no method this is `advantage.offset_advantages`, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from subgroup_offset.advantage import EPSILON, SubgroupAdvantages, normal_form, offset_advantages
from subgroup_offset.methods import KEY
from subgroup_offset.methods.base import EXCLUSIVE, Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError


@dataclass(frozen=True, slots=True)
class Composed:
    """What methods make of a batch.

    Attributes:
        result: one entry a row, `result.advantages` with all weights; the other columns without.
        token_weights: (B, T) u, the product of all; None where no method has any.
        credit: (B,) bool rows and (B, T) their advantages before u, in place of the row's; None likewise.
        rarity: (B,) in [0, 1], for the policy loss; None likewise.
    """

    result: SubgroupAdvantages
    token_weights: Tensor | None = None
    credit: tuple[Tensor, Tensor] | None = None
    rarity: Tensor | None = None


def check_together(methods: Mapping[str, Method], lam: Any, std_key: str | None) -> None:
    """Refuse methods that exclude one another, or settings beside which one cannot act.

    Args:
        methods: by name.
        lam: ``algorithm.subgroup.lam``, a number or a rule.
        std_key: the setting by which the run asks for a certain standard deviation, None where it asks for none.

    Raises:
        ConfigError: naming both keys and what they share.
    """
    for slot in EXCLUSIVE:
        owners = [name for name, method in methods.items() if slot in method.slots]
        if len(owners) > 1:
            raise ConfigError(
                f"{KEY}.{owners[0]} and {KEY}.{owners[1]} cannot be used together, for both set the {slot} "
                f"({'|'.join(methods)} are configured): remove one of them."
            )
        if slot == "scale" and owners and std_key is not None:
            raise ConfigError(
                f"{std_key} and {KEY}.{owners[0]} cannot be used together, for both set the scale: remove one of them."
            )
    for name, method in methods.items():
        if lam != 0 and not method.takes_lam:
            raise ConfigError(
                f"algorithm.subgroup.lam={lam} and {KEY}.{name} cannot be used together, for both set the baseline of "
                "a subgroup: set algorithm.subgroup.lam=0, or remove the method."
            )


def compose(view: GroupView, methods: Mapping[str, Method], *, lam: float, offsets: Tensor, std: str) -> Composed:
    """The normal form of a batch.

    Args:
        view: of B rows.
        methods: by name, each with a slot of its own (`check_together`).
        lam: the coefficient of the offsets.
        offsets: (S + 1,) delta of each subgroup, as used.
        std: one of `advantage.STD_MODES`, the scale where no method sets it.
    """
    stats = view.stats

    def filling(slot: str) -> list[Method]:
        return [method for method in methods.values() if slot in method.slots]

    baseline = next((method.baseline(view) for method in filling("baseline")), None)
    scale = next((method.scale(view) for method in filling("scale")), None)
    if baseline is None and scale is None:
        result = offset_advantages(stats, lam, offsets, std)
    else:
        sigma = stats.sigma(ddof=0 if std == "population" else 1)
        if scale is None:
            scale = torch.ones_like(view.r) if std == "none" else 1 / (sigma + EPSILON).index_select(0, stats.group)
        result = normal_form(stats, lam, offsets, scale, sigma=sigma, baseline=baseline)
    for method in filling("weight"):
        weighted = result.advantages.double() * method.weight(view)
        result = replace(result, advantages=torch.where(result.constant | ~view.valid, 0.0, weighted).float())
    tokens: Tensor | None = None
    for method in filling("token"):
        tokens = method.token(view) if tokens is None else tokens * method.token(view)
    return Composed(
        result,
        tokens,
        credit=next((method.credit(view) for method in filling("credit")), None),
        rarity=next((method.rarity(view) for method in filling("clip")), None),
    )

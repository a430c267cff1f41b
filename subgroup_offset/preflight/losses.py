"""A method with a policy loss of its own sets two sides of a run, and verl looks at neither before its first update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgroup_offset.methods import KEY
from subgroup_offset.nearest import nearest
from subgroup_offset.preflight.findings import Findings

if TYPE_CHECKING:
    from subgroup_offset.methods.base import Method

LOSS_KEY = "actor_rollout_ref.actor.policy_loss.loss_mode"
#: How the names of this package's policy losses begin.
PREFIX = "subgroup_"


def check(config: Any, methods: Mapping[str, Method], findings: Findings) -> None:
    """Refuse a method without its loss, a loss without its method, and a name that verl does not know."""
    mode = (config.actor_rollout_ref.actor.get("policy_loss") or {}).get("loss_mode", "vanilla")
    needing = {name: method.losses for name, method in methods.items() if method.losses}
    for name, losses in needing.items():
        if mode not in losses:
            findings.error(
                f"{KEY}.{name} acts in its own policy loss, but {LOSS_KEY}={mode}: set it to {' or '.join(losses)}, "
                f"or add both sides with '+subgroup_method=[{name}]'."
            )
    if mode not in (known := _known_losses()):
        found = nearest(str(mode), known)
        meant = f"did you mean {' or '.join(found)}?" if found else f"use one of {', '.join(sorted(known))}."
        findings.error(f"{LOSS_KEY}={mode} is not registered with verl, which finds out at its first update: {meant}")
    if str(mode).startswith(PREFIX) and not any(mode in losses for losses in needing.values()):
        findings.error(
            f"{LOSS_KEY}={mode} needs the method that it belongs to: add it under {KEY}, or set it to vanilla."
        )


def _known_losses() -> set[str]:
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    return set(POLICY_LOSS_REGISTRY)

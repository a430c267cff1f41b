"""Whose baseline a run trains with: a method takes over verl's ``grpo``, and no other estimator.

Scripts that train GRPO say ``algorithm.adv_estimator=grpo``, and a command line wins over the method's config. GRPO is
what every method here is with lam = 0, so that the word for the method says which of the two is meant.

An estimator of somebody else's may train on our rollouts if it reads their labels (``subgroup_offset.labels``), which
it says by a true attribute of the registered function: ``reads_rollout_labels = True``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME
from subgroup_offset.nearest import nearest
from subgroup_offset.preflight.findings import Findings
from subgroup_offset.preflight.manager import MANAGER_NAME, Rollout, manager_name

KEY = "algorithm.adv_estimator"
#: verl's estimator that a method takes over.
TAKEN_OVER = "grpo"


def asks_for_a_method(config: Any) -> bool:
    """Whether ``algorithm.subgroup`` asks for what verl's estimators do not do: it names a method, or sets lam."""
    section = config.algorithm.get("subgroup")
    return isinstance(section, Mapping) and bool(section.get("name") or section.get("lam"))


def take_over(config: Any, rollout: Rollout, findings: Findings) -> None:
    """Set our estimator where the run says ``grpo`` and asks for a method; the config goes on to the run as it is."""
    if config.algorithm.get("adv_estimator") != TAKEN_OVER:
        return
    if rollout is not Rollout.OURS and not asks_for_a_method(config):
        return
    from omegaconf import read_write

    with read_write(config.algorithm):
        config.algorithm.adv_estimator = ESTIMATOR_NAME
    findings.note(f"{KEY}={TAKEN_OVER} is now {ESTIMATOR_NAME}, for {_asked(config, rollout)}.")


def check(config: Any, rollout: Rollout, findings: Findings) -> None:
    """Refuse an estimator that would not follow the method, or not read the rollouts' labels."""
    name = config.algorithm.get("adv_estimator")
    if name == ESTIMATOR_NAME:
        return
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    function = ADV_ESTIMATOR_REGISTRY.get(name)
    if function is None:
        known = sorted(ADV_ESTIMATOR_REGISTRY)
        meant = nearest(str(name), known)
        findings.error(
            f"{KEY}={name} is not registered with verl: "
            + (f"did you mean {' or '.join(meant)}?" if meant else f"use one of {', '.join(known)}.")
        )
    elif not getattr(function, "reads_rollout_labels", False):
        findings.error(
            f"{KEY}={name} cannot follow {_asked(config, rollout)}: set {KEY}={ESTIMATOR_NAME} (with "
            "algorithm.subgroup.lam=0 it is GRPO). One that reads the labels of the rollouts says so: "
            f"{getattr(function, '__name__', 'its function')}.reads_rollout_labels = True."
        )


def _asked(config: Any, rollout: Rollout) -> str:
    """What the run asks for, by key and value."""
    if rollout is Rollout.OURS and not asks_for_a_method(config):
        name = manager_name(config)
        return f"the labels of {name}" if name == MANAGER_NAME else f"the labels of {name}, a {MANAGER_NAME}"
    section = config.algorithm.subgroup
    return f"algorithm.subgroup.name={section.name}" if section.get("name") else f"algorithm.subgroup.lam={section.lam}"

"""Whose rollout a run samples with, told by the manager's class: a subclass of ours is ours, whatever its name."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

from subgroup_offset.config import ConfigError

MANAGER_NAME = "subgroup_offset.rollout.StrategyAgentLoopManager"
MANAGER_KEY = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"


class Rollout(Enum):
    """Whose rollout it is."""

    VERL = "verl's own, without labels"
    OURS = "this package's"
    OTHER = "somebody else's, which may label its rollouts or not"


def manager_name(config: Any) -> str | None:
    """The dotted path that the run gives; None where it gives none, which is verl's own."""
    return (config.actor_rollout_ref.rollout.get("agent") or {}).get("agent_loop_manager_class")


def rollout_of(config: Any) -> Rollout:
    """Whose rollout the run samples with. Imports the manager's module, unless its name is ours.

    Raises:
        ConfigError: if the manager cannot be imported, which verl would find out after loading the models.
    """
    name = manager_name(config)
    if not name:
        return Rollout.VERL
    if name == MANAGER_NAME:
        return Rollout.OURS
    manager = _load(name)
    if manager.__module__.split(".")[0] == "verl":
        return Rollout.VERL
    # A subclass has imported what it inherits from. Importing that here costs seconds, and says nothing more.
    ours = getattr(sys.modules.get("subgroup_offset.rollout"), "StrategyAgentLoopManager", None)
    return Rollout.OURS if ours is not None and issubclass(manager, ours) else Rollout.OTHER


def _load(name: str) -> type:
    """The class, found as verl finds it."""
    from verl.utils.import_utils import load_class_from_fqn

    try:
        manager = load_class_from_fqn(name, "AgentLoopManager")
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigError(
            f"{MANAGER_KEY}={name} cannot be imported ({type(error).__name__}: {error}), which verl would find out "
            f"after loading the models: set it to {MANAGER_NAME}, or to a class that this process can import too."
        ) from error
    if not isinstance(manager, type):
        raise ConfigError(f"{MANAGER_KEY}={name} is no class: set it to {MANAGER_NAME}, or to a subclass of it.")
    return manager

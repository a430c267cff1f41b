"""Rollouts with subgroups in verl's agent loop: what a run names as its agent loop manager.

``+actor_rollout_ref.rollout.agent.agent_loop_manager_class=subgroup_offset.rollout.StrategyAgentLoopManager``

``worker.py`` runs the strategy stage before a prompt's sessions and labels what they leave (``labelling.py``),
``manager.py`` starts the workers and speaks for them to the trainer, ``watched.py`` ends the prompts of a worker that
died, ``routing.py`` keeps a prompt's requests together.
"""

from subgroup_offset.rollout.manager import StrategyAgentLoopManager
from subgroup_offset.rollout.worker import StrategyAgentLoopWorker

__all__ = ["StrategyAgentLoopManager", "StrategyAgentLoopWorker"]

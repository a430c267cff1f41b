from subgroup_offset.rollout.worker import StrategyAgentLoopManager, StrategyAgentLoopWorker

__all__ = ["StrategyAgentLoopManager", "StrategyAgentLoopWorker"]

"""Faults for ``test_faults.py``: an agent loop some of whose rollouts fail, and workers some of whose requests do."""

from __future__ import annotations

from typing import Any

import ray
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from subgroup_offset.rollout import StrategyAgentLoopManager, StrategyAgentLoopWorker

FAILING_SESSION = 5


class FaultyAgentLoop(SingleTurnAgentLoop):
    """Fails one session of every problem that is asked in the words "What is"."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        if kwargs["session_id"] == FAILING_SESSION and "What is" in kwargs["raw_prompt"][-1]["content"]:
            raise RuntimeError("a rollout of this test fails")
        return await super().run(sampling_params, **kwargs)


class FaultyWorker(StrategyAgentLoopWorker):
    """Every fourth strategy request of a prompt fails."""

    async def _generate_candidate(self, prompt_ids: list[int], index: int) -> Any:
        if index % 4 == 0:
            raise ConnectionError("a strategy request of this test fails")
        return await super()._generate_candidate(prompt_ids, index)


class FaultyManager(StrategyAgentLoopManager):
    """Starts such workers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(max_restarts=-1)(FaultyWorker)

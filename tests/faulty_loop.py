"""Faults for ``test_faults.py``, loaded inside the agent loop workers through verl's ``agent_loop_config_path``.

Importing this module also makes every fourth strategy request fail: it is imported in those workers only.
"""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from subgroup_offset.rollout import StrategyAgentLoopWorker

FAILING_SESSION = 5
_generate = StrategyAgentLoopWorker._generate_candidate


async def _generate_or_fail(self: Any, prompt_ids: list[int], index: int) -> Any:
    if index % 4 == 0:
        raise ConnectionError("a strategy request of this test fails")
    return await _generate(self, prompt_ids, index)


StrategyAgentLoopWorker._generate_candidate = _generate_or_fail


class FaultyAgentLoop(SingleTurnAgentLoop):
    """Fails one session of every problem that is asked in the words "What is"."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        asked = kwargs["raw_prompt"][-1]["content"]
        if "session_id" in kwargs and kwargs["session_id"] == FAILING_SESSION and "What is" in asked:
            raise RuntimeError("a rollout of this test fails")
        return await super().run(sampling_params, **kwargs)

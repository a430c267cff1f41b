"""Faults for ``test_faults.py``: rollouts and requests that fail, workers that kill themselves, no previews."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from subgroup_offset.rollout import StrategyAgentLoopManager, StrategyAgentLoopWorker

FAILING_SESSION = 5
DEADLY_STEP = 2
SPEECHLESS = "<think> nothing comes to mind"
#: Names the directory where deaths leave a mark, so that each happens once.
MARKS = "FAULTY_MARKS"


class FaultyAgentLoop(SingleTurnAgentLoop):
    """Fails one session of every problem that is asked in the words "What is"."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        if kwargs["session_id"] == FAILING_SESSION and "What is" in kwargs["raw_prompt"][-1]["content"]:
            raise RuntimeError("a rollout of this test fails")
        return await super().run(sampling_params, **kwargs)


class FaultyWorker(StrategyAgentLoopWorker):
    """Every fourth strategy request of a prompt fails; one worker dies while it validates, one while it trains.

    In later steps there are no previews any more.
    """

    async def _plan(self, messages: list, step: int, index: object, slots: int) -> Any:
        self._speechless = step > DEADLY_STEP
        return await super()._plan(messages, step, index, slots)

    async def _generate_candidate(self, prompt_ids: list[int], index: int, media: Any) -> Any:
        if index % 4 == 0:
            raise ConnectionError("a strategy request of this test fails")
        candidate = await super()._generate_candidate(prompt_ids, index, media)
        return replace(candidate, text=SPEECHLESS) if self._speechless else candidate

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **kwargs: Any) -> None:
        await super()._agent_loop_postprocess(output, validate, **kwargs)
        if validate or kwargs["global_steps"] == DEADLY_STEP:
            _die_once("validation" if validate else "training")


class FaultyManager(StrategyAgentLoopManager):
    """Starts such workers."""

    worker_class = FaultyWorker


def _die_once(what: str) -> None:
    mark = Path(os.environ[MARKS]) / what
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

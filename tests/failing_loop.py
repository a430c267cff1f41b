"""An agent loop for ``test_eval_run.py`` that fails one sample."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

PROBLEM, SAMPLE = "val-7", 1


class FailingAgentLoop(SingleTurnAgentLoop):
    """verl's own for all other samples."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        if (kwargs["extra_info"]["problem"], kwargs["extra_info"]["sample"]) == (PROBLEM, SAMPLE):
            raise RuntimeError("a sample of this test fails")
        return await super().run(sampling_params, **kwargs)

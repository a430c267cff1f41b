"""An agent loop for ``test_eval_run.py`` that fails one sample, and lets one come to no end."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

PROBLEM, FAILING, ENDLESS = "val-7", 1, 0


class FailingAgentLoop(SingleTurnAgentLoop):
    """verl's own for all other samples."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        sample = kwargs["extra_info"]
        if (sample["problem"], sample["sample"]) == (PROBLEM, FAILING):
            raise RuntimeError("a sample of this test fails")
        if (sample["problem"], sample["sample"]) == (PROBLEM, ENDLESS):
            sampling_params = sampling_params | {"min_tokens": self.response_length}
        return await super().run(sampling_params, **kwargs)

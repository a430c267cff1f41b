"""verl's validation, which keeps every sample on disk as soon as it is finished.

verl itself writes validation samples once, after the last of them, under names (uids) that say neither problem nor
replica. :class:`EvaluationManager`, set as ``actor_rollout_ref.rollout.agent.agent_loop_manager_class``, writes each
sample to ``evaluation.samples_dir`` when its agent loop ends. Single-stage: no prompt is changed.

Every agent loop that the run has configured works. All nodes have to share that directory.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop import AgentLoopOutput

from subgroup_offset.evaluation.generations import SampleWriter
from subgroup_offset.rollout.watched import WatchedManager, WatchedWorker


class EvaluationWorker(WatchedWorker):
    """verl's agent loop worker, for rows of :func:`~subgroup_offset.evaluation.plan.verl_rows`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._writer = SampleWriter(Path(self.config.evaluation.samples_dir))
        self._end_tokens = _end_tokens(self.tokenizer, self.model_config.generation_config)

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            await asyncio.to_thread(self._writer.sync)

    async def _compute_score(self, outputs: list[AgentLoopOutput], kwargs: dict) -> None:
        await super()._compute_score(outputs, kwargs)
        self._writer.write(self._row(outputs[-1], kwargs))
        _keep_little(outputs)

    def _row(self, output: AgentLoopOutput, columns: dict[str, Any]) -> dict[str, Any]:
        """A sample as it is written (``generations.COLUMNS``)."""
        if not output.response_ids:
            raise RuntimeError("the engine gave up a request: its sample is missing, and the next start generates it")
        extra, verdict = columns["extra_info"], output.extra_fields.get("reward_extra_info") or {}
        # An end token in the last place is an end, whatever the length.
        whole = output.response_ids[-1] in self._end_tokens
        return {
            "benchmark": extra["benchmark"],
            "problem": extra["id"],
            "replica": int(extra["replica"]),
            "sample": int(extra["samples"][columns["session_id"]]),
            "response": self.tokenizer.decode(output.response_ids, skip_special_tokens=True),
            "reference": columns["reward_model"]["ground_truth"],
            "prompt_tokens": len(output.prompt_ids),
            "response_tokens": len(output.response_ids),
            "truncated": not whole and len(output.response_ids) >= self.rollout_config.response_length,
            "reward": None if output.reward_score is None else float(output.reward_score),
            "reward_correct": None if verdict.get("acc") is None else float(verdict["acc"]) > 0.5,
        }


def _end_tokens(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Ids of the tokens at which the engine ends a response."""
    ends = getattr(generation_config, "eos_token_id", None)
    ends = ends if isinstance(ends, list | tuple) else [ends]
    return frozenset(token for token in (tokenizer.eos_token_id, *ends) if token is not None)


def _keep_little(outputs: list[AgentLoopOutput]) -> None:
    """Leave verl one token of each response and the reward.

    verl collects all responses, 61,440 of them in the paper's evaluation, in one padded tensor of the driver, decodes
    them one by one and bootstraps every number that the reward returned, while the engines stand idle: ten minutes for
    the bootstrap of so many, one with the reward alone. Nobody looks at that: what counts is on disk.
    """
    for output in outputs:
        output.response_ids, output.response_mask = output.response_ids[-1:], output.response_mask[-1:]
        output.response_logprobs = output.routed_experts = None
        output.extra_fields["reward_extra_info"] = {}


class EvaluationManager(WatchedManager):
    """The prompts of a worker that dies fail, and the run ends."""

    worker_class = EvaluationWorker

"""Two-stage rollouts in verl's agent loop: strategies first, then Z rollouts on each (paper, Eq. 3 and 4).

``+actor_rollout_ref.rollout.agent.agent_loop_manager_class=subgroup_offset.rollout.StrategyAgentLoopManager``

verl's worker owns all sessions of a prompt, so each prompt waits for its own strategy stage and never for another's.
Session i belongs to slot ``i // Z``. Every agent loop the run has configured works: only the chat it is given changes.
Labels travel in the ``uid`` FIELD of the finished rows, which verl's training reads only as the estimator's ``index``;
the TransferQueue KEY, which verl parses, stays as it is. Validation is untouched.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from uuid import uuid4

import ray
import transfer_queue as tq
from verl.experimental.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS
from subgroup_offset.preflight import check_run
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.prompts import Message
from subgroup_offset.strategy.stage import Candidate, Plan, StrategyStage
from subgroup_offset.strategy.stats import StageStats

logger = logging.getLogger(__name__)

# verl exports the Ray actor class; its Python class is what can be inherited from.
_AgentLoopWorkerTQ = AgentLoopWorkerTQ.__ray_metadata__.modified_class

_STATS_TIMEOUT_SECONDS = 60.0


@dataclass
class _PromptState:
    """A training prompt while its sessions run."""

    plan: asyncio.Task[Plan]
    sessions_left: int
    labels: dict[str, RolloutLabel] = field(default_factory=dict)


class StrategyAgentLoopWorker(_AgentLoopWorkerTQ):
    """verl's agent loop worker with a strategy stage before the sessions of each training prompt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        subgroup = SubgroupConfig.from_algorithm(self.config.algorithm)
        self._strategy = subgroup.strategy
        self._prompts: dict[str, _PromptState] = {}
        self._stats = StageStats()
        # The builder every agent loop uses, so that lengths here are the lengths there.
        self._tokens = create_continuous_token_builder(
            self.tokenizer,
            hf_model_type=self.hf_model_type,
            chat_template_kwargs=self.config.data.get("apply_chat_template_kwargs", {}),
            mm_processor_kwargs=self.mm_processor_kwargs,
            processor=self.processor,
        )
        self._special_ids = frozenset(self.tokenizer.all_special_ids)
        self._tool_schemas = [t.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for t in self.tools]
        self._stage = StrategyStage(
            subgroup,
            load_templates(subgroup.strategy),
            generate=self._generate_candidate,
            tokenize=self._tokenize,
            prompt_length=self.rollout_config.prompt_length,
            context_length=self.rollout_config.max_model_len
            or self.rollout_config.prompt_length + self.rollout_config.response_length,
        )

    async def drain_strategy_stats(self) -> StageStats:
        """What the strategy stages of this worker cost and yielded since the last call."""
        stats, self._stats = self._stats, StageStats()
        return stats

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        if trajectory["validate"]:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
            return
        uid = prompt["uid"]
        plan = asyncio.create_task(
            self._stage.run(list(prompt["raw_prompt"]), trajectory["step"], trajectory["sample_index"])
        )
        sessions = prompt.get("__rollout_n__", self.config.actor_rollout_ref.rollout.n)
        self._prompts[uid] = _PromptState(plan, sessions)
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            del self._prompts[uid]
            if not plan.done():
                plan.cancel()
            elif not plan.cancelled() and plan.exception() is None:
                self._stats.add(plan.result().stats)

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **kwargs: Any,
    ) -> Any:
        state = None if trajectory["validate"] else self._prompts.get(kwargs["uid"])
        if state is not None:
            # shield: one session's cancellation must not end the stage that its siblings wait for.
            plan = await asyncio.shield(state.plan)
            kwargs["raw_prompt"] = plan.messages[self._slot(kwargs["session_id"])]
        return await super()._run_agent_loop(sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **kwargs: Any
    ) -> None:
        await super()._agent_loop_postprocess(output, validate, **kwargs)
        uid, session = kwargs["uid"], kwargs["session_id"]
        state = None if validate else self._prompts.get(uid)
        if state is None:
            return
        outputs = output if isinstance(output, list) else [output]
        success = _success(outputs[-1]) if outputs else None
        for i, row in enumerate(outputs):
            label = RolloutLabel(uid, self._slot(session), session, output=i, success=success)
            state.labels[f"{uid}_{session}_{i}"] = label
            self._stats.rollout_tokens += sum(row.response_mask)
        state.sessions_left -= 1
        # One write per prompt, after its last session and before verl publishes its `finished` status. A prompt with a
        # failed session never gets here: verl discards all of its rows.
        if state.sessions_left == 0 and state.labels:
            await _write_labels(state.labels)

    def _slot(self, session: int) -> int:
        return session // self._strategy.rollouts_per_strategy

    async def _tokenize(self, messages: list[Message]) -> list[int]:
        return await asyncio.to_thread(self._tokens.build_initial_tokens, messages, tools=self._tool_schemas or None)

    async def _generate_candidate(self, prompt_ids: list[int], index: int) -> Candidate:
        sampling_params: dict[str, Any] = {
            "temperature": self._strategy.temperature,
            "top_p": self._strategy.top_p,
            "top_k": -1,
            "max_tokens": self._strategy.max_tokens,
            "logprobs": False,
        }
        if self.rollout_config.full_determinism:
            # verl gives every request the same seed then, which would make all candidates one.
            sampling_params["seed"] = self.rollout_config.seed + index
        output = await self.llm_client.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=sampling_params
        )
        # Where the model ends its turn or begins another the preview is over, whatever it goes on to say.
        kept = list(takewhile(lambda token: token not in self._special_ids, output.token_ids))
        return Candidate(self.tokenizer.decode(kept), len(output.token_ids))


async def _write_labels(labels: dict[str, RolloutLabel]) -> None:
    """Replace the ``uid`` field of finished rows by their labels. Tags are left as they are: none are passed."""
    rows = [{"uid": label.encode()} for label in labels.values()]
    await tq.async_kv_batch_put(keys=list(labels), fields=list_of_dict_to_tensordict(rows), partition_id="train")


def _success(output: AgentLoopOutput) -> bool | None:
    """The verifier's verdict: the reward's ``acc`` (above one half) where there is one, else reward > 0."""
    extra = output.extra_fields.get("reward_extra_info") or {}
    if extra.get("acc") is not None:
        return float(extra["acc"]) > 0.5
    return None if output.reward_score is None else bool(output.reward_score > 0)


class StrategyAgentLoopManager(AgentLoopManagerTQ):
    """Starts strategy-stage workers and adds what they measured to the step's metrics."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        check_run(config)
        super().__init__(config, *args, **kwargs)
        self.agent_loop_workers_class = ray.remote(StrategyAgentLoopWorker)

    async def _init_agent_loop_workers(self) -> None:
        await super()._init_agent_loop_workers()
        STEP_METRICS.add_source(self._strategy_metrics)

    def _strategy_metrics(self) -> dict[str, float]:
        total = StageStats()
        calls = [worker.drain_strategy_stats.remote() for worker in self.agent_loop_workers]
        for stats in ray.get(calls, timeout=_STATS_TIMEOUT_SECONDS):
            total.add(stats)
        return total.metrics()

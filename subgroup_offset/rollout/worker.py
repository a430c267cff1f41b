"""Rollouts with subgroups in verl's agent loop.

By default two-stage: strategies first, then Z rollouts on each (paper, Eq. 3 and 4). With another
``algorithm.subgroup.partition`` single-stage: a prompt's finished rollouts are parted by what they are.

``+actor_rollout_ref.rollout.agent.agent_loop_manager_class=subgroup_offset.rollout.StrategyAgentLoopManager``

verl's worker owns all sessions of a prompt, so each prompt waits for its own strategy stage and never for another's.
Session i belongs to slot ``i // Z``. Every agent loop the run has configured works: only the chat it is given changes.
Labels travel in the ``uid`` FIELD of the finished rows, which verl's training reads only as the estimator's ``index``;
the TransferQueue KEY, which verl parses, stays as it is. Validation is untouched.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from uuid import uuid4

import ray
import transfer_queue as tq
from tensordict import TensorDict
from verl.experimental.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS
from subgroup_offset.partition import FinishedRollout, check_labels, make_partition
from subgroup_offset.preflight import check_run
from subgroup_offset.rollout.prompt_tokens import initial_tokens
from subgroup_offset.rollout.routing import RoutedClient, routed
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.prompts import Message
from subgroup_offset.strategy.record import RecordWriter, stage_record
from subgroup_offset.strategy.stage import Candidate, Plan, StrategyStage
from subgroup_offset.strategy.stats import StageStats
from subgroup_offset.rollout.watchdog import WorkerWatchdog

# verl exports the Ray actor class; its Python class is what can be inherited from.
_AgentLoopWorkerTQ = AgentLoopWorkerTQ.__ray_metadata__.modified_class

_DRAIN_TIMEOUT_SECONDS = 60.0


@dataclass
class _PromptState:
    """A training prompt while its sessions run."""

    #: The dataset's row and the step it belongs to.
    prompt: dict[str, Any]
    step: int
    #: The strategy stage; None for single-stage rollouts.
    plan: asyncio.Task[Plan] | None
    sessions: int
    ended: int = 0
    #: Session -> what it did, for those that finished, and how many output rows it has.
    finished: dict[int, FinishedRollout] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)


@dataclass
class Drained:
    """What a worker has gathered since it was last asked."""

    stats: StageStats = field(default_factory=StageStats)
    records: list[dict[str, Any]] = field(default_factory=list)


class StrategyAgentLoopWorker(_AgentLoopWorkerTQ):
    """verl's agent loop worker with a strategy stage before the sessions of each training prompt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._incarnation = uuid4().hex
        self.llm_client = RoutedClient(self.llm_client)
        subgroup = SubgroupConfig.from_algorithm(self.config.algorithm)
        self._subgroup, self._strategy = subgroup, subgroup.strategy
        self._partition = None
        if not subgroup.two_stage:
            self._partition = make_partition(subgroup.partition, subgroup.partition_field, subgroup.partition_buckets)
        self._prompts: dict[str, _PromptState] = {}
        self._drained = Drained()
        self._initial_tokens = initial_tokens(self)
        self._special_ids = frozenset(self.tokenizer.all_special_ids)
        self._stage = StrategyStage(
            subgroup,
            load_templates(subgroup.strategy),
            generate=self._generate_candidate,
            tokenize=self._tokenize,
            prompt_length=self.rollout_config.prompt_length,
            context_length=self.rollout_config.max_model_len
            or self.rollout_config.prompt_length + self.rollout_config.response_length,
        )

    async def incarnation(self) -> str:
        """Names this process: a worker that died and was started again has another."""
        return self._incarnation

    async def drain(self) -> Drained:
        """What this worker has gathered since the last call."""
        drained, self._drained = self._drained, Drained()
        return drained

    async def fail_lost_prompts(self, uids: list[str]) -> int:
        """Give those prompts that have not ended verl's status ``failure``; the number of them.

        What a lost prompt had finished is removed: its rows carry no labels yet.
        """
        failed = 0
        for partition_id, entries in (await tq.async_kv_list()).items():
            open_here = {u for u in entries if entries[u].get("status") in ("pending", "running")}
            lost = open_here.intersection(uids) - self._prompts.keys()  # those may be this process's own by now
            rows = [key for key in entries if key not in lost and key.rsplit("_", 2)[0] in lost]
            if rows:
                await tq.async_kv_clear(keys=rows, partition_id=partition_id)
            for uid in lost:
                await tq.async_kv_put(key=uid, partition_id=partition_id, tag={"status": "failure"})
            failed += len(lost)
        return failed

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        if trajectory["validate"]:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
            return
        uid, step = prompt["uid"], trajectory["step"]
        plan = None
        if self._partition is None:
            with routed(self._route(uid)):
                stage = self._stage.run(list(prompt["raw_prompt"]), step, trajectory["sample_index"])
                plan = asyncio.create_task(stage)
        sessions = prompt.get("__rollout_n__", self.config.actor_rollout_ref.rollout.n)
        state = self._prompts[uid] = _PromptState(dict(prompt), step, plan, sessions)
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            del self._prompts[uid]
            self._gather(state)

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **kwargs: Any,
    ) -> Any:
        uid = kwargs["uid"]
        state = None if trajectory["validate"] else self._prompts.get(uid)
        if state is None:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs
            )
        slot = self._slot(kwargs["session_id"])
        try:
            if state.plan is not None:
                # shield: one session's cancellation must not end the stage that its siblings wait for.
                kwargs["raw_prompt"] = (await asyncio.shield(state.plan)).messages[slot]
            with routed(self._route(uid, slot)):
                return await super()._run_agent_loop(
                    sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs
                )
        finally:
            # One write per prompt, after its last session has ended, well or not, and before verl publishes the
            # prompt's status: verl may train on the rows of a prompt some of whose sessions failed.
            state.ended += 1
            if state.ended == state.sessions and state.finished:
                await self._write_labels(state)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **kwargs: Any
    ) -> None:
        await super()._agent_loop_postprocess(output, validate, **kwargs)
        state = None if validate else self._prompts.get(kwargs["uid"])
        outputs = output if isinstance(output, list) else [output]
        if state is not None and outputs:
            session = kwargs["session_id"]
            state.finished[session] = self._finished(outputs, session, kwargs)
            state.rows[session] = len(outputs)

    def _finished(self, outputs: list[AgentLoopOutput], session: int, columns: dict[str, Any]) -> FinishedRollout:
        """A session as a partition sees it; the text is decoded only where a partition may look at it."""
        last = outputs[-1]
        reward_info = last.extra_fields.get("reward_extra_info") or {}
        return FinishedRollout(
            session=session,
            text="" if self._partition is None else self.tokenizer.decode(last.response_ids, skip_special_tokens=True),
            tokens=sum(sum(row.response_mask) for row in outputs),
            turns=last.num_turns,
            reward=last.reward_score,
            success=_success(last),
            fields={**columns, **last.extra_fields, **reward_info},
            slot=self._slot(session) if self._partition is None else None,
        )

    async def _write_labels(self, state: _PromptState) -> None:
        """Replace the ``uid`` field of a prompt's rows by their labels. Tags stay as they are: none are passed."""
        uid = state.prompt["uid"]
        rollouts = [state.finished[session] for session in sorted(state.finished)]
        keys, fields = [], []
        for rollout, subgroup in zip(rollouts, self._subgroups(state, rollouts), strict=True):
            for output in range(state.rows[rollout.session]):
                label = RolloutLabel(uid, subgroup, rollout.session, output=output, success=rollout.success)
                keys.append(f"{uid}_{rollout.session}_{output}")
                fields.append({"uid": label.encode()})
        await tq.async_kv_batch_put(keys=keys, fields=list_of_dict_to_tensordict(fields), partition_id="train")

    def _subgroups(self, state: _PromptState, rollouts: list[FinishedRollout]) -> list[int | str]:
        if self._partition is not None:
            return check_labels(self._partition(rollouts), rollouts, self._subgroup.partition)
        return [state.plan.result().subgroups[rollout.slot] for rollout in rollouts]

    def _gather(self, state: _PromptState) -> None:
        """Add a prompt that has ended to what the driver will ask for."""
        stats, plan = self._drained.stats, state.plan
        stats.rollout_tokens += sum(rollout.tokens for rollout in state.finished.values())
        if plan is None:
            return
        if not plan.done():
            plan.cancel()
        elif not plan.cancelled() and plan.exception() is None:
            stats.add(plan.result().stats)
            if self._strategy.data_dir is not None:
                self._drained.records.append(self._record(state, plan.result()))

    def _record(self, state: _PromptState, plan: Plan) -> dict[str, Any]:
        return stage_record(
            plan,
            state.prompt["raw_prompt"],
            [(rollout.slot, rollout.reward, rollout.success) for rollout in state.finished.values()],
            {"step": int(state.step), "uid": state.prompt["uid"], "index": state.prompt.get("index")},
            "finished" if len(state.finished) == state.sessions else "failed",
        )

    def _slot(self, session: int) -> int:
        return session // self._strategy.rollouts_per_strategy

    def _route(self, uid: str, slot: int | None = None) -> str | None:
        """The routing key of a prompt's requests. Reproducible runs keep verl's: there each id may be used once."""
        if self._strategy.affinity == "none" or self.rollout_config.full_determinism:
            return None
        return f"{uid}/{slot}" if self._strategy.affinity == "subgroup" and slot is not None else uid

    async def _tokenize(self, messages: list[Message]) -> list[int]:
        return await asyncio.to_thread(self._initial_tokens, messages)

    def _candidate_sampling_params(self, index: int) -> dict[str, Any]:
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
        return sampling_params

    async def _generate_candidate(self, prompt_ids: list[int], index: int) -> Candidate:
        sampling_params = self._candidate_sampling_params(index)
        output = await self.llm_client.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=sampling_params
        )
        # Where the model ends its turn or begins another the preview is over, whatever it goes on to say.
        kept = list(takewhile(lambda token: token not in self._special_ids, output.token_ids))
        return Candidate(self.tokenizer.decode(kept), len(output.token_ids))


def _success(output: AgentLoopOutput) -> bool | None:
    """The verifier's verdict: the reward's ``acc`` (above one half) where there is one, else reward > 0."""
    extra = output.extra_fields.get("reward_extra_info") or {}
    if extra.get("acc") is not None:
        return float(extra["acc"]) > 0.5
    return None if output.reward_score is None else bool(output.reward_score > 0)


class StrategyAgentLoopManager(AgentLoopManagerTQ):
    """Starts the workers, watches them, and adds what they gathered to the step's metrics and records."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        check_run(config)
        super().__init__(config, *args, **kwargs)
        # A worker that dies is started again; the watchdog fails the prompts it had.
        self.agent_loop_workers_class = ray.remote(max_restarts=-1)(StrategyAgentLoopWorker)
        data_dir = SubgroupConfig.from_algorithm(config.algorithm).strategy.data_dir
        self._records = None if data_dir is None else RecordWriter(data_dir)

    async def _init_agent_loop_workers(self) -> None:
        await super()._init_agent_loop_workers()
        self._watchdog = WorkerWatchdog(self.agent_loop_workers)
        STEP_METRICS.add_source(self._drain_workers)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """As verl's, which splits the batch over the workers in this way."""
        for worker, chunk in enumerate(prompts.chunk(len(self.agent_loop_workers))):
            self._watchdog.expect(worker, list(chunk["uid"]))
        super().generate_sequences(prompts)

    def _drain_workers(self) -> dict[str, float]:
        total = StageStats()
        calls = [worker.drain.remote() for worker in self.agent_loop_workers]
        for drained in ray.get(calls, timeout=_DRAIN_TIMEOUT_SECONDS):
            total.add(drained.stats)
            if self._records is not None:
                self._records.write(drained.records)
        return {**total.metrics(), "strategy/worker_restarts": float(self._watchdog.restarts)}

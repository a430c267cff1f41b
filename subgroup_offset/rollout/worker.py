"""verl's agent loop worker with subgroups.

By default two-stage: strategies first, then Z rollouts on each (paper, Eq. 3 and 4). With another
``algorithm.subgroup.partition`` single-stage: a prompt's finished rollouts are parted by what they are.

verl's worker owns all sessions of a prompt, so each prompt waits for its own strategy stage and never for another's.
Every agent loop the run has configured works: only the chat it is given changes. Validation is untouched.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import dropwhile, takewhile
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop import AgentLoopOutput

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.logs import WarnOnce
from subgroup_offset.metrics import number
from subgroup_offset.partition import FinishedRollout, check_labels, make_partition
from subgroup_offset.rollout.context import GUIDED, ROWS_NOT_SWAPPED, ROWS_SWAPPED, exchange_prompt
from subgroup_offset.rollout.group import FinishedGroup
from subgroup_offset.rollout.guard import PromptOutcomes
from subgroup_offset.rollout.labelling import verdict, withdraw_rows, write_labels
from subgroup_offset.rollout.prompt_tokens import Chat, Media
from subgroup_offset.rollout.routing import route_client, routed
from subgroup_offset.rollout.state import Drained, PromptState
from subgroup_offset.rollout.watched import WatchedWorker
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.record import stage_record
from subgroup_offset.strategy.stage import Candidate, SlotPlan, StrategyStage

logger = logging.getLogger(__name__)


class StrategyAgentLoopWorker(WatchedWorker):
    """verl's agent loop worker with a strategy stage before the sessions of each training prompt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.llm_client = route_client(self.llm_client)
        subgroup = SubgroupConfig.from_algorithm(self.config.algorithm)
        self._subgroup, self._strategy = subgroup, subgroup.strategy
        self._group_methods = [method for method in subgroup.methods().values() if method.sees_groups]
        self._partition = None
        if not subgroup.two_stage:
            self._partition = make_partition(subgroup.partition, subgroup.partition_field, subgroup.partition_buckets)
        # Asynchronous trainers replace a prompt with a failed session; the synchronous one trains on its other rows.
        self._whole_prompts = self.config.trainer.v1.trainer_mode != "sync"
        self._prompts: dict[str, PromptState] = {}
        self._drained = Drained()
        self._warn_once = WarnOnce(logger)
        self._chat = Chat(self)
        self._stage = StrategyStage(
            subgroup,
            load_templates(subgroup.strategy),
            generate=self._generate_candidate,
            tokenize=self._chat.tokens,
            prompt_length=self.rollout_config.prompt_length,
            context_length=self.rollout_config.max_model_len
            or self.rollout_config.prompt_length + self.rollout_config.response_length,
        )

    async def drain(self) -> Drained:
        """What this worker has gathered since the last call."""
        drained, self._drained = self._drained, Drained()
        return drained

    async def outcomes(self) -> PromptOutcomes:
        """How prompts ended since the last call of this method or of :meth:`drain`."""
        outcomes, self._drained.outcomes = self._drained.outcomes, PromptOutcomes()
        return outcomes

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        if trajectory["validate"]:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
            return
        uid = prompt["uid"]
        state = self._prompts[uid] = self._begin(prompt, trajectory)
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            del self._prompts[uid]
            self._gather(state)

    def _begin(self, prompt: dict[str, Any], trajectory: dict[str, Any]) -> PromptState:
        """Start the strategy stage of a prompt."""
        sessions = int(prompt.get("__rollout_n__", self.config.actor_rollout_ref.rollout.n))
        slots = plan = None
        if self._partition is None:
            sizes = self._strategy.slot_sizes(sessions)
            slots = [slot for slot, size in enumerate(sizes) for _ in range(size)]
            stage = self._plan(list(prompt["raw_prompt"]), trajectory["step"], trajectory["sample_index"], len(sizes))
            with routed(self._route(prompt["uid"])):
                plan = asyncio.create_task(stage)
        return PromptState(dict(prompt), trajectory["step"], slots, plan, sessions)

    async def _plan(self, messages: list[dict[str, Any]], step: int, index: object, slots: int) -> SlotPlan:
        media = await self._chat.media(messages)
        if media is not None and self._subgroup.plain_context:
            raise ConfigError(
                "algorithm.subgroup.context=plain (method.oc_grpo sets it, too) exchanges a prompt's token ids, and "
                "cannot where they stand for images or other media: set algorithm.subgroup.context=sampled."
            )
        return await self._stage.run(messages, step, index, slots, media)

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
        if state is None:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs
            )
        slot = None if state.slots is None else state.slots[kwargs["session_id"]]
        try:
            if state.plan is not None:
                # shield: one session's cancellation must not end the stage that its siblings wait for.
                kwargs["raw_prompt"] = (await asyncio.shield(state.plan)).messages[slot]
            with routed(self._route(kwargs["uid"], slot)):
                return await super()._run_agent_loop(
                    sampling_params, trajectory, agent_name=agent_name, trace=trace, **kwargs
                )
        except BaseException as error:
            state.error = state.error or error
            raise
        finally:
            # After the last session has ended, well or not, and before verl publishes the prompt's status: verl may
            # train on the rows of a prompt some of whose sessions failed.
            state.ended += 1
            if state.ended == state.sessions and state.finished:
                await self._label(state)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **kwargs: Any
    ) -> None:
        state = None if validate else self._prompts.get(kwargs["uid"])
        outputs = output if isinstance(output, list) else [output]
        if state is not None and self._subgroup.plain_context:
            await self._train_under_plain_prompt(state, kwargs["session_id"], outputs)
        await super()._agent_loop_postprocess(output, validate, **kwargs)
        if state is not None and outputs:
            session = kwargs["session_id"]
            state.rows[session] = len(outputs)
            if self._group_methods:
                state.outputs[session] = outputs
            state.finished[session] = self._finished(outputs, session, state, kwargs)

    async def _train_under_plain_prompt(self, state: PromptState, session: int, outputs: list[AgentLoopOutput]) -> None:
        plan, slot = state.plan.result(), state.slots[session]
        if plan.previews[slot] is None:
            return
        for chat, messages in ((slot, plan.messages[slot]), (None, state.prompt["raw_prompt"])):
            if chat not in state.chat_ids:
                state.chat_ids[chat] = await self._chat.tokens(list(messages))
        left = exchange_prompt(outputs, state.chat_ids[slot], state.chat_ids[None])
        self._drained.counts.update({ROWS_SWAPPED: len(outputs) - left, ROWS_NOT_SWAPPED: left})

    def _finished(
        self, outputs: list[AgentLoopOutput], session: int, state: PromptState, columns: dict[str, Any]
    ) -> FinishedRollout:
        """A session as a partition sees it; the text is decoded only where a partition may look at it."""
        last = outputs[-1]
        reward_info = last.extra_fields.get("reward_extra_info") or {}
        reward = number(last.reward_score)
        success = verdict(reward, reward_info.get("acc"))
        if success is None and reward_info.get("acc") is not None:
            self._drained.unknown_verdicts += 1
            self._warn_once(
                "acc",
                f"The reward's acc={reward_info['acc']!r} is no number: whether its rollout succeeded is then told by "
                "its reward, above 0 or not (counted in rollout/unknown_verdicts). Let the reward return 0 or 1.",
            )
        return FinishedRollout(
            session=session,
            text="" if self._partition is None else self.tokenizer.decode(last.response_ids, skip_special_tokens=True),
            tokens=sum(sum(row.response_mask) for row in outputs),
            turns=last.num_turns,
            reward=reward,
            success=success,
            fields={**columns, **last.extra_fields, **reward_info},
            slot=None if state.slots is None else state.slots[session],
        )

    async def _label(self, state: PromptState) -> None:
        """Label a prompt's rows; where that fails they leave the step, and the prompt has failed."""
        uid = state.prompt["uid"]
        rollouts = [state.finished[session] for session in sorted(state.finished)]
        try:
            for method in self._group_methods:
                group = FinishedGroup(state.prompt, rollouts, state.outputs, self._chat, self.tokenizer, self.config)
                self._drained.counts.update(await method.finish_group(group))
            await write_labels(
                uid, rollouts, self._subgroups(state, rollouts), state.rows, self._marks(state, rollouts)
            )
        except Exception as error:
            state.withdrawn = error
            logger.error("prompt %s cannot be labelled and leaves the step: %s: %s", uid, type(error).__name__, error)
            await withdraw_rows(uid, state.rows)
            raise

    def _marks(self, state: PromptState, rollouts: list[FinishedRollout]) -> list[dict[str, int]] | None:
        """Which rollouts had a preview, where they are trained without."""
        if not self._subgroup.plain_context:
            return None
        previews = state.plan.result().previews
        return [{GUIDED: int(previews[rollout.slot] is not None)} for rollout in rollouts]

    def _subgroups(self, state: PromptState, rollouts: list[FinishedRollout]) -> list[int | str]:
        if self._partition is not None:
            return check_labels(self._partition(rollouts), rollouts, self._subgroup.partition)
        return [state.plan.result().subgroups[rollout.slot] for rollout in rollouts]

    def _gather(self, state: PromptState) -> None:
        """Add a prompt that has ended to what the driver will ask for."""
        drained, plan = self._drained, state.plan
        lost = state.withdrawn or (state.error if self._whole_prompts or not state.finished else None)
        if lost is None:
            drained.outcomes.kept += 1
        else:
            drained.outcomes.lose(lost)
        drained.stats.rollout_tokens += sum(rollout.tokens for rollout in state.finished.values())
        if plan is None:
            return
        if not plan.done():
            plan.cancel()
        elif not plan.cancelled() and plan.exception() is None:
            drained.stats.add(plan.result().stats)
            if self._strategy.data_dir is not None:
                drained.dropped_records += len(drained.records) == drained.records.maxlen
                drained.records.append(self._record(state, plan.result()))

    def _record(self, state: PromptState, plan: SlotPlan) -> dict[str, Any]:
        return stage_record(
            plan,
            state.prompt["raw_prompt"],
            [(rollout.slot, rollout.reward, rollout.success) for rollout in state.finished.values()],
            {"step": int(state.step), "uid": state.prompt["uid"], "index": state.prompt.get("index")},
            "finished" if len(state.finished) == state.sessions and state.withdrawn is None else "failed",
        )

    def _route(self, uid: str, slot: int | None = None) -> str | None:
        """The routing key of a prompt's requests. Reproducible runs keep verl's: there each id may be used once."""
        if self._strategy.affinity == "none" or self.rollout_config.full_determinism:
            return None
        return f"{uid}/{slot}" if self._strategy.affinity == "subgroup" and slot is not None else uid

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

    async def _generate_candidate(self, prompt_ids: list[int], index: int, media: Media | None) -> Candidate:
        output = await self.llm_client.generate(
            request_id=uuid4().hex,
            prompt_ids=prompt_ids,
            sampling_params=self._candidate_sampling_params(index),
            **(media.request() if media else {}),
        )
        return Candidate(self.tokenizer.decode(self._turn(output.token_ids)), len(output.token_ids))

    def _turn(self, token_ids: list[int]) -> list[int]:
        """What the model says before it ends its turn or begins another, whatever it goes on to say.

        Special tokens at the very start open the turn, and think tags are part of it.
        """
        ends = self._chat.turn_ends
        return list(takewhile(lambda token: token not in ends, dropwhile(lambda token: token in ends, token_ids)))

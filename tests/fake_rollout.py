"""A real agent loop worker of this package in the test's own process: its engine and its TransferQueue are fakes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from memory_queue import MemoryQueue
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.utils import tensordict_utils as tu
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from subgroup_offset.labels import RolloutLabel
from subgroup_offset.rollout import StrategyAgentLoopWorker

#: What a session of a prompt comes to: the reward, fields and text of each of its outputs; or it raises.
Outcome = Callable[[int], list[dict[str, Any]]]

#: Rollouts a prompt, strategies and rollouts on each, of the ``rollout`` fixture.
N, K, Z = 8, 4, 2
WORDS = ("add", "halve", "count", "draw", "guess", "sort", "fold", "shift", "trade", "weigh", "scale", "split")


def preview(word: str) -> str:
    """A well-formed preview that has nothing but its headers in common with one of another word."""
    return f"[KEY CONDITIONS]\n- {word} {word}1 {word}2\n[KEY IDEA]\n- {word}3 {word}4"


class FakeEngine(LLMServerClient):
    """Answers strategy requests with previews and rollouts with a token; notes what it was asked."""

    def __init__(self, config: Any, tokenizer: Any) -> None:
        super().__init__(config)
        self.fake_tokenizer = tokenizer
        self.asked: list[dict[str, Any]] = []
        #: The text of a candidate, by its number among the strategy requests; raises where the request should fail.
        self.candidate: Callable[[int], str] = lambda number: preview(WORDS[number % len(WORDS)])

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict, **kwargs: Any) -> Any:
        strategy = "max_tokens" in sampling_params
        number = sum(call["strategy"] for call in self.asked)
        self.asked.append({"route": request_id, "strategy": strategy, "prompt_ids": prompt_ids, **kwargs})
        await asyncio.sleep(0)
        if not strategy:
            return TokenOutput(token_ids=[5], extra_fields={})
        ids = self.fake_tokenizer.encode(self.candidate(number), add_special_tokens=False)
        return TokenOutput(token_ids=ids, extra_fields={})


@register("fake")
class FakeLoop(AgentLoopBase):
    """An agent loop with the outcome that the dataset's row says: ``outcome(session)`` gives its outputs or raises."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        messages = list(kwargs["raw_prompt"])
        prompt_ids = await self.ct_build_initial_tokens(messages)
        await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=sampling_params
        )
        for _ in range(random.Random(f"{kwargs['uid']}{kwargs['session_id']}").randrange(4)):
            await asyncio.sleep(0)
        return [self._output(prompt_ids, row) for row in kwargs["outcome"](kwargs["session_id"])]

    def _output(self, prompt_ids: list[int], row: dict[str, Any]) -> AgentLoopOutput:
        ids = self.tokenizer.encode(row.get("text", "12"), add_special_tokens=False)
        output = AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=ids,
            response_mask=[1] * len(ids),
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields={**row.get("fields", {}), "reward_extra_info": row.get("info", {})},
        )
        output.reward_score = row.get("reward", 0.0)  # as verl sets it, whatever its type
        return output


def solved(session: int) -> list[dict[str, Any]]:
    """The outcome of a rollout that solved its problem, in one output."""
    return [{"reward": 1.0, "info": {"acc": 1.0}}]


class FakeRollout:
    """One worker, its engine and its queue.

    Args:
        monkeypatch: puts the queue in place.
        config: a composed one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: Any, worker: type = StrategyAgentLoopWorker) -> None:
        self.queue = MemoryQueue()
        self.queue.install(monkeypatch)
        OmegaConf.set_struct(config, False)
        config.actor_rollout_ref.rollout.agent.default_agent_loop = "fake"
        OmegaConf.resolve(config)  # as the run does before it makes a worker
        self.config = config
        self.engine = FakeEngine(config, None)
        self.worker = worker(config, self.engine, None, None)
        self.engine = self.worker.llm_client
        self.engine.fake_tokenizer = self.worker.tokenizer

    async def send(self, prompts: dict[str, Outcome], validate: bool = False, **columns: Any) -> str:
        """Hand prompts (uid -> outcome) to the worker as the trainer does; they run in the background."""
        count = len(prompts)
        for uid in prompts:
            await self.queue.async_kv_put(uid, "val" if validate else "train", {"status": "pending", "is_prompt": True})
        chats = [[{"role": "user", "content": f"What is {i} plus 2?"}] for i in range(count)]
        rows = {
            "uid": np.array(list(prompts), dtype=object),
            "outcome": objects(prompts.values()),
            "raw_prompt": objects(columns.pop("raw_prompt", chats)),
            "index": np.arange(count),
            **columns,
        }
        batch = tu.get_tensordict(rows)
        tu.assign_non_tensor_data(batch, "global_steps", 1)
        if validate:
            tu.assign_non_tensor_data(batch, "validate", True)
        return await self.worker.generate_sequences(batch)

    async def settle(self) -> None:
        """Wait until the worker has nothing left to do."""
        while self.worker.background_tasks:
            await asyncio.gather(*self.worker.background_tasks, return_exceptions=True)

    def roll_out(self, prompts: dict[str, Outcome], validate: bool = False, **columns: Any) -> None:
        """Send prompts and wait for their end."""

        async def run() -> None:
            await self.send(prompts, validate, **columns)
            await self.settle()

        asyncio.run(run())

    def ask(self, call: Any) -> Any:
        """What one of the worker's methods returns."""
        return asyncio.run(call)


def labels_of(rollout: FakeRollout, uid: str) -> dict[str, RolloutLabel]:
    """The labels of a prompt's rows, by key."""
    return {key: RolloutLabel.decode(row["uid"]) for key, row in rollout.queue.rows(uid).items()}


def in_order(labels: dict[str, RolloutLabel]) -> list[RolloutLabel]:
    """By session and output."""
    return sorted(labels.values(), key=lambda label: (label.session, label.output))


def objects(values: Any) -> np.ndarray:
    """Any values as a column of a batch."""
    values = list(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column

"""What ``bench_rollout.py`` loads into its run: the same workload, rolled out in another way at every step.

One run and one set of engines for all ways, in turn, so that a busy machine disturbs them alike. Responses have a fixed
spread of lengths (log-normal, the same for all ways of a round), whatever the model would have said.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import ray
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from subgroup_offset.rollout import StrategyAgentLoopManager, StrategyAgentLoopWorker
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.stage import Candidate, SlotPlan
from subgroup_offset.strategy.stats import StageStats

#: Without a strategy stage; with a barrier over the batch between the stages; as the package does; other affinities;
#: the default affinity with the preview in front of the problem.
WAYS = ("single", "barrier", "package", "none", "subgroup", "prompt", "preview first")
AFFINITIES = {"none": "none", "subgroup": "subgroup", "prompt": "prompt", "preview first": "prompt"}
PREVIEW_FIRST = """The following preview outlines an approach to the problem below. Follow it while you solve \
the problem. If the preview is empty or clearly flawed, reason on your own instead.

{{ preview }}

Problem:

{{ problem }}"""

VARIABLE = "BENCH_WORKLOAD"


@dataclass(frozen=True)
class Workload:
    """What every way has to do, and the order of the ways."""

    ways: tuple[str, ...]
    prompts: int
    #: Response lengths: log-normal with this median and sigma, cut off at ``longest``. Tokens.
    median: float
    sigma: float
    longest: int
    #: Share of candidates that go on after their preview until ``strategy.max_tokens``.
    drift: float
    #: Words of made-up previews, for templates that the toy's model does not know; 0: what it says.
    preview_words: int = 0

    def to_text(self) -> str:
        """As the run's environment carries it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Workload:
        """The workload of this run."""
        values = json.loads(os.environ[VARIABLE])
        return cls(**{**values, "ways": tuple(values["ways"])})

    def round_of(self, step: int) -> int:
        """Steps are grouped into rounds, in each of which every way comes once."""
        return (step - 1) // len(self.ways)

    def way_of(self, step: int) -> str:
        """How the batch of a step is rolled out; every round starts with another way."""
        return self.ways[(step - 1 + self.round_of(step)) % len(self.ways)]

    def response_length(self, *seed: object) -> int:
        """Tokens of one response."""
        drawn = random.Random(repr(seed)).lognormvariate(0, self.sigma) * self.median
        return max(4, min(self.longest, round(drawn)))


class SpreadAgentLoop(SingleTurnAgentLoop):
    """verl's single-turn loop with a response length of its own for each rollout."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        length = kwargs["bench_lengths"][kwargs["session_id"]]
        return await super().run({**sampling_params, "max_tokens": length, "ignore_eos": True}, **kwargs)


@dataclass
class _Batch:
    """The prompts of one step that this worker has."""

    size: int
    way: str
    barrier: asyncio.Barrier
    drift: random.Random
    cache: dict[str, float]
    started: float = field(default_factory=time.perf_counter)
    arrived: int = 0
    ended: int = 0


class BenchWorker(StrategyAgentLoopWorker):
    """Times each batch from its first prompt to the end of its last. One worker, so that it sees the whole batch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._workload = Workload.from_environment()
        self._batch: _Batch | None = None
        self._measured: dict[str, float] = {}
        self._run_stage, self._stage.run = self._stage.run, self._run_stage_in_its_way
        self._shipped = self._stage._templates
        self._preview_first = load_templates(replace(self._strategy, execution_template=PREVIEW_FIRST))

    async def generate_sequences(self, batch: Any) -> str:
        load, step = self._workload, int(batch["global_steps"])
        self._batch = _Batch(
            size=len(batch),
            way=load.way_of(step),
            barrier=asyncio.Barrier(len(batch)),
            drift=random.Random(load.round_of(step)),
            cache=await self._cache_counters(),
        )
        if self._batch.way in AFFINITIES:
            self._strategy = replace(self._strategy, affinity=AFFINITIES[self._batch.way])
            self._stage._templates = self._preview_first if self._batch.way == "preview first" else self._shipped
        return await super().generate_sequences(batch)

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        load, batch = self._workload, self._batch
        position, batch.arrived = batch.arrived, batch.arrived + 1
        round_, sessions = load.round_of(trajectory["step"]), self.config.actor_rollout_ref.rollout.n
        prompt["bench_lengths"] = [load.response_length(round_, position, session) for session in range(sessions)]
        await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        batch.ended += 1
        if batch.ended == batch.size:
            seconds = time.perf_counter() - batch.started
            after = await self._cache_counters()
            spent = {name: after[name] - before for name, before in batch.cache.items()}
            self._measured = {"bench/way": float(WAYS.index(batch.way)), "bench/seconds": seconds, **spent}

    async def _run_stage_in_its_way(self, messages: list, step: int, index: object, slots: int, media: Any) -> SlotPlan:
        if self._batch.way == "single":
            stats = StageStats(prompts=1, slots=slots, empty_slots=slots)
            return SlotPlan([None] * slots, [messages] * slots, stats, list(range(slots)), [])
        plan = await self._run_stage(messages, step, index, slots, media)
        if self._batch.way == "barrier":
            await self._batch.barrier.wait()
        return plan

    async def _generate_candidate(self, prompt_ids: list[int], index: int, media: Any) -> Candidate:
        candidate = await super()._generate_candidate(prompt_ids, index, media)
        if not self._workload.preview_words:
            return candidate
        return replace(candidate, text=_made_up(self._workload.preview_words, random.Random(f"{prompt_ids}{index}")))

    def _candidate_sampling_params(self, index: int) -> dict[str, Any]:
        params = super()._candidate_sampling_params(index)
        if self._batch.drift.random() < self._workload.drift:
            params["ignore_eos"] = True
        return params

    async def measured(self) -> dict[str, float]:
        """The last batch: its way, its seconds, and what the prefix caches of the engines were asked and had."""
        return self._measured

    async def _cache_counters(self) -> dict[str, float]:
        """Tokens that all engines' prefix caches were asked for and had, since they started."""
        servers = await self.llm_client._load_balancer.get_all_servers.remote()
        return await asyncio.to_thread(_read_counters, servers)


def _read_counters(servers: Sequence[str]) -> dict[str, float]:
    totals = {"bench/cache_queries": 0.0, "bench/cache_hits": 0.0}
    for server in servers:
        with urllib.request.urlopen(f"http://{server}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        for name in totals:
            counter = name.removeprefix("bench/cache_")
            found = re.findall(rf"^vllm:prefix_cache_{counter}_total\{{.*?\}} (\S+)$", text, re.MULTILINE)
            totals[name] += sum(float(value) for value in found)
    return totals


def _made_up(words: int, rng: random.Random) -> str:
    """A well-formed preview of so many words, in four bullets."""
    vocabulary = ("sum", "double", "ten", "carry", "part", "whole")
    bullets = [" ".join(rng.choices(vocabulary, k=words // 4)) for _ in range(4)]
    return "[KEY CONDITIONS]\n- {}\n- {}\n[KEY IDEA]\n- {}\n- {}".format(*bullets)


class BenchManager(StrategyAgentLoopManager):
    """Starts such a worker and logs what it measured."""

    worker_class = BenchWorker

    def _drain_workers(self) -> dict[str, float]:
        (worker,) = self.agent_loop_workers
        return {**super()._drain_workers(), **ray.get(worker.measured.remote())}

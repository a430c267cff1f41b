"""Starts the workers, and speaks for them to the trainer: metrics, records, and the reason to stop."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

import ray
from tensordict import TensorDict

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.logs import WarnOnce
from subgroup_offset.metrics import STEP_METRICS
from subgroup_offset.preflight import check_run
from subgroup_offset.rollout.guard import FailureGuard, PreviewGuard, PromptOutcomes, RunStopped
from subgroup_offset.rollout.state import Drained
from subgroup_offset.rollout.watched import WatchedManager
from subgroup_offset.rollout.worker import StrategyAgentLoopWorker
from subgroup_offset.strategy.record import RecordWriter
from subgroup_offset.strategy.stats import StageStats

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 60.0
# Prompts that fail in a row before a run stops: at least a batch, and enough to sit out a short failure of an engine.
_LEAST_FAILURES = 64


class StrategyAgentLoopManager(WatchedManager):
    """verl's agent loop manager for workers with subgroups."""

    worker_class = StrategyAgentLoopWorker

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        check_run(config)
        super().__init__(config, *args, **kwargs)
        strategy = SubgroupConfig.from_algorithm(config.algorithm).strategy
        self._records = None if strategy.data_dir is None else RecordWriter(strategy.data_dir)
        self._previews = PreviewGuard(strategy)
        self._failures = FailureGuard(max(_LEAST_FAILURES, int(config.data.train_batch_size)))
        self._lost_prompts = 0
        self._stop: str | None = None
        self._warn_once = WarnOnce(logger)

    async def _init_agent_loop_workers(self) -> None:
        await super()._init_agent_loop_workers()
        STEP_METRICS.add_source(self._drain_workers)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """As verl's, but for a run that is of no use as it is.

        Raises:
            RunStopped: the workers' prompts all fail with one error, or step after step has next to no previews.
        """
        answers, _ = self._ask("outcomes")
        self._note(answers)
        if self._stop is not None:
            raise RunStopped(self._stop)
        super().generate_sequences(prompts)

    def _ask(self, method: str) -> tuple[list[Any], int]:
        """What the workers answer, and how many do not: one that is down or stuck costs its own answer only."""
        calls = [getattr(worker, method).remote() for worker in self.agent_loop_workers]
        ready, late = ray.wait(calls, num_returns=len(calls), timeout=_ANSWER_SECONDS)
        answers, silent = [], len(late)
        for call in ready:
            try:
                answers.append(ray.get(call))
            except ray.exceptions.RayError as error:
                silent += 1
                self._warn_once(
                    "silent", f"an agent loop worker does not answer: {str(error).splitlines()[0]}. Said once."
                )
        if late:
            self._warn_once(
                "silent", f"{len(late)} agent loop workers did not answer for {_ANSWER_SECONDS:g} s. Said once."
            )
        return answers, silent

    def _note(self, outcomes: Iterable[PromptOutcomes]) -> None:
        """Tell of every cause once, and find the one that every prompt ends in."""
        total = PromptOutcomes()
        for one in outcomes:
            total.add(one)
        self._lost_prompts += total.lost.total()
        for cause, text in total.said.items():
            self._warn_once(
                cause, f"prompts leave the step for an error (counted in rollout/lost_prompts): {text}. Said once."
            )
        self._stop = self._failures.look(total) or self._stop

    def _drain_workers(self) -> dict[str, float]:
        answers, silent = self._ask("drain")
        total, counts, unknown, unwritten = StageStats(), Counter[str](), 0, 0
        drained: Drained
        for drained in answers:
            total.add(drained.stats)
            counts.update(drained.counts)
            unknown += drained.unknown_verdicts
            unwritten += drained.dropped_records + self._write(drained)
        self._note(drained.outcomes for drained in answers)
        warning, stop = self._previews.look(total)
        if warning is not None:
            logger.warning(warning)
        self._stop = stop or self._stop
        lost, self._lost_prompts = self._lost_prompts, 0
        rollout = {
            "lost_prompts": lost,
            "unknown_verdicts": unknown,
            "unwritten_records": unwritten,
            "silent_workers": silent,
            "worker_restarts": self._watchdog.restarts,
        }
        return {**total.metrics(), **counts, **{f"rollout/{name}": float(value) for name, value in rollout.items()}}

    def _write(self, drained: Drained) -> int:
        """Write a worker's records; how many could not be."""
        if self._records is None or not drained.records:
            return 0
        try:
            self._records.write(drained.records)
        except Exception as error:
            self._warn_once("unwritten", f"records of the strategy stage cannot be written: {error}. Said once.")
            return len(drained.records)
        return 0

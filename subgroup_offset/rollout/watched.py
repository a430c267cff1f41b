"""A worker that dies takes no prompt with it: the worker's half of it, and the manager's.

verl's workers run prompts as background tasks and the trainer waits until enough prompts have ended. Prompts of a
worker that died never end, and the trainer would wait for ever. Ray starts such a worker again; what is left to do is
to give its lost prompts the status ``failure``.

Training and validation both go through these two classes; evaluations have no worker of their own.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import ray
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

from subgroup_offset.rollout.watchdog import WorkerWatchdog

# verl exports the Ray actor class; its Python class is what can be inherited from.
_AgentLoopWorkerTQ = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class WatchedWorker(_AgentLoopWorkerTQ):
    """verl's agent loop worker, which can be asked what it is doing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._incarnation = uuid4().hex
        self._running: set[str] = set()

    async def generate_sequences(self, batch: TensorDict) -> str:
        """As verl's; returns this process's name, which tells who took the prompts."""
        uids = list(batch["uid"])
        self._running.update(uids)
        try:
            await super().generate_sequences(batch)
        except BaseException:
            self._running.difference_update(uids)
            raise
        return self._incarnation

    async def running(self, uids: list[str]) -> tuple[str, list[str]]:
        """This process's name (a worker that died and was started again has another), and which of these it runs."""
        return self._incarnation, [uid for uid in uids if uid in self._running]

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            self._running.discard(prompt["uid"])


class _Restarting:
    """A Ray actor class whose actors find the arguments of their constructor when they are started again.

    Ray drops arguments above 100 kB, as a whole config is, once the first constructor has had them.
    """

    def __init__(self, actor_class: Any, **options: Any) -> None:
        self._class, self._options = actor_class, options
        self._kept: list[ray.ObjectRef] = []

    def options(self, **options: Any) -> _Restarting:
        """As an actor class's."""
        twin = _Restarting(self._class, **options)
        twin._kept = self._kept
        return twin

    def remote(self, *args: Any) -> Any:
        """As an actor class's."""
        references = [ray.put(argument) for argument in args]
        self._kept += references
        return self._class.options(**self._options).remote(*references)


def fail_prompts(uids: list[str]) -> int:
    """Give those of these prompts that have not ended verl's status ``failure``; their number.

    What such a prompt had finished is removed: its rows carry no labels yet, and one that was being written when the
    worker died lacks fields, which ends a validation too.
    """
    failed = 0
    for partition_id, entries in (tq.kv_list() or {}).items():
        lost = {uid for uid in uids if entries.get(uid, {}).get("status") in ("pending", "running")}
        rows = [key for key in entries if key not in lost and key.rsplit("_", 2)[0] in lost]
        if rows:
            tq.kv_clear(keys=rows, partition_id=partition_id)
        for uid in lost:
            tq.kv_put(key=uid, partition_id=partition_id, tag={"status": "failure"})
        failed += len(lost)
    return failed


class WatchedManager(AgentLoopManagerTQ):
    """verl's agent loop manager with workers that are started again when they die, and watched.

    A subclass names its workers in :attr:`worker_class`.
    """

    worker_class: type[WatchedWorker]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = _Restarting(ray.remote(max_restarts=-1)(self.worker_class))

    async def _init_agent_loop_workers(self) -> None:
        await super()._init_agent_loop_workers()
        self._watchdog = WorkerWatchdog(self.agent_loop_workers, fail_prompts)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """As verl's: splits the batch over the workers and returns when they have taken it."""
        chunks = prompts.chunk(len(self.agent_loop_workers))
        pairs = list(zip(self.agent_loop_workers, chunks, strict=False))
        takers = ray.get([worker.generate_sequences.remote(chunk) for worker, chunk in pairs])
        for index, (taker, (_, chunk)) in enumerate(zip(takers, pairs, strict=True)):
            self._watchdog.took(index, list(chunk["uid"]), taker)

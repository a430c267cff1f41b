"""Weights from the trainer to rollout replicas of their own, over TCP: verl's other engines need an accelerator.

For ``trainer.v1.trainer_mode=separate_async`` on a CPU, through verl's extension point for such engines::

    actor_rollout_ref.rollout.checkpoint_engine.backend=tcp_store
    actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=subgroup_offset.cpu.checkpoint_engine

The sender holds all buckets until the last replica has them: host memory of one model, which is what small models ask.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import ray
import torch
from torch.distributed import TCPStore
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.utils.net_utils import get_free_port
from verl.workers.rollout.utils import ensure_async_iterator

_TIMEOUT = timedelta(seconds=300)


@CheckpointEngineRegistry.register("tcp_store")
class TCPStoreCheckpointEngine(CheckpointEngine):
    """One sender (the first trainer rank), any number of receivers, one store for each update.

    Args:
        bucket_size: bytes of tensors that travel together; a larger tensor travels alone.
        is_master: verl tells trainer ranks; the topology says it again.
    """

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._bucket_size = bucket_size
        self._rank, self._receivers = -1, 0
        self._store: TCPStore | None = None

    def prepare(self) -> dict[str, Any]:
        """Where this process could serve a store."""
        host = ray.util.get_node_ip_address()
        return {"host": host, "port": get_free_port(host)[0]}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Rank 0 sends, ranks 1 and up receive, the other trainer ranks (-1) only take part in gathering."""
        actor = {
            "rank": [0] + [-1] * (actor_wg_world_size - 1),
            "receivers": [rollout_world_size] * actor_wg_world_size,
            "master": [metadata[0]] * actor_wg_world_size,
        }
        rollout = {
            "rank": list(range(1, rollout_world_size + 1)),
            "receivers": [rollout_world_size] * rollout_world_size,
            "master": [metadata[0]] * rollout_world_size,
        }
        return actor, rollout

    def init_process_group(self, rank: int, receivers: int, master: dict[str, Any]) -> None:
        """Open the store of this update."""
        self._rank, self._receivers = rank, receivers
        if rank >= 0:
            self._store = TCPStore(
                master["host"], master["port"], is_master=rank == 0, wait_for_workers=False, timeout=_TIMEOUT
            )

    def finalize(self) -> None:
        """Close it."""
        self._store = None

    @torch.no_grad()
    async def send_weights(
        self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, Any]:
        """Put all weights into the store, and wait until every receiver has read them."""
        bucket: dict[str, torch.Tensor] = {}
        size = number = 0
        async for name, weight in ensure_async_iterator(weights):
            if self._rank != 0:
                continue  # iterating is what gathers a sharded tensor; every rank has to take part
            if bucket and size + weight.nbytes > self._bucket_size:
                await self._put(number, bucket, last=False)
                bucket, size, number = {}, 0, number + 1
            bucket[name] = weight.cpu()
            size += weight.nbytes
        if self._rank == 0:
            await self._put(number, bucket, last=True)
            await asyncio.to_thread(self._store.wait, [f"received/{r}" for r in range(1, self._receivers + 1)])
        return {}

    @torch.no_grad()
    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Yield all weights in the order in which they were sent."""
        last, number = False, 0
        while not last:
            data = await asyncio.to_thread(self._store.get, f"bucket/{number}")
            message = torch.load(io.BytesIO(data), weights_only=True)
            for name, weight in message["weights"].items():
                yield name, weight
            last, number = message["last"], number + 1
        self._store.set(f"received/{self._rank}", "1")

    async def _put(self, number: int, bucket: dict[str, torch.Tensor], last: bool) -> None:
        buffer = io.BytesIO()
        torch.save({"weights": bucket, "last": last}, buffer)
        await asyncio.to_thread(self._store.set, f"bucket/{number}", buffer.getvalue())

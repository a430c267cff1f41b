"""The CPU's checkpoint engine: every receiver gets every weight, whatever the sizes of weights and buckets."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subgroup_offset.cpu.checkpoint_engine import TCPStoreCheckpointEngine


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def receive(engine: TCPStoreCheckpointEngine, kwargs: dict, out: dict[str, torch.Tensor]) -> None:
    engine.init_process_group(**kwargs)

    async def collect() -> None:
        async for name, weight in engine.receive_weights():
            out[name] = weight

    asyncio.run(collect())
    engine.finalize()


def of_rank(kwargs: dict[str, list], i: int) -> dict:
    return {name: values[i] for name, values in kwargs.items()}


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=8),
    bucket=st.sampled_from([1, 600, 10**6]),
    receivers=st.integers(1, 3),
)
def test_all_weights_arrive_in_order(sizes, bucket, receivers):
    dtypes = (torch.float32, torch.bfloat16)
    weights = {f"w{i}": torch.randn(n).to(dtypes[i % 2]) for i, n in enumerate(sizes)}
    metadata = [{"host": "127.0.0.1", "port": free_port()}] * (2 + receivers)
    actor, rollout = TCPStoreCheckpointEngine.build_topology(2, receivers, metadata)
    got: list[dict[str, torch.Tensor]] = [{} for _ in range(receivers)]
    threads = [
        threading.Thread(target=receive, args=(TCPStoreCheckpointEngine(bucket), of_rank(rollout, i), got[i]))
        for i in range(receivers)
    ]
    for thread in threads:
        thread.start()
    senders = [TCPStoreCheckpointEngine(bucket) for _ in range(2)]
    for i, sender in enumerate(senders):
        sender.init_process_group(**of_rank(actor, i))
        asyncio.run(sender.send_weights(iter(weights.items())))  # the second only takes part in gathering
        sender.finalize()
    for thread in threads:
        thread.join(timeout=60)
    for out in got:
        assert list(out) == list(weights)
        assert all(torch.equal(out[name], weight) for name, weight in weights.items())


def test_verl_finds_it_by_its_name():
    from verl.checkpoint_engine import CheckpointEngineRegistry

    assert CheckpointEngineRegistry.get("tcp_store") is TCPStoreCheckpointEngine
    with pytest.raises(ValueError, match="not registered"):
        CheckpointEngineRegistry.get("tcp-store")

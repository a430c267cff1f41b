"""Ray: joining or starting a cluster, its nodes, and running the doctor's script on each of them."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from subgroup_offset.cluster import node_script
from subgroup_offset.cluster.findings import Node

_KIND = "accelerator_type:"
# What the plugin logs when a part of it fails (subgroup_offset/plugin.py).
_PLUGIN_LOG = re.compile(r"subgroup_offset: .*failed \(.*\)")


class NoCluster(RuntimeError):
    """Ray could not be joined or started; the message says why and what to do."""


@contextmanager
def connected(address: str | None, ray_init: Mapping[str, Any], timeout: float) -> Iterator[None]:
    """Join the cluster at ``address`` (``auto`` or host:port), or start one of this machine alone; leave at the end.

    Args:
        address: None starts a cluster, which ends with the block.
        ray_init: the run's arguments of ``ray.init``; only its environment counts for a cluster that is there.
        timeout: seconds after which this *process* is ended if Ray has not come back, which it may never do.

    Raises:
        NoCluster: where it cannot be joined.
    """
    # As verl does: Ray's own hook for `uv run` cannot live with verl's runtime environment.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    arguments: dict[str, Any] = {"address": address}
    if address is None:
        arguments = {key: ray_init[key] for key in ("num_cpus", "num_gpus") if ray_init.get(key) is not None}
        arguments.update(address="local", include_dashboard=False)
    patience = threading.Timer(timeout, _give_up, (address, timeout))
    patience.daemon = True
    patience.start()
    try:
        if address is not None and (place := re.fullmatch(r"\[?(.+?)\]?:(\d+)", address)):
            socket.create_connection((place[1], int(place[2])), 10).close()  # Ray itself would try for minutes
        environment = ray_init.get("runtime_env") or None
        ray.init(**arguments, runtime_env=environment, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError (other versions), ValueError, ...
        raise NoCluster(_not_joined(address, " ".join(str(error).split()))) from error
    finally:
        patience.cancel()
    try:
        yield
    finally:
        ray.shutdown()


def _give_up(address: str | None, seconds: float) -> None:
    print(_not_joined(address, f"no answer within {seconds:g} s"), file=sys.stderr, flush=True)
    os._exit(1)


def _not_joined(address: str | None, reason: str) -> str:
    reason = reason.rstrip(".")
    if address is not None and not os.environ.get("RAY_AUTH_MODE"):
        reason = f"{reason} (if it asks for a token: set RAY_AUTH_MODE=token, for the run as well)"
    return (
        f"Ray at {address or 'this machine'} cannot be joined: {reason}. Fix: start it (`ray start --head`, then "
        "`ray start --address HEAD:PORT` on the other nodes) and run this on one of its nodes."
    )


def alive_and_dead() -> tuple[list[Node], list[str]]:
    """The nodes that are alive, the head first, and the names of those that died."""
    import ray

    entries = ray.nodes()
    hosts = [entry["NodeManagerHostname"] for entry in entries if entry["Alive"]]
    alive, dead = [], []
    for entry in entries:
        host, ident, has = entry["NodeManagerHostname"], entry["NodeID"], entry["Resources"]
        if not entry["Alive"]:
            dead.append(f"{host}/{ident[:6]}")
            continue
        name = host if hosts.count(host) == 1 else f"{host}/{ident[:6]}"
        kinds = tuple(key.removeprefix(_KIND) for key in has if key.startswith(_KIND))
        alive.append(Node(ident, name, "node:__internal_head__" in has, has.get("GPU", 0), has.get("CPU", 0), kinds))
    return sorted(alive, key=lambda node: (not node.head, node.name)), dead


def wait_for_nodes(count: int, gpus: int, seconds: float) -> None:
    """Wait until ``count`` nodes with ``gpus`` GPUs each are there, or the time is over."""
    deadline = time.monotonic() + seconds
    while sum(node.gpus >= gpus for node in alive_and_dead()[0]) < count and time.monotonic() < deadline:
        time.sleep(2)


def ask_nodes(requests: Mapping[str, Mapping[str, Any]], timeout: float) -> dict[str, dict[str, Any]]:
    """Run the script on nodes, all at once.

    Args:
        requests: Ray's node id -> request of `node_script`.
        timeout: seconds for all of it. Scripts get a little less (starting a worker takes some), so that one that hangs
            is not taken for a node that does.

    Returns:
        Node id -> fields of `Node`: ``facts``, ``failure`` and ``plugin_log``.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task, source = ray.remote(num_cpus=0, max_retries=0)(script_runner()), script_source()
    waiting = {}
    for ident, request in requests.items():
        here = task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(ident, soft=False))
        waiting[here.remote(source, json.dumps(request), max(timeout / 2, timeout - 20))] = ident
    answers: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + timeout
    while waiting:
        done, _ = ray.wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        if not done:
            break
        ident = waiting.pop(done[0])
        try:
            answers[ident] = read_answer(ray.get(done[0]))
        except Exception as error:  # the node died, its environment could not be set up, the worker could not start
            text = " ".join(str(error).split())[:400]
            answers[ident] = {"failure": f"could not be started by Ray ({type(error).__name__}: {text})"}
    for reference, ident in waiting.items():
        ray.cancel(reference, force=True)
        answers[ident] = {"failure": f"gave no answer within {timeout:g} s"}
    return answers


def script_source() -> str:
    """The text of `node_script`."""
    return Path(node_script.__file__).read_text("utf-8")


def script_runner() -> Callable[[str, str, float], dict[str, Any]]:
    """A function that runs the script in a fresh interpreter; of what it returns, ``exit`` is None if time ran out.

    A local one, so that Ray sends it by value: on the node there may be no subgroup_offset to import it from.
    """

    def run(source: str, request: str, seconds: float) -> dict[str, Any]:
        import os
        import subprocess
        import sys

        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        if environment.get("CUDA_VISIBLE_DEVICES") == "":
            del environment["CUDA_VISIBLE_DEVICES"]  # Ray hides the accelerators from a task that asks for none
        command, text = [sys.executable, "-c", source], request.encode()
        try:
            done = subprocess.run(command, input=text, capture_output=True, env=environment, timeout=seconds)
            code = done.returncode
        except subprocess.TimeoutExpired as error:
            done, code = error, None
        stdout, stderr = ((part or b"").decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        return {"exit": code, "stdout": stdout, "stderr": stderr[-20000:]}

    return run


def read_answer(output: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `Node` from what the script printed; the step that began and said nothing has the failure as error."""
    facts: dict[str, Any] = {}
    for line in output["stdout"].splitlines():
        if line.startswith(node_script.MARKER):
            facts.update(json.loads(line.removeprefix(node_script.MARKER)))
    began, failure = facts.pop("began", None), None
    if output["exit"] != 0:
        last = next((line.strip() for line in reversed(output["stderr"].splitlines()) if line.strip()), "")
        failure = f"ended with exit code {output['exit']}" + (f" ({last[:300]})" if last else "")
        failure = "did not finish in time" if output["exit"] is None else failure
        if began and began not in facts:
            facts[began] = {"error": failure}
    log = _PLUGIN_LOG.search(output["stderr"])
    return {"facts": facts, "failure": failure, "plugin_log": log and log.group()}

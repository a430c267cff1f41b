"""Ray: joining or starting a cluster, its nodes, and running the scripts of ``node/`` on each of them."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from subgroup_offset.doctor.facts import NodeFacts

#: Marks the head node among the resources that Ray counts.
HEAD_RESOURCE = "node:__internal_head__"
_POLL_SECONDS = 2.0
_LISTEN_SECONDS = 10.0

Jobs = list[tuple[str, str, str]]


class NoCluster(RuntimeError):
    """Ray could not be joined or started; the message says why and what to do."""


@dataclass(frozen=True)
class Answer:
    """What a node's scripts printed (``runner.run_scripts``), or why there is nothing; ``skew`` of its clock in s."""

    outputs: Mapping[str, dict[str, Any]]
    error: str | None = None
    skew: float = 0.0


@contextmanager
def connected(address: str | None, ray_init: dict[str, Any], timeout: float) -> Iterator[None]:
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

    if address is None:
        arguments = {key: ray_init[key] for key in ("num_cpus", "num_gpus") if ray_init.get(key) is not None}
        arguments.update(address="local", include_dashboard=False)
    else:
        _must_listen(address)
        arguments = {"address": address}
    arguments.update(runtime_env=ray_init.get("runtime_env") or None, logging_level=logging.ERROR, log_to_driver=False)
    patience = threading.Timer(timeout, _give_up, (address, timeout))
    patience.daemon = True
    patience.start()
    try:
        ray.init(**arguments)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError (other versions), ValueError, ...
        raise NoCluster(_not_joined(address, " ".join(str(error).split()))) from error
    finally:
        patience.cancel()
    try:
        yield
    finally:
        ray.shutdown()


def _must_listen(address: str) -> None:
    """Raise `NoCluster` where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():  # auto, local
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _LISTEN_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise NoCluster(_not_joined(address, f"nothing answers there ({error})")) from error


def _give_up(address: str | None, seconds: float) -> None:
    print(_not_joined(address, f"no answer within {seconds:g} s"), file=sys.stderr, flush=True)
    os._exit(1)


def _not_joined(address: str | None, reason: str) -> str:
    if address is not None and not os.environ.get("RAY_AUTH_MODE"):
        reason = f"{reason.rstrip('.')} (if it asks for a token: set RAY_AUTH_MODE=token, for the run as well)"
    return (
        f"Ray at {address or 'this machine'} cannot be joined: {reason.rstrip('.')}. Fix: start it (`ray start "
        "--head`, then `ray start --address HEAD:PORT` on the other nodes) and run this on one of its nodes."
    )


def nodes() -> tuple[list[NodeFacts], list[str]]:
    """The nodes that are alive, the head first, and the names of those that died."""
    import ray

    entries = ray.nodes()
    hosts = [entry["NodeManagerHostname"] for entry in entries if entry["Alive"]]
    alive, dead = [], []
    for entry in entries:
        host, ident = entry["NodeManagerHostname"], entry["NodeID"]
        name = host if hosts.count(host) == 1 and entry["Alive"] else f"{host}/{ident[:6]}"
        resources = entry["Resources"]
        if entry["Alive"]:
            head = HEAD_RESOURCE in resources
            alive.append(NodeFacts(ident, name, head, resources.get("GPU", 0), resources.get("CPU", 0)))
        else:
            dead.append(name)
    return sorted(alive, key=lambda node: (not node.head, node.name)), dead


def wait_for_nodes(count: int, gpus: int, seconds: float) -> None:
    """Wait until ``count`` nodes with ``gpus`` GPUs each are there, or the time is over."""
    deadline = time.monotonic() + seconds
    while sum(node.ray_gpus >= gpus for node in nodes()[0]) < count and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def free_gpus() -> float:
    """GPUs of the cluster that no job holds."""
    import ray

    return ray.available_resources().get("GPU", 0)


def run_on_nodes(jobs: Mapping[str, Jobs], timeout: float) -> dict[str, Answer]:
    """Run scripts on nodes, all nodes at once.

    Args:
        jobs: Ray's node id -> scripts (see ``runner.run_scripts``).
        timeout: seconds for all of it. Scripts get a little less, so that one that hangs is told from a node that does.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from subgroup_offset.doctor.node import runner

    # By value: on the node there may be no subgroup_offset to import it from.
    ray.cloudpickle.register_pickle_by_value(runner)
    try:
        task = ray.remote(num_cpus=0, max_retries=0)(runner.run_scripts)
        waiting = {}
        for ident, scripts in jobs.items():
            strategy = NodeAffinitySchedulingStrategy(ident, soft=False)
            waiting[task.options(scheduling_strategy=strategy).remote(scripts, script_seconds(timeout))] = ident
        return _gather(waiting, timeout)
    finally:
        ray.cloudpickle.unregister_pickle_by_value(runner)


def script_seconds(timeout: float) -> float:
    """How long the scripts may take where the node has ``timeout`` seconds to answer: starting a worker takes some."""
    return max(timeout / 2, timeout - 20)


def _gather(waiting: dict[Any, str], timeout: float) -> dict[str, Answer]:
    import ray

    answers: dict[str, Answer] = {}
    deadline = time.monotonic() + timeout
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
        received = time.time()
        if not done:
            break
        ident = waiting.pop(done[0])
        try:
            result = ray.get(done[0])
            answers[ident] = Answer(result["outputs"], skew=result["clock"] - received)
        except Exception as error:  # the node died, its environment could not be set up, the worker could not start
            text = " ".join(str(error).split())[:400]
            answers[ident] = Answer({}, f"Ray could not run a task there ({type(error).__name__}: {text})")
    for reference, ident in waiting.items():
        ray.cancel(reference, force=True)
        answers[ident] = Answer({}, f"gave no answer within {timeout:g} s")
    return answers

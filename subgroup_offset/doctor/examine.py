"""The examination: scripts to every node, facts back, findings out of them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subgroup_offset import compat
from subgroup_offset.doctor import cluster, cluster_checks, facts
from subgroup_offset.doctor.checks import SOFTWARE, Context
from subgroup_offset.doctor.expected import Expected
from subgroup_offset.doctor.facts import HostFacts, NodeFacts
from subgroup_offset.doctor.findings import Cell, Collector, Finding
from subgroup_offset.doctor.node import runner, source
from subgroup_offset.doctor.storage_checks import STORAGE

_OF_NODES = {**SOFTWARE, **STORAGE}
#: Rows of the table, in their order.
CHECKS = ("ray", *_OF_NODES)
#: Seconds for a round that only reads or removes tokens.
_QUICK_SECONDS = 60.0


@dataclass(frozen=True)
class Report:
    """Outcome of all checks: node name -> check -> cell, and the findings of nodes and cluster."""

    cells: dict[str, dict[str, Cell]]
    findings: tuple[Finding, ...]


def host_request() -> str:
    """What ``node/host.py`` is asked for."""
    wanted = {package.name: [package.name, *package.aliases] for package in compat.PACKAGES}
    return json.dumps({"packages": wanted, "code": ["subgroup_offset", "verl"]})


def examine_driver() -> HostFacts:
    """Facts of this machine and of this interpreter's environment.

    Raises:
        RuntimeError: if the script fails here.
    """
    output = runner.run_scripts([("host", source("host"), host_request())], 300)["outputs"]["host"]
    answer, failure = facts.read_answer(output)
    if failure or not answer:
        raise RuntimeError(f"The examination of this machine {failure or 'gave no answer'}: {output['stderr']}")
    return HostFacts.read(answer)


def collect(expected: Expected, nodes: Sequence[NodeFacts], timeout: float) -> list[NodeFacts]:
    """Run all scripts on all nodes of the cluster that this process is connected to."""
    run = secrets.token_hex(4)
    tokens = {node.id: f"{run}-{node.id[:12]}" for node in nodes}
    answers = cluster.run_on_nodes({node.id: _jobs(expected, tokens[node.id]) for node in nodes}, timeout)
    known = [_read(node, answers[node.id]) for node in nodes]
    written = {node.id: [facts.token for facts in node.paths.values() if facts.token] for node in known}
    try:
        return _with_seen(known, written, tokens)
    finally:
        _quick({ident: {"action": "remove", "files": files} for ident, files in written.items() if files})


def _jobs(expected: Expected, token: str) -> cluster.Jobs:
    models = [vars(model) for model in expected.models]
    requests: dict[str, Any] = {"imports": {"vllm": expected.vllm, "models": models}}
    requests["assets"] = {"models": models, "data": [d.path for d in expected.data], "files": list(expected.files)}
    paths = [{"path": d.path, "may_be_made": d.may_be_made} for d in expected.directories]
    requests["storage"] = {"action": "write", "paths": paths, "token": token}
    jobs = [(name, source(name), json.dumps(request)) for name, request in requests.items()]
    return [("host", source("host"), host_request()), *jobs]


def _read(node: NodeFacts, answer: cluster.Answer) -> NodeFacts:
    if answer.error:
        return replace(node, error=answer.error)
    return facts.read_node(node, dict(answer.outputs), answer.skew)


def _with_seen(nodes: list[NodeFacts], written: dict[str, list[str]], tokens: dict[str, str]) -> list[NodeFacts]:
    files = {file: tokens[ident] for ident, names in written.items() for file in names}
    readers = [node for node in nodes if node.error is None] if files and len(nodes) > 1 else []
    answers = _quick({node.id: {"action": "read", "files": files} for node in readers})
    return [replace(node, seen=answers.get(node.id, {})) for node in nodes]


def _quick(requests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    jobs = {ident: [("storage", source("storage"), json.dumps(request))] for ident, request in requests.items()}
    found = {}
    for ident, answer in cluster.run_on_nodes(jobs, _QUICK_SECONDS).items():
        if "storage" in answer.outputs:
            found[ident] = facts.read_answer(answer.outputs["storage"])[0].get("answer", {})
    return found


def judge(nodes: Sequence[NodeFacts], dead: Sequence[str], context: Context, free_gpus: float) -> Report:
    """Facts to findings. Pure."""
    cells: dict[str, dict[str, Cell]] = {}
    for node in nodes:
        found = Collector("ray", node.name)
        if node.error or node.host is None:
            problem = f"it {node.error or 'sent nothing about itself'}"
            fix = "look at the raylet's log on that node, end the processes that hang, start Ray there again"
            found.error(problem, fix)
            cells[node.name] = {"ray": found.cell("no answer")}
            continue
        cells[node.name] = {"ray": found.cell("head" if node.head else "answers")}
        cells[node.name].update((name, check(node, node.host, context)) for name, check in _OF_NODES.items())
    together = [
        *cluster_checks.membership(dead),
        *cluster_checks.size([node for node in nodes if not node.error], context.expected, free_gpus),
        *cluster_checks.sharing(nodes, context.expected),
        *cluster_checks.copies(nodes),
    ]
    _into_cells(cells, together)
    of_nodes = [finding for row in cells.values() for cell in row.values() for finding in cell.findings]
    return Report(cells, (*of_nodes, *(finding for finding in together if finding.node not in cells)))


def _into_cells(cells: dict[str, dict[str, Cell]], findings: Sequence[Finding]) -> None:
    for finding in findings:
        row = cells.get(finding.node, {})
        if finding.check in row:
            cell = row[finding.check]
            row[finding.check] = replace(cell, findings=(*cell.findings, finding))


def examine(
    expected: Expected, address: str | None, timeout: float, wait: float, progress: Callable[[str], None]
) -> Report:
    """Examine the cluster at ``address``, or this machine alone.

    Args:
        expected: what is to be found there.
        address: as of ``cluster.connected``.
        timeout: seconds that a node has to answer.
        wait: seconds to wait for ``expected.nodes`` nodes.
        progress: is told what is going on.

    Raises:
        cluster.NoCluster: where Ray cannot be joined.
    """
    progress(f"joining Ray at {address}" if address else "starting Ray on this machine")
    ray_init = {**expected.ray_init, "runtime_env": expected.runtime_env}
    with cluster.connected(address, ray_init, timeout):
        if wait and expected.nodes:
            progress(f"waiting up to {wait:g} s for {expected.nodes} node(s)")
            cluster.wait_for_nodes(expected.nodes, expected.gpus_per_node or 0, wait)
        alive, dead = cluster.nodes()
        progress(f"examining {len(alive)} node(s), up to {timeout:g} s each, all at once")
        free, driver = cluster.free_gpus(), examine_driver()
        nodes = collect(expected, alive, timeout)
    return judge(nodes, dead, Context(expected, driver, len(alive)), free)

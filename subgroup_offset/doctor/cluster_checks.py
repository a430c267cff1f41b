"""Facts of several nodes together -> findings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from subgroup_offset.doctor.expected import Directory, Expected
from subgroup_offset.doctor.facts import NodeFacts
from subgroup_offset.doctor.findings import CLUSTER, Collector, Finding


def sharing(nodes: Sequence[NodeFacts], expected: Expected) -> list[Finding]:
    """A shared directory is one storage: each node and the first that wrote read each other's tokens."""
    findings: list[Finding] = []
    for directory in expected.directories:
        wrote = [node for node in nodes if (facts := node.paths.get(directory.path)) and facts.token]
        if directory.shared and len(wrote) > 1:
            findings += _differing(directory, wrote[0], wrote[1:])
    return findings


def _differing(directory: Directory, first: NodeFacts, others: Sequence[NodeFacts]) -> list[Finding]:
    findings: list[Finding] = []
    for node in others:
        found = Collector("paths", node.name)
        there = first.seen.get(str(node.paths[directory.path].token))
        here = node.seen.get(str(first.paths[directory.path].token))
        fix = f"mount the shared file system at {directory.path} on this node, or give a directory that is on one"
        if here is None or there is None:
            found.error(f"{directory.key} {directory.path}: whether it is shared could not be tried", fix)
        elif not (here and there):
            problem = f"{directory.key} {directory.path} is not the storage that {first.name} has there"
            if directory.checkpoints:
                problem += ": each node would keep its own shards, and a resume or merge would miss the others'"
            found.error(problem, fix)
        findings += found.findings
    return findings


def copies(nodes: Sequence[NodeFacts]) -> list[Finding]:
    """A model or data file that is no copy of the first node's."""
    findings: list[Finding] = []
    for check, kind in (("model", "models"), ("data", "data")):
        first: dict[str, tuple[str, str]] = {}
        for node in nodes:
            found = Collector(check, node.name)
            for path, facts in getattr(node, kind).items():
                if facts.fingerprint is None:
                    continue
                name, fingerprint = first.setdefault(path, (node.name, facts.fingerprint))
                if facts.fingerprint != fingerprint:
                    problem = f"{path} differs from the one on {name}"
                    found.error(problem, "copy it again from one source, or use shared storage")
            findings += found.findings
    return findings


def size(nodes: Sequence[NodeFacts], expected: Expected, free_gpus: float) -> list[Finding]:
    """Enough nodes and GPUs, none taken by another job, all of one kind.

    Args:
        nodes: those that are alive.
        expected: what the run needs.
        free_gpus: GPUs that no job holds.
    """
    found = Collector("gpus", CLUSTER)
    per_node = expected.gpus_per_node or 0
    able = [node for node in nodes if node.ray_gpus >= per_node]
    if expected.nodes is not None and len(able) < expected.nodes:
        kind = f" with {per_node} GPUs" if per_node else ""
        found.error(
            f"{len(able)} of {len(nodes)} node(s){kind}; trainer.nnodes={expected.nodes} needs as many",
            "start Ray on the missing nodes (`ray start --address HEAD:PORT`), or set trainer.nnodes="
            f"{max(1, len(able))}",
        )
    counted = sum(node.ray_gpus for node in nodes)
    if expected.total_gpus is not None and expected.total_gpus > counted:
        problem = f"the run's pools want {expected.total_gpus} GPUs, the cluster has {counted:g}"
        found.error(problem, "add nodes, or lower nnodes and n_gpus_per_node of trainer, rollout or reward model")
    elif expected.total_gpus is not None and free_gpus < expected.total_gpus:
        problem = f"{free_gpus:g} of {counted:g} GPUs are free, the run wants {expected.total_gpus}"
        found.error(problem, "end the other job (`ray job list`, `ray list actors`), or wait for it")
    kinds = {gpu.name for node in nodes if node.host for gpu in node.host.gpus}
    if expected.device == "cuda" and len(kinds) > 1:
        problem = f"GPUs of several kinds: {', '.join(sorted(kinds))}"
        found.warning(problem, "use nodes of one kind: a step takes as long as the slowest GPU")
    return found.findings


def membership(dead: Sequence[str]) -> list[Finding]:
    """Nodes that Ray has lost."""
    found = Collector("ray", CLUSTER)
    for name in dead:
        problem = f"{name} was part of the cluster and is dead"
        found.warning(problem, "nothing, if it was taken out; else look into its raylet's log and start Ray again")
    return found.findings


def joining(ray_init: dict[str, Any], joins: bool) -> list[Finding]:
    """Arguments of ``ray.init`` that Ray refuses where a cluster is running."""
    found = Collector("config", CLUSTER)
    given = [name for name in ("num_cpus", "num_gpus") if ray_init.get(name) is not None]
    if joins and given:
        settings = ", ".join(f"ray_kwargs.ray_init.{name}={ray_init[name]}" for name in given)
        fix = " ".join(f"ray_kwargs.ray_init.{name}=null" for name in given)
        found.error(f"{settings} is refused by Ray where a cluster is running", f"add {fix}")
    return found.findings

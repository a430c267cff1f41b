"""Facts of several nodes together -> findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from subgroup_offset.cluster.findings import Finding, Findings, Node
from subgroup_offset.cluster.needs import Needs


def check_cluster(nodes: Sequence[Node], dead: Sequence[str], needs: Needs, free_gpus: float) -> list[Finding]:
    """All findings that concern several nodes, or the whole of the cluster.

    Args:
        nodes: those that are alive.
        dead: names of those that Ray has lost.
        needs: the run's.
        free_gpus: GPUs that no job holds.
    """
    found = Findings("ray")
    for name in dead:
        fix = "nothing, if it was taken out; else look into its raylet's log and start Ray again"
        found.warning(f"{name} was part of the cluster and is dead", fix)
    return [*found.all, *_size(nodes, needs, free_gpus), *_sharing(nodes, needs), *_copies(nodes)]


def _sharing(nodes: Sequence[Node], needs: Needs) -> Iterator[Finding]:
    """A shared directory is one storage: each node and the first that wrote read each other's tokens."""
    for directory in needs.directories:
        tokens = {node.name: (node.value("storage") or {}).get(directory.path, {}).get("token") for node in nodes}
        first, *others = [node for node in nodes if tokens[node.name]] or [None]
        for node in others if directory.shared else ():
            found = Findings("paths", node.name)
            there, here = first.seen.get(tokens[node.name]), node.seen.get(tokens[first.name])
            fix = f"mount the shared file system at {directory.path} on this node, or give a directory that is on one"
            if here is None or there is None:
                found.error(f"{directory.key} {directory.path}: whether it is shared could not be tried", fix)
            elif not (here and there):
                problem = f"{directory.key} {directory.path} is not the storage that {first.name} has there"
                if directory.checkpoints:
                    problem += ": each node would keep its own shards, and a resume or merge would miss the others'"
                found.error(problem, fix)
            yield from found.all


def _copies(nodes: Sequence[Node]) -> Iterator[Finding]:
    """A model or data file that is no copy of the first node's."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for check, step in (("model", "models"), ("data", "data")):
        for node in nodes:
            found = Findings(check, node.name)
            for path, facts in (node.value(step) or {}).items():
                if not (fingerprint := facts.get("fingerprint")):
                    continue
                name, expected = first.setdefault((check, path), (node.name, fingerprint))
                if fingerprint != expected:
                    fix = "copy it again from one source, or use shared storage"
                    found.error(f"{path} differs from the one on {name}", fix)
            yield from found.all


def _size(nodes: Sequence[Node], needs: Needs, free_gpus: float) -> list[Finding]:
    """Enough nodes and GPUs, none taken by another job, all of one kind."""
    found = Findings("gpus")
    per_node, total = needs.gpus_per_node or 0, needs.total_gpus
    able = sum(node.gpus >= per_node for node in nodes)
    counted = sum(node.gpus for node in nodes)
    if needs.nodes is not None and able < needs.nodes:
        kind = f" with {per_node} GPUs" if per_node else ""
        found.error(
            f"{able} of {len(nodes)} node(s){kind}; trainer.nnodes={needs.nodes} needs as many",
            f"start Ray on the missing nodes (`ray start --address HEAD:PORT`), or set trainer.nnodes={max(1, able)}",
        )
    if total is not None and total > counted:
        problem = f"the run's pools want {total} GPUs, the cluster has {counted:g}"
        found.error(problem, "add nodes, or lower nnodes and n_gpus_per_node of trainer, rollout or reward model")
    elif total is not None and free_gpus < total:
        problem = f"{free_gpus:g} of {counted:g} GPUs are free, the run wants {total}"
        found.error(problem, "end the other job (`ray job list`, `ray list actors`), or wait for it")
    kinds = {kind for node in nodes for kind in node.gpu_kinds}
    if needs.device == "cuda" and len(kinds) > 1:
        problem = f"GPUs of several kinds: {', '.join(sorted(kinds))}"
        found.warning(problem, "use nodes of one kind: a step takes as long as the slowest GPU")
    return found.all

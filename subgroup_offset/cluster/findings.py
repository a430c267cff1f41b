"""What the doctor knows of a node, and what it finds: a problem, where, and the one line that mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from subgroup_offset.cluster.needs import Needs

ERROR, WARNING = "error", "warning"
#: Where findings belong that concern no single node.
CLUSTER = "cluster"


@dataclass(frozen=True)
class Node:
    """A node of the Ray cluster and what `node_script` said there."""

    id: str
    name: str
    head: bool = False
    #: What Ray counts there, and the kinds of GPUs it names.
    gpus: float = 0
    cpus: float = 0
    gpu_kinds: tuple[str, ...] = ()
    #: Step -> ``{"value": ...}`` or ``{"error": ...}``.
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Why the script, or Ray's task, did not come to its end.
    failure: str | None = None
    #: Token files of other nodes -> whether this node can read them.
    seen: Mapping[str, bool] = field(default_factory=dict)
    #: What the plugin itself logged about a failure while verl was imported.
    plugin_log: str | None = None

    @property
    def host(self) -> Mapping[str, Any]:
        """The first step's facts, without which nothing is known of a node."""
        return self.value("host")

    def value(self, step: str) -> Any:
        """What a step found; None where it failed."""
        return self.facts.get(step, {}).get("value")

    def error(self, step: str) -> str | None:
        """Why a step found nothing; None where it did not fail."""
        if step in self.facts:
            return self.facts[step].get("error")
        return f"it was not reached, the examination {self.failure or 'said nothing of it'}"


@dataclass(frozen=True)
class Target:
    """What nodes are held against."""

    needs: Needs
    #: Facts of the driver's own machine (step ``host``).
    driver: Mapping[str, Any]
    #: Bounds of versions.
    packages: Mapping[str, SpecifierSet]
    #: How many nodes the cluster has.
    nodes: int = 1


@dataclass(frozen=True)
class Finding:
    """One problem of one node (or of the cluster): an error keeps a run from starting or from being right."""

    level: str
    check: str
    node: str
    problem: str
    fix: str


class Findings:
    """Gathers the findings of one check on one node."""

    def __init__(self, check: str, node: str = CLUSTER) -> None:
        self._check, self._node = check, node
        self.all: list[Finding] = []

    def error(self, problem: str, fix: str) -> None:
        """A run would fail, hang or be wrong."""
        self.all.append(Finding(ERROR, self._check, self._node, problem, fix))

    def warning(self, problem: str, fix: str) -> None:
        """A run may be all right."""
        self.all.append(Finding(WARNING, self._check, self._node, problem, fix))

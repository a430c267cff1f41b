"""A finding: what is wrong, where, and the one line that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ERROR, WARNING = "error", "warning"
#: Where findings belong that concern no single node.
CLUSTER = "cluster"


@dataclass(frozen=True)
class Finding:
    """One problem of one node (or of the cluster): an error keeps a run from starting or from being right."""

    level: str
    check: str
    node: str
    problem: str
    fix: str


@dataclass(frozen=True)
class Cell:
    """Outcome of one check on one node: a summary for the table and the findings."""

    text: str
    findings: tuple[Finding, ...] = ()

    @property
    def level(self) -> str | None:
        """The worst of the findings; None where all is well."""
        levels = {finding.level for finding in self.findings}
        return ERROR if ERROR in levels else WARNING if WARNING in levels else None


class Collector:
    """Gathers the findings of one check on one node."""

    def __init__(self, check: str, node: str) -> None:
        self._check, self._node = check, node
        self.findings: list[Finding] = []

    def error(self, problem: str, fix: str) -> None:
        """A run would fail, hang or be wrong."""
        self.findings.append(Finding(ERROR, self._check, self._node, problem, fix))

    def warning(self, problem: str, fix: str) -> None:
        """A run may be all right."""
        self.findings.append(Finding(WARNING, self._check, self._node, problem, fix))

    def cell(self, text: str) -> Cell:
        """What was gathered, with a summary."""
        return Cell(text, tuple(self.findings))


def merged(findings: Iterable[Finding]) -> list[tuple[Finding, list[str]]]:
    """Findings that are equal but for the node, once, with all their nodes; errors first, else as they came."""
    groups: dict[tuple[str, str, str, str], tuple[Finding, list[str]]] = {}
    for finding in findings:
        key = (finding.level, finding.check, finding.problem, finding.fix)
        nodes = groups.setdefault(key, (finding, []))[1]
        if finding.node not in nodes:
            nodes.append(finding.node)
    return sorted(groups.values(), key=lambda group: group[0].level != ERROR)

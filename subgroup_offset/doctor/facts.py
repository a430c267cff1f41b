"""What is known of a cluster: typed facts, read from what the scripts of ``node/`` printed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from subgroup_offset.doctor.node import MARKER

# What our plugin logs when a part of it fails (subgroup_offset/plugin.py).
_PLUGIN_LOG = re.compile(r"subgroup_offset: .*failed \(.*\)")


@dataclass(frozen=True)
class Gpu:
    """A device and its memory in bytes (None: not known)."""

    name: str
    memory: int | None


@dataclass(frozen=True)
class HostFacts:
    """Answer of ``node/host.py``; memory in bytes."""

    python: str
    executable: str
    cwd: str
    #: Distribution -> version, None where it is not installed.
    packages: dict[str, str | None]
    #: Package -> hash of its source files.
    code: dict[str, str | None]
    importable: bool
    #: Names of the entry points in group ``verl.plugins``.
    plugins: tuple[str, ...]
    plugin_policy: str | None
    gpus: tuple[Gpu, ...]
    gpu_error: str | None
    memory: int | None
    memory_available: int | None
    shared_memory: int | None

    @classmethod
    def read(cls, raw: dict[str, Any]) -> HostFacts:
        """From the script's JSON."""
        values = {**raw, "plugins": tuple(raw["plugins"]), "gpus": tuple(Gpu(**gpu) for gpu in raw["gpus"])}
        return cls(**values)


@dataclass(frozen=True)
class Stage:
    """How one stage of ``node/imports.py`` went: what it found, or why it failed."""

    value: Any = None
    error: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """Answer of ``node/assets.py`` for one model."""

    kind: str
    found: bool
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    parameters: int = 0
    bytes: int = 0
    fingerprint: str | None = None
    offline: bool = False


@dataclass(frozen=True)
class DataFacts:
    """Answer of ``node/assets.py`` for one data file."""

    error: str | None = None
    rows: int | None = None
    columns: dict[str, str] | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class PathFacts:
    """Answer of ``node/storage.py`` for one directory."""

    directory: str
    token: str | None = None
    error: str | None = None
    free: int | None = None


@dataclass(frozen=True)
class NodeFacts:
    """Everything that is known of one node of the Ray cluster."""

    id: str
    name: str
    head: bool = False
    #: What Ray counts there.
    ray_gpus: float = 0
    ray_cpus: float = 0
    #: Why the node gave no answer; everything below is empty then.
    error: str | None = None
    host: HostFacts | None = None
    stages: dict[str, Stage] = field(default_factory=dict)
    #: The plugin's own warning while verl was imported.
    plugin_log: str | None = None
    models: dict[str, ModelFacts] = field(default_factory=dict)
    data: dict[str, DataFacts] = field(default_factory=dict)
    files: dict[str, bool] = field(default_factory=dict)
    paths: dict[str, PathFacts] = field(default_factory=dict)
    #: Token files of other nodes -> whether this node can read them.
    seen: dict[str, bool] = field(default_factory=dict)
    #: Seconds by which the node's clock is ahead of the driver's.
    skew: float = 0.0
    #: Script -> why it gave no answer.
    failed: dict[str, str] = field(default_factory=dict)


def read_answer(output: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The facts a script printed, and why it did not come to its end.

    Args:
        output: one entry of ``outputs`` of ``runner.run_scripts``.
    """
    facts: dict[str, Any] = {}
    for line in output["stdout"].splitlines():
        if line.startswith(MARKER):
            facts.update(json.loads(line[len(MARKER) :]))
    if output["exit"] == 0:
        return facts, None
    if output["exit"] is None:
        return facts, "did not finish in time"
    last = next((line.strip() for line in reversed(output["stderr"].splitlines()) if line.strip()), "")
    return facts, f"ended with exit code {output['exit']} ({last[:300]})" if last else (
        f"ended with exit code {output['exit']}"
    )


def read_stages(facts: dict[str, Any], failure: str | None) -> dict[str, Stage]:
    """Stages of ``node/imports.py``; the one that began and said nothing has the script's failure as its error."""
    began = facts.pop("began", None)
    stages = {name: Stage(**result) for name, result in facts.items()}
    if failure and began and began not in stages:
        stages[began] = Stage(error=failure)
    return stages


def read_node(known: NodeFacts, outputs: dict[str, dict[str, Any]], skew: float) -> NodeFacts:
    """Add the scripts' answers to what Ray says of a node (see ``examine.py`` for which scripts)."""
    answers, failed = {}, {}
    for name, output in outputs.items():
        answers[name], failure = read_answer(output)
        if failure:
            failed[name] = failure
    log = _PLUGIN_LOG.search(outputs.get("imports", {}).get("stderr", ""))
    assets = answers.get("assets", {})
    written = answers.get("storage", {}).get("answer", {})
    return replace(
        known,
        error=None if "host" not in failed else f"its first script {failed['host']}",
        host=HostFacts.read(answers["host"]) if answers.get("host") else None,
        stages=read_stages(answers.get("imports", {}), failed.get("imports")),
        plugin_log=log.group() if log else None,
        models={path: _model(raw) for path, raw in assets.get("models", {}).items()},
        data={path: DataFacts(**raw) for path, raw in assets.get("data", {}).items()},
        files=assets.get("files", {}),
        paths={path: PathFacts(**raw) for path, raw in written.items()},
        skew=skew,
        failed=failed,
    )


def _model(raw: dict[str, Any]) -> ModelFacts:
    return ModelFacts(**{**raw, "problems": tuple(raw["problems"]), "missing": tuple(raw["missing"])})

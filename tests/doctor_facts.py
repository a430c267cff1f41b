"""Facts of a sound node and cluster, from which the tests of the doctor's checks depart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from packaging.specifiers import SpecifierSet

from subgroup_offset.cluster.doctor import judge
from subgroup_offset.cluster.findings import Finding, Node, Target
from subgroup_offset.cluster.needs import Data, Directory, Model, Needs

GIB = 2**30
MODEL, DATA, SHARED = "/shared/model", "/shared/train.parquet", "/shared/checkpoints"
VERSIONS = {
    "subgroup-offset": "0.1.0",
    "verl": "0.9.1",
    "ray": "2.60.0",
    "torch": "2.11.0+cu130",
    "vllm": "0.24.0",
    "transformers": "5.9.0",
}
HOST = {
    "python": "3.11.9",
    "executable": "/env/bin/python",
    "cwd": "/tmp/ray/cwd",
    "packages": VERSIONS,
    "code": {"subgroup_offset": "c0de", "verl": "beef"},
    "plugins": ["subgroup_offset"],
    "plugin_policy": None,
}
MODEL_FACTS = {"kind": "directory", "offline": False, "error": None, "fingerprint": "f00d"}
MODEL_FACTS |= {"parameters": 8 * 10**9, "bytes": 16 * 10**9}
COLUMNS = {
    "data_source": "str",
    "prompt": [{"content": "str", "role": "str"}],
    "reward_model": {"ground_truth": "str", "style": "str"},
}
DATA_FACTS = {"error": None, "columns": COLUMNS, "fingerprint": "da7a"}
FACTS: dict[str, Any] = {
    "host": HOST,
    "data": {DATA: DATA_FACTS, "files": {}},
    "memory": {"total": 2000 * GIB, "available": 1900 * GIB, "shared": 1000 * GIB},
    "torch": {"count": 8, "why": None},
    "verl": "0.9.1",
    "plugin": {"registered": True, "hooks": {"validate_config": True, "Tracking.log": True}, "import_error": None},
    "vllm": "0.24.0",
    "models": {MODEL: MODEL_FACTS},
}
NEEDS = Needs(
    nodes=2,
    gpus_per_node=8,
    total_gpus=16,
    models=(Model(MODEL, MODEL, MODEL),),
    data=(Data(DATA),),
    directories=(Directory(SHARED, "trainer.default_local_dir", may_be_made=True, checkpoints=True),),
)
BOUNDS = {"verl": SpecifierSet(">=0.9.0,<0.10"), "transformers": SpecifierSet(">=5.5.3,<5.11,!=5.6.0")}
TARGET = Target(NEEDS, HOST, BOUNDS, nodes=2)


def token(name: str) -> str:
    """The file that a node writes for the others."""
    return f"/shared/.token-{name}"


def place(name: str, **changes: Any) -> dict[str, Any]:
    """What a node says of the shared directory."""
    return {SHARED: {"directory": SHARED, "token": token(name), "error": None, "free": 9999 * GIB, **changes}}


def node(name: str, other: str = "b", errors: dict[str, str] | None = None, seen: Any = None, **facts: Any) -> Node:
    """A sound node of eight GPUs that has read the token of ``other``; ``facts`` by step, or other fields of it."""
    values = {**FACTS, "storage": place(name), **{step: facts[step] for step in facts if step in (*FACTS, "storage")}}
    steps = {step: {"value": value} for step, value in values.items()}
    steps |= {step: {"error": text} for step, text in (errors or {}).items()}
    fields = {key: value for key, value in facts.items() if key not in values}
    seen = {token(other): True} if seen is None else seen
    return replace(Node(f"id-{name}", name, False, 8, 192, ("H200",), steps, seen=seen), **fields)


def pair(**changes: Any) -> list[Node]:
    """Two nodes, the first of them the head; ``changes`` of the second."""
    return [node("a", head=True), node("b", other="a", **changes)]


def findings(*nodes: Node, target: Target = TARGET, dead: tuple = (), free: float = 16) -> tuple[Finding, ...]:
    """All findings about these nodes."""
    return judge(nodes, dead, target, free).findings


def expecting(**changes: Any) -> Target:
    """The sound target with other needs."""
    return replace(TARGET, needs=replace(NEEDS, **changes))

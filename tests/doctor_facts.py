"""Facts of a sound node and cluster, from which the tests of the doctor's checks depart."""

from __future__ import annotations

import re
from dataclasses import replace

from subgroup_offset.compat import PACKAGES
from subgroup_offset.doctor.checks import Context
from subgroup_offset.doctor.examine import judge
from subgroup_offset.doctor.expected import Data, Directory, Expected, Model
from subgroup_offset.doctor.facts import DataFacts, Gpu, HostFacts, ModelFacts, NodeFacts, PathFacts, Stage
from subgroup_offset.doctor.findings import Finding

GIB = 2**30
MODEL, DATA, SHARED = "/shared/model", "/shared/train.parquet", "/shared/checkpoints"
VERSIONS = {
    "subgroup-offset": "0.1.0",
    "verl": "0.9.1",
    "ray": "2.60.0",
    "torch": "2.11.0+cu130",
    "vllm": "0.24.0",
    "transformers": "5.9.0",
    "tensordict": "0.10.0",
    "TransferQueue": "0.1.11",
    "hydra-core": "1.3.2",
    "numpy": "2.3.5",
}
assert set(VERSIONS) == {package.name for package in PACKAGES}

HOST = HostFacts(
    python="3.11.9",
    executable="/env/bin/python",
    cwd="/tmp/ray/cwd",
    packages=VERSIONS,
    code={"subgroup_offset": "c0de", "verl": "beef"},
    importable=True,
    plugins=("subgroup_offset",),
    plugin_policy=None,
    gpus=(Gpu("NVIDIA H200", 141 * GIB),) * 8,
    gpu_error=None,
    memory=2000 * GIB,
    memory_available=1900 * GIB,
    shared_memory=1000 * GIB,
)
PLUGIN = {"registered": True, "hooks": {"validate_config": True, "Tracking.log": True}, "import_error": None}
COLUMNS = {
    "data_source": "string",
    "prompt": "list<element: struct<content: string, role: string>>",
    "reward_model": "struct<ground_truth: string, style: string>",
}
STAGES = {
    "torch": Stage({"build": "13.0", "count": 8, "gpus": []}),
    "verl": Stage("0.9.1"),
    "plugin": Stage(PLUGIN),
    "vllm": Stage("0.24.0"),
    "tokenizers": Stage({MODEL: None}),
}
EXPECTED = Expected(
    nodes=2,
    gpus_per_node=8,
    total_gpus=16,
    models=(Model(MODEL, MODEL, MODEL),),
    data=(Data(DATA),),
    directories=(Directory(SHARED, "trainer.default_local_dir", may_be_made=True, checkpoints=True),),
)
CONTEXT = Context(EXPECTED, HOST, nodes=2)


def node(name: str, host: HostFacts = HOST, other: str = "b", **changes) -> NodeFacts:
    """A sound node of eight GPUs; ``other`` is the one whose token it has read."""
    sound = NodeFacts(
        id=f"id-{name}",
        name=name,
        ray_gpus=8,
        ray_cpus=192,
        host=host,
        stages=STAGES,
        models={MODEL: ModelFacts("directory", True, parameters=8 * 10**9, bytes=16 * 10**9, fingerprint="f00d")},
        data={DATA: DataFacts(rows=17000, columns=COLUMNS, fingerprint="da7a")},
        paths={SHARED: PathFacts("/shared", token(name), free=10_000 * GIB)},
        seen={token(other): True},
    )
    return replace(sound, **changes)


def token(name: str) -> str:
    """The file that a node writes for the others."""
    return f"/shared/.token-{name}"


def stages(**changes) -> dict:
    """Sound stages, some of them changed."""
    return {**STAGES, **changes}


def hosts(**changes) -> HostFacts:
    """A sound host, changed."""
    return replace(HOST, **changes)


def versions(**changes) -> HostFacts:
    """A sound host with other versions; names with underscores for hyphens."""
    return replace(HOST, packages={**VERSIONS, **{name.replace("_", "-"): v for name, v in changes.items()}})


def pair(**changes) -> list[NodeFacts]:
    """Two nodes, the first of them the head; ``changes`` of the second."""
    return [node("a", head=True), node("b", other="a", **changes)]


def findings(*nodes: NodeFacts, context: Context = CONTEXT, dead: tuple = (), free: float = 16) -> tuple:
    """All findings about these nodes."""
    return judge(nodes, dead, context, free).findings


def only(found) -> Finding:
    """The one finding there is."""
    assert len(found) == 1, found
    return found[0]


def expecting(**changes) -> Context:
    """The sound context with other expectations."""
    return replace(CONTEXT, expected=replace(EXPECTED, **changes))


def assert_matches(pattern: str, text: str) -> None:
    """The text holds what the pattern says."""
    assert re.search(pattern, text), text

"""The doctor's checks as functions: a sound cluster gives no finding, each fault gives the finding that names it."""

from dataclasses import replace

import pytest
from doctor_facts import (
    COLUMNS,
    CONTEXT,
    DATA,
    GIB,
    MODEL,
    PLUGIN,
    SHARED,
    assert_matches,
    findings,
    hosts,
    only,
    pair,
    stages,
    token,
    versions,
)

from subgroup_offset.doctor.examine import CHECKS, judge
from subgroup_offset.doctor.facts import DataFacts, Gpu, ModelFacts, PathFacts, Stage


def test_a_sound_cluster_has_no_finding_and_every_check_a_cell():
    report = judge(pair(), (), CONTEXT, 16)
    assert report.findings == ()
    assert [tuple(row) for row in report.cells.values()] == [CHECKS, CHECKS]
    assert report.cells["b"]["gpus"].text == "8 x NVIDIA H200 141 GiB"


def not_registered(**changes):
    return {"stages": stages(plugin=Stage({**PLUGIN, **changes}))}


def model(**changes):
    sound = {"parameters": 8 * 10**9, "bytes": 16 * 10**9, "fingerprint": "f00d"}
    return {"models": {MODEL: ModelFacts(**{"kind": "directory", "found": True, **sound, **changes})}}


def data(**changes):
    return {"data": {DATA: DataFacts(**{"rows": 9, "columns": COLUMNS, "fingerprint": "da7a", **changes})}}


def columns(**changes):
    return data(columns={name: kind for name, kind in {**COLUMNS, **changes}.items() if kind})


def path(**changes):
    return {"paths": {SHARED: PathFacts(**{"directory": SHARED, "token": token("b"), "free": 9999 * GIB, **changes})}}


CPU_TORCH = {"build": None, "count": 0, "gpus": []}

# What is wrong on the second node; the check that must say so; its level; words of the problem; words of the fix.
FAULTS = {
    "no answer": ({"error": "gave no answer within 9 s"}, "ray", "error", "within 9 s", "raylet's log"),
    "python": ({"host": hosts(python="3.12.1")}, "python", "error", "3.12.1 .*driver has 3.11.9", "Python 3.11.9"),
    "ray differs": (
        {"host": versions(ray="2.55.1")},
        "packages",
        "error",
        "ray 2.55.1 where the driver has 2.60.0",
        "/env/bin/python -m pip install 'ray==2.60.0'",
    ),
    "vllm missing": ({"host": versions(vllm=None)}, "packages", "error", "vllm is not installed", "pip install vllm"),
    "build differs": (
        {"host": versions(torch="2.11.0+cpu")},
        "packages",
        "error",
        r"torch 2.11.0\+cpu where the driver has 2.11.0\+cu130",
        "'torch==2.11.0'",
    ),
    "source differs": (
        {"host": hosts(code={"subgroup_offset": "bad", "verl": "beef"})},
        "packages",
        "error",
        "source files of subgroup_offset differ",
        "one commit",
    ),
    "verl broken": (
        {"stages": stages(verl=Stage(error="ImportError: libcudart"))},
        "verl",
        "error",
        "ImportError: libcudart",
        "import verl",
    ),
    "verl not reached": (
        {"stages": {k: v for k, v in stages().items() if k != "verl"}, "failed": {"imports": "did not finish in time"}},
        "verl",
        "error",
        "not reached.*did not finish in time",
        "import verl",
    ),
    "vllm broken": (
        {"stages": stages(vllm=Stage(error="OSError: no _C"))},
        "vllm",
        "error",
        "vllm cannot be imported: OSError: no _C",
        "vllm_async_server",
    ),
    "plugin missing": (
        {"host": replace(versions(subgroup_offset=None), plugins=(), importable=False)},
        "plugin",
        "error",
        "subgroup_offset is not installed",
        "/env/bin/python -m pip install subgroup-offset==0.1.0",
    ),
    "no entry point": ({"host": hosts(plugins=())}, "plugin", "error", "no entry point", "PYTHONPATH is not enough"),
    "policy": (
        {"host": hosts(plugin_policy="none")},
        "plugin",
        "error",
        "VERL_USE_EXTERNAL_PLUGINS=none",
        "unset it",
    ),
    "not registered": (
        {**not_registered(registered=False), "plugin_log": "subgroup_offset: x failed (RuntimeError: why)"},
        "plugin",
        "error",
        "not registered in verl .*RuntimeError: why",
        "import subgroup_offset.plugin",
    ),
    "import of the plugin": (
        not_registered(registered=False, import_error="ModuleNotFoundError: wrapt"),
        "plugin",
        "error",
        "ModuleNotFoundError: wrapt",
        "mend what it names",
    ),
    "hook": (
        not_registered(hooks={"Tracking.log": False, "validate_config": True}),
        "plugin",
        "error",
        "hook is not in place: Tracking.log",
        "mend",
    ),
    "too many GPUs": ({"ray_gpus": 9}, "gpus", "error", "Ray counts 9 GPUs, the machine has 8", "--num-gpus 8"),
    "few CPUs": ({"ray_cpus": 20}, "gpus", "error", "20 CPUs; verl's placement group asks for 24", "--num-cpus 32"),
    "torch without CUDA": (
        {"stages": stages(torch=Stage(CPU_TORCH))},
        "gpus",
        "error",
        "build without CUDA",
        "CUDA build",
    ),
    "old driver": (
        {"stages": stages(torch=Stage({**CPU_TORCH, "build": "13.0"}))},
        "gpus",
        "error",
        "torch sees no GPU",
        "driver",
    ),
    "other GPUs": ({"host": hosts(gpus=(Gpu("L4", GIB),) * 8)}, "gpus", "warning", "L4, NVIDIA H200", "one kind"),
    "small shm": ({"host": hosts(shared_memory=64 * 2**20)}, "memory", "error", "/dev/shm has 0.06 GiB", "--shm-size"),
    "little shm": ({"host": hosts(shared_memory=4 * GIB)}, "memory", "warning", "4.0 GiB", "--shm-size"),
    "memory": ({"host": hosts(memory_available=GIB)}, "memory", "error", "1.0 GiB .*weights have 14.9", "free memory"),
    "clock": ({"skew": -7.5}, "clock", "warning", "7.5 s behind", "chrony"),
    "not writable": (
        path(token=None, error="cannot be written (Read-only file system)"),
        "paths",
        "error",
        "Read-only",
        "writable",
    ),
    "path hangs": (
        {"paths": {}, "failed": {"storage": "did not finish in time"}},
        "paths",
        "error",
        "did not finish",
        "mount it again",
    ),
    "not shared": ({"seen": {token("a"): False}}, "paths", "error", "not the storage that a has", "shared file system"),
    "disk full": (path(free=50 * GIB), "disk", "error", "50.0 GiB are free .*about 89.4", "free space"),
    "disk short": (path(free=200 * GIB), "disk", "warning", "200.0 GiB", "max_actor_ckpt_to_keep"),
    "no model": (model(found=False, bytes=0), "model", "error", f"{MODEL} does not exist", "copy it"),
    "shards missing": (model(missing=("m-2.safetensors",)), "model", "error", r"lacks 1 weight file.*m-2", "again"),
    "model cut": (model(problems=("m has 9 bytes",)), "model", "error", "m has 9 bytes", "copy the model again"),
    "other model": (model(fingerprint="0"), "model", "error", f"{MODEL} differs from the one on a", "one source"),
    "tokenizer": (
        {"stages": stages(tokenizers=Stage({MODEL: "OSError: no tokenizer"}))},
        "model",
        "error",
        "cannot be loaded .OSError: no tokenizer",
        "tokenizer's files",
    ),
    "no data": (data(error="FileNotFoundError", columns=None), "data", "error", "FileNotFoundError", "any node"),
    "column": (columns(data_source=None), "data", "error", r"lacks the column\(s\) data_source", "reward_fn_key"),
    "prompt": (columns(prompt="string"), "data", "error", "no list of messages .string", "role"),
    "reward": (columns(reward_model="string"), "data", "error", "no field ground_truth", "ground_truth"),
    "empty": (data(rows=0), "data", "error", "no rows", "write it again"),
    "other data": (data(fingerprint="0"), "data", "error", "differs from the one on a", "one source"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_node_is_named_with_its_fix(fault):
    changes, check, level, problem, fix = FAULTS[fault]
    found = [f for f in findings(*pair(**changes)) if f.check == check]
    finding = only(found)
    assert finding.level == level
    assert finding.node == ("cluster" if fault == "other GPUs" else "b")
    assert_matches(problem, finding.problem)
    assert_matches(fix, finding.fix)
    assert "\n" not in finding.problem + finding.fix

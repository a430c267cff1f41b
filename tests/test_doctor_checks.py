"""The doctor's checks as functions: a sound cluster gives no finding, each fault gives the finding that names it."""

import importlib.metadata
import io
import re
from dataclasses import replace

import pytest
from doctor_facts import (
    BOUNDS,
    COLUMNS,
    DATA,
    DATA_FACTS,
    FACTS,
    GIB,
    HOST,
    MODEL,
    MODEL_FACTS,
    SHARED,
    TARGET,
    VERSIONS,
    expecting,
    findings,
    node,
    pair,
    place,
    token,
)
from packaging.specifiers import SpecifierSet
from rich.console import Console

from subgroup_offset.cluster.doctor import judge, show
from subgroup_offset.cluster.needs import Data, Directory
from subgroup_offset.cluster.node_checks import CHECKS
from subgroup_offset.cluster.versions import allows, package_bounds


def test_a_sound_cluster_has_no_finding_and_every_check_a_cell():
    report = judge(pair(), (), TARGET, 16)
    assert report.findings == ()
    assert [tuple(row) for row in report.cells.values()] == [("ray", *CHECKS)] * 2
    assert report.cells["b"]["gpus"] == "8 x H200"


def host(**changes):
    return {"host": {**HOST, **changes}}


def versions(**changes):
    return host(packages={**VERSIONS, **{name.replace("_", "-"): v for name, v in changes.items()}})


def plugin(**changes):
    return {"plugin": {**FACTS["plugin"], **changes}}


def memory(**changes):
    return {"memory": {**FACTS["memory"], **changes}}


def storage(**changes):
    return {"storage": place("b", **changes)}


def model(**changes):
    return {"models": {MODEL: {**MODEL_FACTS, **changes}}}


def data(**changes):
    return {"data": {DATA: {**DATA_FACTS, **changes}, "files": {}}}


def columns(**changes):
    return data(columns={name: kind for name, kind in {**COLUMNS, **changes}.items() if kind})


MISSING = versions(subgroup_offset=None)["host"] | {"plugins": [], "code": {"subgroup_offset": None, "verl": "beef"}}
SOURCE = host(code={"subgroup_offset": "bad", "verl": "beef"})
NO_CUDA = {"torch": {"count": 0, "why": "AssertionError: Torch not compiled with CUDA"}}
NOT_REGISTERED = plugin(registered=False) | {"plugin_log": "subgroup_offset: x failed (RuntimeError: why)"}
WARNED = {"other GPUs", "hidden GPUs", "little shm", "disk short", "remote model", "remote data"}

# What is wrong on the second node; the check that must say so; words of the problem; words of the fix.
FAULTS = {
    "no answer": ({"facts": {}, "failure": "gave no answer within 9 s"}, "ray", "within 9 s", "raylet's log"),
    "python": (host(python="3.12.1"), "python", "3.12.1 .*driver has 3.11.9", "Python 3.11.9"),
    "ray differs": (versions(ray="2.5"), "packages", "ray 2.5 where the driver has 2.60.0", "-m pip install ray==2.60"),
    "vllm missing": (versions(vllm=None), "packages", "vllm is not installed", "python -m pip install vllm==0.24"),
    "build differs": (versions(torch="2.11.0"), "packages", r"2.11.0 where .* 2.11.0\+cu130", "torch==2.11.0"),
    "source differs": (SOURCE, "packages", "source files of subgroup_offset differ", "one commit"),
    "version only": (versions(subgroup_offset="0"), "packages", "^subgroup-offset 0 where the", "offset==0.1.0"),
    "verl broken": ({"errors": {"verl": "ImportError: libcudart"}}, "verl", "ImportError: libcudart", "import verl"),
    "vllm broken": ({"errors": {"vllm": "OSError: no _C"}}, "vllm", "imported: OSError: no _C", "vllm_async_server"),
    "plugin missing": ({"host": MISSING}, "plugin", "is not installed", "pip install subgroup-offset==0.1.0"),
    "no entry point": (host(plugins=[]), "plugin", "no entry point", "PYTHONPATH is not enough"),
    "policy": (host(plugin_policy="none"), "plugin", "VERL_USE_EXTERNAL_PLUGINS=none", "unset it"),
    "no trainer": ({"errors": {"plugin": "ImportError"}}, "plugin", "cannot be imported: ImportError", "core_algos"),
    "not registered": (NOT_REGISTERED, "plugin", "not registered in verl .*: why", "subgroup_offset.plugin"),
    "import": (plugin(registered=False, import_error="No wrapt"), "plugin", "No wrapt", "mend what it names"),
    "hook": (plugin(hooks={"Tracking.log": False, "validate": True}), "plugin", "not in place: Tracking.log", "mend"),
    "few CPUs": ({"cpus": 20}, "gpus", "20 CPUs; verl's placement group asks for 24", "--num-cpus 32"),
    "too many GPUs": ({"gpus": 9}, "gpus", "torch sees 8 of the 9 GPUs that Ray counts", "no more --num-gpus"),
    "torch without CUDA": (NO_CUDA, "gpus", "sees 0 of the 8 .* not compiled with CUDA", "CUDA build"),
    "hidden GPUs": ({"torch": {"count": 9, "why": None}}, "gpus", "Ray counts 8 of the 9 GPUs", "CUDA_VISIBLE_DEVICES"),
    "other GPUs": ({"gpu_kinds": ("L4",)}, "gpus", "H200, L4", "one kind"),
    "small shm": (memory(shared=64 * 2**20), "memory", "/dev/shm has 0.06 GiB", "--shm-size"),
    "little shm": (memory(shared=4 * GIB), "memory", "4.0 GiB", "--shm-size"),
    "memory": (memory(available=GIB), "memory", "1.0 GiB .*weights have 14.9", "free memory"),
    "no psutil": ({"errors": {"memory": "No module named 'psutil'"}}, "memory", "psutil", "mend"),
    "not writable": (storage(token=None, error="cannot be written (Read-only)"), "paths", "Read-only", "writable"),
    "path hangs": ({"errors": {"storage": "did not finish in time"}}, "paths", "did not finish", "mount it again"),
    "not shared": ({"seen": {token("a"): False}}, "paths", "not the storage that a has", "shared file system"),
    "did not look": ({"seen": {}}, "paths", "could not be tried", "shared file system"),
    "disk full": (storage(free=50 * GIB), "disk", "50.0 GiB are free .*about 89.4", "free space"),
    "disk short": (storage(free=200 * GIB), "disk", "200.0 GiB", "max_actor_ckpt_to_keep"),
    "no model": (model(kind="missing"), "model", f"{MODEL} does not exist", "copy it"),
    "model cut": (model(error="OSError: cut"), "model", f"{MODEL} cannot be loaded .OSError: cut", "copy the model"),
    "model hangs": ({"errors": {"models": "did not finish"}}, "model", "did not finish", "hangs"),
    "other model": (model(fingerprint="0"), "model", f"{MODEL} differs from the one on a", "one source"),
    "remote model": (model(kind="remote"), "model", "remote storage", "all nodes share"),
    "not cached": (model(kind="hub", error="x", offline=True), "model", "cache.*HF_HUB_OFFLINE is set", "hf download"),
    "no data": (data(error="FileNotFoundError", columns=None), "data", "FileNotFoundError", "any node"),
    "remote data": (data(columns=None), "data", "remote storage", "all nodes share"),
    "column": (columns(data_source=None), "data", r"lacks the column\(s\) data_source", "reward_fn_key"),
    "prompt": (columns(prompt="str"), "data", "prompt is str, not a list of messages", "write it"),
    "reward": (columns(reward_model="str"), "data", "reward_model is str, not .*ground_truth", "write it"),
    "other data": (data(fingerprint="0"), "data", "differs from the one on a", "one source"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_node_is_named_with_its_fix(fault):
    changes, check, problem, fix = FAULTS[fault]
    (finding,) = [f for f in findings(*pair(**changes)) if f.check == check]
    assert finding.level == ("warning" if fault in WARNED else "error")
    assert finding.node == ("cluster" if fault == "other GPUs" else "b")
    assert re.search(problem, finding.problem), finding
    assert re.search(fix, finding.fix), finding
    assert "\n" not in finding.problem + finding.fix


def test_a_node_without_answer_has_no_other_finding_of_its_own():
    found = findings(*pair(facts={}, failure="gave no answer"))
    # One node fewer than the run needs, and half of its GPUs.
    assert [(f.node, f.check) for f in found] == [("b", "ray"), ("cluster", "gpus"), ("cluster", "gpus")]


def test_an_examination_that_stopped_names_what_it_did_not_reach():
    known = {step: {"value": FACTS[step]} for step in ("host", "data", "memory")}
    known |= {"storage": {"value": place("b")}, "torch": {"error": "did not finish in time"}}
    found = findings(*pair(facts=known, failure="did not finish in time"))
    assert {f.check for f in found} == {"verl", "plugin", "vllm", "gpus", "model"}
    assert all("did not finish in time" in f.problem for f in found)


def test_versions_that_all_nodes_share_may_still_be_wrong():
    old = versions(verl="0.8.0", transformers="5.6.0")
    found = findings(node("a", **old), node("b", other="a", **old), target=replace(TARGET, driver=old["host"]))
    problems = {f"{name} {old['host']['packages'][name]} is outside {bounds}" for name, bounds in BOUNDS.items()}
    assert {f.problem for f in found} == problems and len(problems) == 2
    assert {f.node for f in found} == {"a", "b"}


def test_bounds_are_those_that_the_installed_packages_state():
    bounds = package_bounds()
    assert bounds["tensordict"] == SpecifierSet(">=0.8.0,<=0.10.0,!=0.9.0")  # verl's
    assert bounds["transferqueue"] == SpecifierSet(">=0.1.10")  # of its extra verl-core
    assert bounds["verl"] == SpecifierSet(">=0.9.0,<0.10") and bounds["torch"] == SpecifierSet(
        ">=2.6"
    )  # stated by this package
    assert "pytest" not in bounds and "accelerate" not in bounds  # of another extra; without bounds
    installed = {name: importlib.metadata.version(name) for name in bounds}
    assert all(allows(bounds[name], version) for name, version in installed.items()), installed


@pytest.mark.parametrize(
    ("bounds", "version", "allowed"),
    [
        (">=0.9.0,<0.10", "0.10.0", False),
        (">=2.6", "2.13.0+cpu", True),
        (">=2.6", "2.5.1+cu124", False),
        (">=5.5.3,<5.11,!=5.6.0", "5.6.0", False),
        (">=0.18.0", "0.24.1rc1", True),
        (">=0.18.0", "dev-build", False),
    ],
)
def test_versions(bounds, version, allowed):
    assert allows(SpecifierSet(bounds), version) is allowed


def no_gpu(name, **changes):
    return node(name, gpus=0, gpu_kinds=(), torch={"count": 0, "why": "RuntimeError: no driver"}, **changes)


def test_a_head_without_gpus_is_a_warning_elsewhere_it_is_an_error():
    three, seen = replace(TARGET, nodes=3), {token("b"): True, token("c"): True}
    (finding,) = findings(no_gpu("a", head=True, seen=seen), node("b", "a"), node("c", "a"), target=three)
    assert (finding.node, finding.level) == ("a", "warning") and "no driver" in finding.problem
    (finding,) = findings(node("a", head=True, seen=seen), no_gpu("b", other="a"), node("c", "a"), target=three)
    assert (finding.node, finding.level) == ("b", "error") and "platform=cpu" in finding.fix


def test_fewer_gpus_than_the_run_wants_are_a_warning():
    found = findings(node("a", gpus=4, torch={"count": 4, "why": None}), target=expecting(nodes=None, total_gpus=None))
    assert [f.level for f in found] == ["warning"] and "less than trainer.n_gpus_per_node=8" in found[0].problem


def test_on_the_cpu_platform_missing_gpus_are_no_problem():
    target = expecting(device="cpu", gpus_per_node=1, total_gpus=2)
    nodes = [no_gpu("a", head=True), no_gpu("b", other="a")]
    assert findings(*(replace(n, gpus=1, cpus=8) for n in nodes), target=target) == ()
    assert {f.check for f in findings(*nodes, target=target)} == {"gpus"}


@pytest.mark.parametrize(
    ("changes", "free", "problem"),
    [
        ({"nodes": 3, "total_gpus": 16}, 16, "2 of 2 node(s) with 8 GPUs; trainer.nnodes=3"),
        ({"total_gpus": 24}, 16, "want 24 GPUs, the cluster has 16"),
        ({}, 9, "9 of 16 GPUs are free, the run wants 16"),
    ],
)
def test_a_cluster_too_small_or_taken(changes, free, problem):
    (finding,) = findings(*pair(), target=expecting(**changes), free=free)
    assert (finding.level, finding.node) == ("error", "cluster") and problem in finding.problem


def test_dead_nodes_are_a_warning():
    (finding,) = findings(*pair(), dead=("c/123456",))
    assert finding.level == "warning" and "c/123456" in finding.problem


def test_relative_paths_mean_something_else_on_each_node():
    target = expecting(directories=(Directory("ckpt", "trainer.default_local_dir"),), data=(Data("a.parquet"),))
    facts = {"storage": {"ckpt": place("a")[SHARED]}, "data": {"a.parquet": DATA_FACTS | {"error": "FileNotFound"}}}
    found = [f for f in findings(node("a", **facts), target=target) if f.check in ("paths", "data")]
    assert "relative: here it means a directory in /tmp/ray/cwd" in found[0].problem
    assert "absolute path (a relative one starts at /tmp/ray/cwd)" in found[1].fix
    alone = findings(node("a", **facts), target=replace(target, nodes=1))
    assert not [f for f in alone if f.check == "paths"]


def test_directories_that_need_not_be_shared_are_not_compared():
    private = expecting(directories=(Directory(SHARED, "trainer.rollout_data_dir", shared=False),))
    assert findings(*pair(seen={token("a"): False}), target=private) == ()


def test_files_of_code_and_datasets_of_ones_own():
    target = expecting(files=("/reward.py",), data=(Data(DATA, columns=()),))
    facts = [
        {"data": {DATA: DATA_FACTS | {"columns": {"x": "int"}}, "files": {"/reward.py": r}}} for r in (True, False)
    ]
    (finding,) = findings(node("a", head=True, **facts[0]), node("b", other="a", **facts[1]), target=target)
    assert (finding.node, finding.problem) == ("b", "/reward.py cannot be read")


def test_the_table_shows_every_node_and_each_finding_on_one_line_for_all_its_nodes():
    devices = [{"count": 8, "why": None}] * 5 + [{"count": 9, "why": None}]
    nodes = [node(f"node-{i}", other="node-0", torch=t, **memory(shared=0)) for i, t in enumerate(devices)]
    target = replace(expecting(directories=(), total_gpus=48), nodes=6)
    console = Console(record=True, width=60, file=io.StringIO())
    show(judge(nodes, (), target, 48), console)
    text = console.export_text()
    assert all(f"node-{i}" in text for i in range(6))
    rows = [line.split("│") for line in text.splitlines() if line.startswith("│")]
    levels = {row[1].strip(): [cell.split()[0] for cell in row[2:-1] if cell.strip()] for row in rows}  # the last two's
    assert levels["memory"] == ["error", "error"] and levels["gpus"] == ["ok", "warning"]
    last = text.splitlines()[-3:]
    assert last[0].startswith("error all nodes: memory: /dev/shm has 0.00 GiB")
    assert last[1].startswith("warning node-5: gpus: Ray counts 8 of the 9 GPUs. Fix: unset CUDA_VISIBLE_DEVICES")
    assert last[2] == "1 error(s), 1 warning(s) on 6 node(s)"

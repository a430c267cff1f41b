"""The doctor's checks where several nodes, or a whole run, come together: constructed facts to findings."""

import io
from dataclasses import replace

import pytest
from doctor_facts import (
    CONTEXT,
    DATA,
    EXPECTED,
    GIB,
    HOST,
    MODEL,
    SHARED,
    assert_matches,
    expecting,
    findings,
    hosts,
    node,
    only,
    pair,
    stages,
    token,
    versions,
)
from rich.console import Console

from subgroup_offset.doctor.checks import Context
from subgroup_offset.doctor.cluster_checks import joining
from subgroup_offset.doctor.examine import judge
from subgroup_offset.doctor.expected import Data, Directory
from subgroup_offset.doctor.facts import DataFacts, ModelFacts, PathFacts, Stage
from subgroup_offset.doctor.findings import merged
from subgroup_offset.doctor.table import show


def test_a_fault_shows_in_its_cell_and_nowhere_else():
    report = judge(pair(skew=60.0), (), CONTEXT, 16)
    levels = {(name, check): cell.level for name, row in report.cells.items() for check, cell in row.items()}
    assert {place for place, level in levels.items() if level} == {("b", "clock")}


def test_a_node_without_answer_has_no_other_finding_of_its_own():
    found = findings(*pair(error="gave no answer", paths={}))
    assert {f.check for f in found if f.node == "b"} == {"ray"}
    # One node fewer than the run needs, and half of its GPUs.
    assert {f.check for f in found if f.node == "cluster"} == {"gpus"}


def test_versions_that_all_nodes_share_may_still_be_wrong():
    old = versions(verl="0.8.0", transformers="5.6.0")
    context = replace(CONTEXT, driver=old)
    found = findings(node("a", host=old), node("b", host=old, other="a"), context=context)
    problems = {f.problem for f in found}
    assert problems == {"verl 0.8.0 is outside >=0.9.0,<0.10", "transformers 5.6.0 is outside >=5.5.3,<5.11,!=5.6.0"}
    assert {f.node for f in found} == {"a", "b"}


def test_source_files_are_not_compared_between_versions():
    other = replace(versions(subgroup_offset="0.0.9"), code={"subgroup_offset": "bad", "verl": "beef"})
    problem = only(findings(*pair(host=other))).problem
    assert problem == "subgroup-offset 0.0.9 where the driver has 0.1.0"


def test_an_untried_verl_is_a_warning():
    new = versions(verl="0.9.7")
    found = findings(node("a", host=new), node("b", host=new, other="a"), context=replace(CONTEXT, driver=new))
    assert {(f.level, f.problem) for f in found} == {("warning", "verl 0.9.7 was never tried with this package")}


def no_gpu(name, **changes):
    torch = Stage({"build": "13.0", "count": 0, "gpus": []})
    nothing = hosts(gpus=(), gpu_error="nvidia-smi is not installed")
    return node(name, host=nothing, ray_gpus=0, stages=stages(torch=torch), **changes)


def test_a_head_without_gpus_is_a_warning_elsewhere_it_is_an_error():
    three = replace(CONTEXT, nodes=3)
    third = node("c", other="a")
    head = no_gpu("a", head=True, seen={token("b"): True, token("c"): True})
    finding = only(findings(head, node("b", other="a"), third, context=three))
    assert (finding.node, finding.check, finding.level) == ("a", "gpus", "warning")
    first = node("a", head=True, seen={token("b"): True, token("c"): True})
    finding = only(findings(first, no_gpu("b", other="a"), third, context=three))
    assert (finding.node, finding.check, finding.level) == ("b", "gpus", "error")


def test_on_the_cpu_platform_missing_gpus_are_no_problem():
    context = expecting(device="cpu", gpus_per_node=1, total_gpus=2)
    nodes = [no_gpu("a", head=True), no_gpu("b", other="a")]
    assert findings(*(replace(n, ray_gpus=1, ray_cpus=8) for n in nodes), context=context) == ()
    assert {f.check for f in findings(*nodes, context=context)} == {"gpus"}


def test_torch_lists_the_devices_where_nvidia_smi_is_missing():
    torch = Stage({"build": "6.4", "count": 8, "gpus": [{"name": "MI300X", "memory": 192 * GIB}] * 8})
    rocm = hosts(gpus=(), gpu_error="nvidia-smi is not installed")
    nodes = [node("a", host=rocm, stages=stages(torch=torch)), node("b", host=rocm, other="a")]
    report = judge([nodes[0], replace(nodes[1], stages=nodes[0].stages)], (), CONTEXT, 16)
    assert report.findings == () and report.cells["a"]["gpus"].text == "8 x MI300X 192 GiB"


@pytest.mark.parametrize(
    ("changes", "free", "problem"),
    [
        ({"nodes": 3, "total_gpus": 16}, 16, r"2 of 2 node\(s\) with 8 GPUs; trainer.nnodes=3"),
        ({"total_gpus": 24}, 16, "want 24 GPUs, the cluster has 16"),
        ({}, 9, "9 of 16 GPUs are free, the run wants 16"),
    ],
)
def test_a_cluster_too_small_or_taken(changes, free, problem):
    finding = only(findings(*pair(), context=expecting(**changes), free=free))
    assert finding.level == "error" and finding.node == "cluster"
    assert_matches(problem, finding.problem)


def test_dead_nodes_are_a_warning():
    finding = only(findings(*pair(), dead=["c/123456"]))
    assert finding.level == "warning" and "c/123456" in finding.problem


def test_a_relative_path_means_something_else_on_each_node():
    context = expecting(directories=(Directory("checkpoints/x", "trainer.default_local_dir", may_be_made=True),))
    relative = {"paths": {"checkpoints/x": PathFacts("/tmp/ray/cwd", token("a"), free=GIB)}, "seen": {}}
    found = findings(node("a", **relative), context=context)
    assert any("relative: here it means a directory in /tmp/ray/cwd" in f.problem for f in found)
    assert not [f for f in findings(node("a", **relative), context=replace(context, nodes=1)) if f.check == "paths"]


def test_a_node_that_wrote_but_could_not_look_is_told_from_one_that_saw_nothing():
    assert "could not be tried" in only(findings(*pair(seen={}))).problem
    assert "not the storage" in only(findings(*pair(seen={token("a"): False}))).problem


def test_relative_data_is_told_where_it_was_looked_for():
    context = expecting(data=(Data("data/train.parquet"),))
    facts = {"data/train.parquet": DataFacts(error="FileNotFoundError")}
    (finding,) = [f for f in findings(node("a", data=facts), context=context) if f.check == "data"]
    assert "absolute path (a relative one starts at /tmp/ray/cwd)" in finding.fix


def test_directories_that_need_not_be_shared_are_not_compared():
    private = expecting(directories=(Directory(SHARED, "trainer.rollout_data_dir", shared=False),))
    assert findings(*pair(seen={token("a"): False}), context=private) == ()


def test_files_of_code_and_datasets_of_ones_own():
    context = expecting(files=("/shared/reward.py",), data=(Data(DATA, columns=()),))
    nodes = pair(data={DATA: DataFacts(rows=9, columns={"x": "int64"}, fingerprint="da7a")})
    found = findings(replace(nodes[0], files={"/shared/reward.py": True}), nodes[1], context=context)
    assert only(found).problem == "/shared/reward.py cannot be read"


@pytest.mark.parametrize(
    ("facts", "level", "problem"),
    [
        (ModelFacts("hub", False), "warning", "not in the hub's cache .* would download it"),
        (ModelFacts("hub", True, missing=("m-2",)), "warning", "not wholly in"),
        (ModelFacts("hub", False, offline=True), "error", "HF_HUB_OFFLINE is set"),
        (ModelFacts("remote", True), "warning", "remote storage"),
    ],
)
def test_models_that_are_no_directories(facts, level, problem):
    finding = only([f for f in findings(*pair(models={MODEL: facts})) if f.check == "model"])
    assert finding.level == level
    assert_matches(problem, finding.problem)


def test_that_transformers_cannot_read_a_remote_model_is_no_fault():
    unread = stages(tokenizers=Stage({MODEL: "OSError: no such directory"}))
    (finding,) = findings(*pair(models={MODEL: ModelFacts("remote", True)}, stages=unread))
    assert finding.level == "warning" and "remote storage" in finding.problem


def test_the_driver_needs_the_plugin_version_to_name_it():
    context = Context(EXPECTED, versions(subgroup_offset=None), nodes=2)
    missing = replace(versions(subgroup_offset=None), plugins=(), importable=False)
    found = [f for f in findings(*pair(host=missing), context=context) if f.check == "plugin"]
    assert only(found).fix == f"{HOST.executable} -m pip install subgroup-offset==VERSION"


@pytest.mark.parametrize(
    ("ray_init", "joins", "fix"),
    [
        ({"num_cpus": 16, "num_gpus": 1}, True, "add ray_kwargs.ray_init.num_cpus=null ray_kwargs.ray_init.num_gpus="),
        ({"num_cpus": 16}, False, None),
        ({"num_cpus": None, "address": "auto"}, True, None),
    ],
)
def test_rays_refusal_is_foreseen(ray_init, joins, fix):
    found = joining(ray_init, joins)
    assert bool(found) is (fix is not None)
    if fix:
        assert_matches(fix, only(found).fix)


def test_equal_findings_of_several_nodes_are_one_line():
    slow = [node(name, other="b" if name == "a" else "a", host=hosts(shared_memory=0)) for name in "ab"]
    (finding, where), *rest = merged(findings(*slow))
    assert not rest and where == ["a", "b"] and finding.check == "memory"


def test_the_table_shows_every_node_and_each_finding_on_one_line():
    nodes = [node(f"node-{i}", other="node-0", ray_gpus=8) for i in range(6)]
    nodes[5] = replace(nodes[5], skew=9.0)
    context = expecting(directories=(), nodes=6, total_gpus=48)
    console = Console(record=True, width=60, file=io.StringIO())
    show(judge(nodes, (), context, 48), console)
    text = console.export_text()
    assert all(f"node-{i}" in text for i in range(6))
    line = next(line for line in text.splitlines() if "clock: its clock" in line)
    assert line.startswith("warning node-5: clock: its clock is 9.0 s ahead of the driver's. Fix: start time")
    assert text.splitlines()[-1] == "0 error(s), 1 warning(s) on 6 node(s)"

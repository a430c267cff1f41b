"""The doctor on real Ray clusters of two nodes: a sound one, one whose second node lacks the plugin, one that hangs."""

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from ray.cluster_utils import Cluster
from untrained_world import write_untrained_world

NODE = {"num_cpus": 4, "num_gpus": 1, "object_store_memory": 10**8}

# Run by every interpreter of a node before anything else: this package cannot be imported, nor its metadata be found.
HIDE = """
import importlib.metadata as metadata
import sys

class Hide:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] == "subgroup_offset":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide)
everything = metadata.MetadataPathFinder.find_distributions

def visible(context=metadata.DistributionFinder.Context()):
    return (found for found in everything(context) if found.name != "subgroup-offset")

metadata.MetadataPathFinder.find_distributions = visible
"""


@pytest.fixture(scope="module")
def cluster():
    """A head node; the tests add the second."""
    started = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield started
    started.shutdown()


@contextmanager
def second_node(cluster, **options):
    """Adds a node and takes it away again; gives its Ray id and its raylet's process."""
    node = cluster.add_node(**NODE, **options)
    cluster.wait_for_nodes()
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    try:
        yield node.node_id, raylet
    finally:
        raylet.resume()
        cluster.remove_node(node)


def doctor(cluster, *arguments):
    command = [sys.executable, "-m", "subgroup_offset.doctor", "--address", cluster.address, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "150", "VERL_PLATFORM": "cpu"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """What a toy run reads."""
    return write_untrained_world(tmp_path_factory.mktemp("world"))


@pytest.mark.slow
def test_a_run_that_can_start(cluster, world):
    run = [
        *("--config-name", "contrast", "+experiment=toy", "+platform=cpu", f"toy_dir={world}"),
        *("trainer.nnodes=2", "trainer.save_freq=1", f"trainer.default_local_dir={world}/checkpoints"),
        *("ray_kwargs.ray_init.num_cpus=null", "ray_kwargs.ray_init.num_gpus=null"),
    ]
    with second_node(cluster) as (node, _):
        done = doctor(cluster, *run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 error(s), 0 warning(s) on 2 node(s)" in done.stdout
    assert node[:6] in done.stdout
    rows = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("│")}
    assert {row.count(" ok ") for row in rows.values()} == {2}
    assert rows["data"].count("16 rows") == 2 and rows["paths"].count("1 of 1") == 2
    # The tokens are gone, and the directory that the run makes was not made for it.
    assert sorted(path.name for path in world.iterdir()) == ["model", "toy-train.parquet", "toy-val.parquet"]


@pytest.mark.slow
def test_a_node_without_the_plugin_is_named_with_the_fix(cluster, world, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    with second_node(cluster, env_vars={"PYTHONPATH": str(tmp_path)}) as (node, _):
        done = doctor(cluster, "--path", world, "--model", world / "model", "--data", world / "toy-train.parquet")
    assert done.returncode == 1, done.stdout + done.stderr
    # vLLM for the CPU needs the plugin too.
    errors = {line.split(": ")[1]: line for line in done.stdout.splitlines() if line.startswith("error")}
    assert set(errors) == {"plugin", "vllm"}, done.stdout
    assert all(f"/{node[:6]}: " in line for line in errors.values())
    fix = f"Fix: {sys.executable} -m pip install subgroup-offset==0.1.0"
    assert errors["plugin"].endswith(f"plugin: subgroup_offset is not installed. {fix}")


def test_a_node_that_does_not_answer_is_a_finding(cluster):
    with second_node(cluster) as (node, raylet):
        raylet.suspend()
        done = doctor(cluster, "--timeout", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if f"/{node[:6]}: ray" in line]
    assert line.startswith("error") and "gave no answer within 20 s" in line


@pytest.mark.parametrize("listens", [False, True])
def test_a_cluster_that_is_not_there(listens):
    """Nothing at the port, or something that is no Ray and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = "{}:{}".format(*server.getsockname())
        command = [sys.executable, "-m", "subgroup_offset.doctor", "--address", address, "--timeout", "3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    reason = "no answer within 3 s" if listens else "nothing answers there"
    assert done.returncode == 1 and f"Ray at {address} cannot be joined: {reason}" in done.stderr
    assert "Fix: start it" in done.stderr and "Traceback" not in done.stderr


def test_the_answer_of_a_config_error_names_the_key(cluster):
    done = doctor(cluster, "--config-name", "contrast", "no.such.key=1", "--timeout", "2")
    assert done.returncode == 1
    assert "error config: the run's config is refused" in done.stdout and "no.such.key" in done.stdout


def test_messages_hold_no_lines_of_their_own():
    """Errors of other libraries may have many lines: in a finding they are one."""
    from subgroup_offset.doctor.node.imports import one_line

    assert one_line(ValueError("a\n  b\n")) == "ValueError: a b"
    assert len(one_line(ValueError(json.dumps(["x"] * 999)))) <= 500

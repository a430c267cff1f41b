"""The doctor on a real Ray cluster, one node of which lacks the plugin or hangs; and a job submitted to it."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from ray.cluster_utils import Cluster

NODE = {"num_cpus": 8, "num_gpus": 1, "object_store_memory": 10**8}
SUBMIT = Path(__file__).resolve().parents[1] / "scripts" / "cluster_submit.sh"

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
    """A head node with a dashboard; the tests add the second."""
    with pytest.MonkeyPatch.context() as patch:
        # As in an activated environment: jobs run what PATH names.
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        started = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": True, "dashboard_port": 0})
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


def doctor(address, *arguments):
    command = [sys.executable, "-m", "subgroup_offset.cli", "doctor", "--address", address, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "150", "VERL_PLATFORM": "cpu"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


@pytest.mark.slow
def test_a_node_without_the_plugin_is_named_with_the_fix(cluster, untrained_world, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    model, data = untrained_world / "model", untrained_world / "toy-train.parquet"
    with second_node(cluster, env_vars={"PYTHONPATH": str(tmp_path)}) as (node, _):
        done = doctor(cluster.address, "--path", untrained_world, "--model", model, "--data", data)
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
        done = doctor(cluster.address, "--timeout", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if f"/{node[:6]}: ray" in line]
    assert line.startswith("error") and "gave no answer within 20 s" in line


@pytest.mark.slow
def test_a_job_is_submitted_to_a_running_cluster(cluster, printed_run):
    given = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment = {**given, "RAY_API_SERVER_ADDRESS": f"http://{cluster.head_node.webui_url}"}
    for _ in range(12):
        done = subprocess.run([str(SUBMIT), *printed_run], env=environment, capture_output=True, text=True, timeout=600)
        if "No available agent to submit job" not in done.stderr:  # the node's own takes a while to report
            break
        time.sleep(5)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 error(s)" in done.stdout and "project_name: two words" in done.stdout


@pytest.mark.parametrize("listens", [False, True])
def test_a_cluster_that_is_not_there(listens):
    """Nothing at the port, or something that is no Ray and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = "{}:{}".format(*server.getsockname())
        done = doctor(address, "--timeout", "3")
    reason = "no answer within 3 s" if listens else "[Errno 111] Connection refused"
    assert done.returncode == 1 and f"Ray at {address} cannot be joined: {reason}" in done.stderr
    assert "Fix: start it" in done.stderr and "Traceback" not in done.stderr

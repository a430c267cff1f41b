"""The scripts that train on a cluster: arguments reach the training unchanged, Ray starts and ends, exit codes hold."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
START, SUBMIT = SCRIPTS / "cluster_ray_start.sh", SCRIPTS / "cluster_submit.sh"
RAY = "--num-cpus 8 --num-gpus 1 --object-store-memory 100000000"
# Everything a shell might change on the way, and Hydra's own syntax.
ARGUMENTS = [
    "--config-name",
    "contrast",
    "trainer.project_name='two words'",
    'trainer.experiment_name="a $HOME `id` \\ !"',
    "trainer.logger=[console,file]",
    "+x={a:1,b:(2,3)}",
    "~y",
    "z=*;&|<>#",
    "--cfg",
    "job",
]


def environment(**variables):
    """This environment, with the interpreter's directory first in PATH, as an activated one has it."""
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "RAY_", "MASTER_", "NODE_"))}
    return {**cleared, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}


def run(script, *arguments, **variables):
    command = [str(script), *arguments]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", [START, SUBMIT])
def test_help_says_what_can_be_set(script):
    done = run(script, "--help")
    assert done.returncode == 0 and "verl.trainer.main_ppo" in done.stdout and "DOCTOR=warn" in done.stdout


@pytest.mark.parametrize("missing", ["NNODES", "NODE_RANK", "MASTER_ADDR"])
def test_what_is_not_set_is_named(missing):
    variables = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    del variables[missing]
    done = run(START, "x=1", **variables)
    assert done.returncode == 1 and f"error: {missing} is not set" in done.stderr


def test_a_node_gives_up_where_there_is_no_head():
    nowhere = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1", "RAY_PORT": "1", "JOIN_SECONDS": "1"}
    done = run(START, "x=1", **nowhere)
    assert done.returncode == 1 and "no head at 127.0.0.1:1 after 1 s" in done.stderr


# Stand-ins that let a second suffice to see what arrives: `ray job submit` joins its arguments to one line for a shell,
# by list2cmdline in older versions, by shlex.join in newer ones.
FAKE_RAY = f"""#!{sys.executable}
import json, os, shlex, subprocess, sys
given = sys.argv[1:]
variables = json.loads(given[given.index("--runtime-env-json") + 1])["env_vars"]
entrypoint = given[given.index("--") + 1:]
line = (subprocess.list2cmdline if os.environ["QUOTING"] == "old" else shlex.join)(entrypoint)
sys.exit(subprocess.run(line, shell=True, env={{**os.environ, **variables}}).returncode)
"""
FAKE_PYTHON = f"""#!{sys.executable}
import json, os, sys
if sys.argv[1] != "-m":
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
print("ARRIVED", json.dumps(sys.argv[2:]), flush=True)
sys.exit(int(os.environ["FAILING"] == sys.argv[2]))
"""


@pytest.fixture
def submitted(tmp_path):
    """Run the submit script with the stand-ins: exit code, and module and arguments of each command on the cluster."""
    for name, text in (("ray", FAKE_RAY), ("python3", FAKE_PYTHON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def submit(failing="", quoting="new", **variables):
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = run(SUBMIT, *ARGUMENTS, PATH=path, FAILING=failing, QUOTING=quoting, **variables)
        lines = [line for line in done.stdout.splitlines() if line.startswith("ARRIVED")]
        return done.returncode, [json.loads(line.removeprefix("ARRIVED ")) for line in lines]

    return submit


JOINING = ["++ray_kwargs.ray_init.address='auto'", "ray_kwargs.ray_init.num_cpus=null"]
JOINING += ["++ray_kwargs.ray_init.num_gpus=null"]
# Hydra takes overrides in one block: ours follow the caller's last, before the flags behind it.
GIVEN = [*ARGUMENTS[:-2], *JOINING, *ARGUMENTS[-2:]]
DOCTOR, TRAINING = ["subgroup_offset.cli", "doctor", *GIVEN], ["verl.trainer.main_ppo", *GIVEN]


@pytest.mark.parametrize("quoting", ["old", "new"])
def test_submitted_arguments_arrive_unchanged(submitted, quoting):
    assert submitted(quoting=quoting) == (0, [DOCTOR, TRAINING])


def test_errors_of_the_doctor_stop_the_training_unless_told_otherwise(submitted):
    assert submitted(failing="subgroup_offset.cli") == (1, [DOCTOR])
    assert submitted(failing="subgroup_offset.cli", DOCTOR="warn") == (0, [DOCTOR, TRAINING])
    assert submitted(failing="verl.trainer.main_ppo") == (1, [DOCTOR, TRAINING])


def test_more_settings_of_a_submission(submitted):
    variables = {"RUNTIME_ENV_JSON": '{"env_vars": {"FAILING": "verl.trainer.main_ppo"}}', "DOCTOR_ARGS": "--path /x"}
    expected = [[*DOCTOR[:2], "--path", "/x", *DOCTOR[2:]], TRAINING]
    assert submitted(**variables) == (1, expected)
    assert submitted(RUNTIME_ENV_JSON="{broken")[0] == 1


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.fixture
def ray_directory():
    """Short enough for the names of Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        yield directory


def ray_processes(directory):
    """Raylets and head servers whose files are in the directory."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or [""]
        if Path(command[0]).name in ("raylet", "gcs_server") and directory in " ".join(command):
            found.add(process)
    return found


@pytest.mark.slow
def test_two_nodes_start_are_examined_train_and_end(printed_run, untrained_world, tmp_path, ray_directory):
    port = free_port()
    shared = {"NNODES": "2", "MASTER_ADDR": socket.gethostbyname(socket.gethostname()), "RAY_PORT": str(port)}
    shared["COLUMNS"] = "150"
    saving = [f"trainer.default_local_dir={untrained_world}/checkpoints", "trainer.save_freq=1"]
    arguments = [*printed_run[:2], *saving, *printed_run[2:]]
    before = sorted(untrained_world.iterdir())
    processes = []
    for rank, more in enumerate(("--include-dashboard false", "")):
        start = f"{RAY} --temp-dir {ray_directory}/{rank} {more}"
        variables = environment(NODE_RANK=str(rank), RAY_START_ARGS=start, JOIN_SECONDS="120", **shared)
        output = (tmp_path / f"rank{rank}.txt").open("w")
        processes.append(
            subprocess.Popen([str(START), *arguments], env=variables, stdout=output, stderr=subprocess.STDOUT)
        )
    started = set()
    try:
        while any(process.poll() is None for process in processes):
            started |= ray_processes(ray_directory)
            time.sleep(1)
    finally:
        for process in processes:
            process.terminate()
    head, other = ((tmp_path / f"rank{rank}.txt").read_text() for rank in range(2))
    assert [process.returncode for process in processes] == [0, 0], head[-3000:] + other[-3000:]
    assert "0 error(s), 0 warning(s) on 2 node(s)" in head
    rows = {line.split("│")[1].strip(): line for line in head.splitlines() if line.startswith("│")}
    assert {row.count(" ok ") for row in rows.values()} == {2}
    assert rows["data"].count("2 file(s)") == 2 and rows["paths"].count("1 of 1") == 2
    # The tokens are gone, and the directory that the run makes was not made for it.
    assert sorted(untrained_world.iterdir()) == before
    assert "project_name: two words" in head and "nnodes: 2" in head and f":{port}" in head
    assert "has ended" in other
    assert len(started) == 3  # two raylets and what the head adds
    _, left = psutil.wait_procs(started, timeout=30)
    assert not left

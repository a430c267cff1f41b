"""The scripts that the doctor sends to the nodes: what they find, and that they need nothing installed."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from subgroup_offset.doctor import facts
from subgroup_offset.doctor.examine import host_request
from subgroup_offset.doctor.node import MARKER, assets, host, imports, runner, source, storage

REQUESTS = {
    "host": json.loads(host_request()),
    "imports": {"vllm": True, "models": []},
    "assets": {"models": [{"path": "/no/model"}], "data": ["/no/data.parquet"], "files": []},
    "storage": {"action": "write", "paths": [{"path": "/no/where", "may_be_made": False}], "token": "t"},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_scripts_run_by_a_bare_interpreter(name):
    """-I -S: no site-packages, no PYTHONPATH; as on a node where nothing is installed."""
    command = [sys.executable, "-I", "-S", "-c", source(name)]
    done = subprocess.run(command, input=json.dumps(REQUESTS[name]), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answer, failure = facts.read_answer({"exit": 0, "stdout": done.stdout, "stderr": ""})
    assert answer and failure is None and MARKER in done.stdout
    if name == "host":
        found = facts.HostFacts.read(answer)
        assert not found.importable and found.plugins == () and set(found.packages.values()) == {None}
    if name == "imports":
        stages = facts.read_stages(answer, None)
        assert "ModuleNotFoundError: No module named 'verl'" in stages["verl"].error
        assert set(stages) == {"torch", "verl", "plugin", "vllm"}


def run(directory, monkeypatch, torch_module, seconds):
    """The imports script beside a torch of our own."""
    (directory / "torch.py").write_text(torch_module)
    monkeypatch.setenv("PYTHONPATH", str(directory))
    job = ("imports", source("imports"), json.dumps(REQUESTS["imports"]))
    answer, failure = facts.read_answer(runner.run_scripts([job], seconds)["outputs"]["imports"])
    return facts.read_stages(answer, failure)


def test_an_import_that_ends_the_interpreter_is_named(tmp_path, monkeypatch):
    crash = "import os, sys\nprint('illegal instruction', file=sys.stderr, flush=True)\nos._exit(4)\n"
    stages = run(tmp_path, monkeypatch, crash, 60)
    assert stages == {"torch": facts.Stage(error="ended with exit code 4 (illegal instruction)")}


def test_an_import_that_hangs_is_named_and_ended(tmp_path, monkeypatch):
    stages = run(tmp_path, monkeypatch, "import time\ntime.sleep(600)\n", 2)
    assert stages == {"torch": facts.Stage(error="did not finish in time")}


def test_accelerators_that_ray_hid_from_the_task_are_seen_again(monkeypatch):
    show = "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))"
    for value, seen in (("", "None"), ("0,1", "'0,1'")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert runner.run_scripts([("x", show, "")], 60)["outputs"]["x"]["stdout"].strip() == seen


def test_nvidia_smis_table():
    text = "NVIDIA H200, 143771\nNVIDIA A100-SXM4-80GB, 81920\nNVIDIA GB10, [N/A]\n\n"
    found = [(gpu["name"], gpu["memory"]) for gpu in host.parse_gpus(text)]
    assert found == [
        ("NVIDIA H200", 143771 * 2**20),
        ("NVIDIA A100-SXM4-80GB", 81920 * 2**20),
        ("NVIDIA GB10", None),
    ]


@pytest.mark.parametrize(
    ("script", "found", "reason"),
    [
        ("echo 'NVIDIA H200, 143771'", ["NVIDIA H200"], None),
        ("echo 'Driver/library version mismatch'; exit 18", [], "nvidia-smi failed (Driver/library version mismatch)"),
        (None, [], "nvidia-smi is not installed"),
    ],
)
def test_devices_are_listed_or_the_reason_is_given(tmp_path, monkeypatch, script, found, reason):
    if script:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    devices, error = host.gpus()
    assert [device["name"] for device in devices] == found and error == reason


def test_hooks_are_found_under_any_number_of_wrappers():
    import functools

    import wrapt

    def plain():
        pass

    def ours(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs)

    wrapped = functools.wraps(plain)(lambda: plain())
    assert imports.layers(plain) == imports.layers(wrapped) == {__name__}
    assert __name__ in imports.layers(wrapt.FunctionWrapper(json.dumps, ours))
    assert __name__ not in imports.layers(json.dumps)


def write_model(root, shards=2):
    """A model directory with random weights of 6 values a shard."""
    root.mkdir()
    (root / "config.json").write_text("{}")
    names = [f"model-{i}.safetensors" for i in range(shards)]
    for name in names:
        save_file({f"w.{name}": torch.rand(2, 3)}, root / name)
    index = {"weight_map": {f"w.{name}": name for name in names}}
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    return root


def look(path):
    return facts.ModelFacts(**assets.model({"path": str(path)}))


def test_a_whole_model(tmp_path):
    found = look(write_model(tmp_path / "m"))
    assert found.found and found.kind == "directory" and found.parameters == 12
    assert not found.problems and not found.missing and found.bytes > 48


def test_what_can_be_wrong_with_a_model(tmp_path):
    root = write_model(tmp_path / "m")
    (root / "model-1.safetensors").unlink()
    assert look(root).missing == ["model-1.safetensors"]
    (root / "model-1.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "is no safetensors file" in look(root).problems[0]
    (root / "model.safetensors.index.json").write_text("[]")
    assert "index.json cannot be read" in look(root).problems[0]
    (root / "model.safetensors.index.json").unlink()
    (root / "config.json").write_text("{")
    assert [problem.split(" (")[0] for problem in look(root).problems] == [
        "config.json cannot be read",
        "has no weights: neither model.safetensors nor an index of shards",
    ]
    assert not look(tmp_path / "elsewhere").found


@given(st.data())
def test_weights_cut_anywhere_are_noticed(tmp_path_factory, data):
    root = write_model(tmp_path_factory.mktemp("cut") / "m", shards=1)
    path = root / "model-0.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert len(look(root).problems) == 1


def test_models_of_the_hub_are_looked_up_in_the_cache_only(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = look("some-owner/some-model-that-is-nowhere")
    assert (found.kind, found.found, found.offline) == ("hub", False, True)
    assert look("~/models/x").kind == "directory"
    assert look("hdfs://host/model").kind == "remote"


ROWS = [
    {"prompt": [{"content": "1+1?" * 999, "role": "user"}], "data_source": "x", "reward_model": {"ground_truth": "2"}}
]


def test_data_files_of_every_kind_verl_reads(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(ROWS * 2).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    (tmp_path / "d.json").write_text(json.dumps(ROWS, indent=1))
    for name, rows in (("a.parquet", 1), ("*.parquet", 3), ("c.jsonl", None), ("d.json", None)):
        found = facts.DataFacts(**assets.data(str(tmp_path / name)))
        assert found.error is None and found.rows == rows and set(found.columns) == set(ROWS[0]), name
        assert "role" in found.columns["prompt"] and "ground_truth" in found.columns["reward_model"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no.parquet", "FileNotFoundError"),
        ("no-*.parquet", "no file fits"),
        ("text.parquet", "ArrowInvalid"),
        ("text.jsonl", "JSONDecodeError"),
        ("text.csv", "verl reads .parquet, .json and .jsonl"),
    ],
)
def test_data_files_that_cannot_be_read(tmp_path, name, error):
    if name.startswith("text"):
        (tmp_path / name).write_text("a,b\n")
    assert error in assets.data(str(tmp_path / name))["error"]


def test_equal_files_have_equal_fingerprints(tmp_path):
    for name, rows in (("a", ROWS), ("b", ROWS), ("c", ROWS * 2)):
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    a, b, c = (assets.data(str(tmp_path / f"{name}.parquet"))["fingerprint"] for name in "abc")
    assert a == b != c


def test_tokens_are_written_read_and_removed(tmp_path):
    written = facts.PathFacts(**storage.write(str(tmp_path), False, "n1"))
    assert written.error is None and written.directory == str(tmp_path) and written.free > 0
    files = {written.token: "n1", str(tmp_path / "none"): "n2"}
    assert storage.main({"action": "read", "files": files}) == {written.token: True, str(tmp_path / "none"): False}
    assert storage.read(written.token, "of an earlier run") is False
    storage.main({"action": "remove", "files": [*files]})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_the_run_makes_is_tried_above_it(tmp_path):
    wanted = str(tmp_path / "run" / "checkpoints")
    assert storage.write(wanted, False, "t")["error"] == "does not exist"
    written = storage.write(wanted, True, "t")
    assert written["error"] is None and written["directory"] == str(tmp_path) and not (tmp_path / "run").exists()


def test_directories_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    assert storage.write(str(tmp_path / "file"), True, "t")["error"] == "is not a directory"
    assert "cannot be written" in storage.write("/proc", False, "t")["error"]

"""The script that the doctor sends to the nodes: what it finds, and that it needs nothing installed."""

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import wrapt

from subgroup_offset.cluster import node_script as script
from subgroup_offset.cluster.ray_nodes import read_answer, script_runner, script_source

EVERYTHING = {
    "steps": [step.__name__ for step in script.EXAMINATION],
    "token": "t",
    "directories": [{"path": "/no/where", "may_be_made": False}],
    "models": [{"path": "/no/model", "config": "/no/model", "tokenizer": "/no/model", "trust_remote_code": False}],
    "data": ["/no/data.parquet"],
    "files": ["/no/reward.py"],
}


def test_a_bare_interpreter_runs_it_and_says_what_is_missing():
    """-I -S: no site-packages, no PYTHONPATH; as on a node where nothing is installed."""
    command = [sys.executable, "-I", "-S", "-c", script_source()]
    done = subprocess.run(command, input=json.dumps(EVERYTHING), capture_output=True, text=True, timeout=60)
    answer = read_answer({"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    assert answer["failure"] is None, done.stderr
    facts = answer["facts"]
    assert list(facts) == EVERYTHING["steps"]
    host = facts["host"]["value"]
    assert host["packages"] == {} and host["plugins"] == [] and host["code"] == {"subgroup_offset": None, "verl": None}
    assert facts["storage"]["value"]["/no/where"]["error"] == "does not exist"
    assert facts["verl"]["error"] == "ModuleNotFoundError: No module named 'verl'"
    assert facts["models"]["value"]["/no/model"]["kind"] == "missing"
    assert facts["data"]["value"]["files"] == {"/no/reward.py": False}


@pytest.mark.parametrize(
    ("module", "seconds", "failure"),
    [
        (
            "import os, sys\nprint('illegal instruction', file=sys.stderr, flush=True)\nos._exit(4)",
            60,
            "exit code 4 (ill",
        ),
        ("import time\ntime.sleep(600)", 3, "did not finish in time"),
        (
            "import subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])\ntime.sleep(600)",
            3,
            "did not finish in time",
        ),
    ],
)
def test_an_import_that_ends_the_interpreter_or_hangs_is_named(tmp_path, monkeypatch, module, seconds, failure):
    (tmp_path / "torch.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output = script_runner()(script_source(), json.dumps({"steps": ["torch", "verl"]}), seconds)
    answer = read_answer(output)
    assert list(answer["facts"]) == ["torch"] and failure in answer["failure"]
    assert answer["facts"]["torch"]["error"] == answer["failure"]


def test_accelerators_that_ray_hid_from_the_task_are_seen_again(monkeypatch):
    show = "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))"
    for value, seen in (("", "None"), ("0,1", "'0,1'")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert script_runner()(show, "", 60)["stdout"].strip() == seen


def test_what_the_plugin_logged_is_found_among_other_output():
    text = "noise\nWARNING:subgroup_offset: registration failed (RuntimeError: why)\n"
    assert "failed (RuntimeError: why)" in read_answer({"exit": 0, "stdout": "", "stderr": text})["plugin_log"]


def test_errors_of_many_lines_become_one():
    assert script.one_line(ValueError("a\n  b\n")) == "ValueError: a b"
    assert len(script.one_line(ValueError(json.dumps(["x"] * 999)))) <= 500


def test_hooks_are_found_under_any_number_of_wrappers():
    def plain():
        pass

    def hook(wrapped, instance, args, kwargs):
        return wrapped(*args, **kwargs)

    wrapped = functools.wraps(plain)(lambda: plain())
    assert script.layers(plain) == script.layers(wrapped) == {__name__}
    assert __name__ in script.layers(wrapt.FunctionWrapper(json.dumps, hook))
    assert __name__ not in script.layers(json.dumps)


def look(path):
    path = str(path)
    return script.look_at_model(path, tokenizer=path, config=path, trust_remote_code=False)


@pytest.fixture
def model(untrained_world, tmp_path):
    return Path(shutil.copytree(untrained_world / "model", tmp_path / "model"))


def test_a_whole_model_and_its_copy(untrained_world, model):
    found = look(model)
    assert (found["kind"], found["error"]) == ("directory", None)
    assert found["parameters"] == 564_576 and found["bytes"] >= 4 * found["parameters"]
    assert found == look(untrained_world / "model")
    (model / "generation_config.json").unlink()
    assert look(model)["error"] is None and look(model)["fingerprint"] != found["fingerprint"]


@pytest.mark.parametrize("size", [0, 5, 1000, -1])
def test_weights_cut_anywhere_are_noticed(model, size):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert "Error" in look(model)["error"]


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("model.safetensors", None, "model.safetensors"),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "header"),
        ("model.safetensors.index.json", '{"metadata": {}, "weight_map": {"x": "model-2.safetensors"}}', "model-2"),
        ("config.json", "{", "JSON"),
        ("tokenizer.json", "{", "Error"),
    ],
)
def test_what_can_be_wrong_with_a_model(model, file, text, error):
    if "index" in file:
        (model / "model.safetensors").unlink()
    (model / file).write_text(text) if text else (model / file).unlink()
    assert error in look(model)["error"]


def test_models_of_the_hub_are_looked_up_in_the_cache_only(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = look("some-owner/some-model-that-is-nowhere")
    assert (found["kind"], found["offline"]) == ("hub", True) and found["error"]
    assert [look(path)["kind"] for path in ("~/models/x", "/no/model", "hdfs://host/model")] == 2 * ["missing"] + [
        "remote"
    ]


ROWS = [
    {"prompt": [{"content": "1+1?" * 999, "role": "user"}], "data_source": "x", "reward_model": {"ground_truth": "2"}}
]
SHAPE = {"prompt": [{"content": "str", "role": "str"}], "data_source": "str", "reward_model": {"ground_truth": "str"}}


def test_data_files_of_every_kind_verl_reads(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(ROWS * 2).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame(ROWS).to_parquet(tmp_path / "c[1].parquet")
    (tmp_path / "c.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    (tmp_path / "d.json").write_text(json.dumps(ROWS, indent=1))
    found = {
        name: script.look_at_data(str(tmp_path / name)) for name in ("a.parquet", "*.parquet", "c.jsonl", "d.json")
    }
    for name, facts in found.items():
        assert facts["error"] is None and facts["columns"] == SHAPE, name
    assert len({facts["fingerprint"] for facts in found.values()}) == 4
    (tmp_path / "copy.parquet").write_bytes((tmp_path / "a.parquet").read_bytes())
    copy = script.look_at_data(str(tmp_path / "copy.parquet"))
    assert copy["fingerprint"] == found["a.parquet"]["fingerprint"]
    assert script.look_at_data("hdfs://host/a.parquet") == {"error": None, "columns": None, "fingerprint": None}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no.parquet", "FileNotFoundError"),
        ("no-*.parquet", "valid data file"),
        ("text.parquet", "ArrowInvalid"),
        ("text.jsonl", "JSON"),
        ("text.csv", "verl reads .parquet, .json and .jsonl"),
        ("empty.parquet", "it has no rows"),
    ],
)
def test_data_files_that_cannot_be_read(tmp_path, name, error):
    if name.startswith("text"):
        (tmp_path / name).write_text("a,b\n")
    pd.DataFrame(ROWS[:0], columns=["prompt"]).to_parquet(tmp_path / "empty.parquet")
    assert error in script.look_at_data(str(tmp_path / name))["error"]


def test_tokens_are_written_read_and_removed(tmp_path):
    written = script.write(str(tmp_path), False, "n1")
    assert written["error"] is None and written["directory"] == str(tmp_path) and written["free"] > 0
    files = {written["token"]: "n1", str(tmp_path / "none"): "n2"}
    assert script.read({"files": files}) == {written["token"]: True, str(tmp_path / "none"): False}
    assert script.read({"files": {written["token"]: "of an earlier run"}}) == {written["token"]: False}
    script.remove({"files": [*files]})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_the_run_makes_is_tried_above_it_and_others_must_be_there(tmp_path):
    wanted = str(tmp_path / "run" / "checkpoints")
    assert script.write(wanted, False, "t")["error"] == "does not exist"
    written = script.write(wanted, True, "t")
    assert written["error"] is None and written["directory"] == str(tmp_path) and not (tmp_path / "run").exists()
    (tmp_path / "file").touch()
    assert script.write(str(tmp_path / "file"), True, "t")["error"] == "is not a directory"
    assert "cannot be written" in script.write("/proc", False, "t")["error"]

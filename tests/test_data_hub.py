"""`subgroup-offset data` from the hub: the real client against a local server that answers as the hub does."""

import json
import os
import subprocess
import sys
import threading

import pandas as pd
import pytest
from hub_server import TOKEN, Hub

from subgroup_offset.data.errors import DataError
from subgroup_offset.data.prepare import prepare

DRIVER = """
import json, sys, traceback
import typer
from typer.testing import CliRunner
from subgroup_offset.data.command import data

app = typer.Typer(pretty_exceptions_enable=False)
app.command("data")(data)
results = {}
for name, arguments in json.loads(sys.argv[1]).items():
    result = CliRunner().invoke(app, arguments)
    failed = result.exception and not isinstance(result.exception, SystemExit)
    trace = "".join(traceback.format_exception(result.exception)) if failed else None
    results[name] = [result.exit_code, result.stdout, result.stderr, trace]
print("RESULTS" + json.dumps(results))
"""


def run(directory, endpoint, calls):
    """Each call's exit code, standard output and error, and traceback if it was no clean end."""
    removed = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    env = {key: value for key, value in os.environ.items() if key not in removed}
    env |= {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(directory / "hf"),
        "NO_PROXY": "127.0.0.1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    calls = {name: [*arguments, "--output", str(directory / name)] for name, arguments in calls.items()}
    command = [sys.executable, "-c", DRIVER, json.dumps(calls)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("RESULTS")[2])


CALLS = {
    # First what fails: without a token, what is in the cache already would be used.
    "no_token": ["aime24", "--source", "someone/private"],
    "bad_token": ["aime24", "--source", "someone/other", "--token", "hf_unknown"],
    "missing": ["aime24", "--source", "someone/nothing"],
    "gated": ["aime24", "--source", "someone/gated"],
    "no_revision": ["dapo", "--source", "math-ai/aime24@v9"],
    "no_split": ["aime24", "--split", "dev"],
    "no_config": ["gsm8k", "--config", "none"],
    "many_configs": ["aime24", "--source", "openai/gsm8k"],
    "no_data": ["aime24", "--source", "someone/images"],
    "no_name": ["aime24", "--source", "some..one/--x"],
    # What is read.
    "dapo": ["dapo"],
    "aime24": ["aime24"],
    "aime25": ["aime25"],
    "aime26": ["aime26", "--replicas", "2"],
    "hmmt25": ["hmmt25"],
    "gsm8k": ["gsm8k"],
    "gsm8k_test": ["gsm8k", "--split", "test", "--instruction", "gsm8k"],
    "gsm8k_socratic": ["gsm8k", "--config", "socratic"],
    "gsm8k_v1": ["gsm8k", "--source", "openai/gsm8k@v1"],
    "other": ["aime24", "--source", "MathArena/aime_2026"],
    "private": ["aime24", "--source", "someone/private", "--token", TOKEN],
}


@pytest.fixture(scope="module")
def hub():
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def results(hub, home):
    return run(home, hub.url, CALLS)


def rows_of(home, name):
    (path,) = (home / name).glob("*.parquet")
    return pd.read_parquet(path).to_dict("records")


def answers(rows):
    return [row["reward_model"]["ground_truth"] for row in rows]


EXPECTED = {
    "dapo": ["0", "1", "2", "3"],
    "aime24": ["204", "33"],
    "aime25": ["336", "70"],
    "aime26": ["277", "62", "277", "62"],
    "hmmt25": [r"\frac{1}{576}"],
    "gsm8k": ["1080", "2", "3"],
    "gsm8k_test": ["5"],
    "gsm8k_socratic": ["7"],
    "gsm8k_v1": ["1"],
    "other": ["277", "62"],
    "private": ["1"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_repositories_as_they_are_published(results, home, name):
    code, output, _, trace = results[name]
    assert code == 0, trace
    assert answers(rows_of(home, name)) == EXPECTED[name]
    assert f"{len(EXPECTED[name])} rows  {home / name}" in output.splitlines()[-1]


def test_the_report_names_the_commit(results):
    assert f"openai/gsm8k@{Hub.sha('openai/gsm8k', 1)}, split train" in results["gsm8k"][1]
    assert f"openai/gsm8k@{Hub.sha('openai/gsm8k', 0)}" in results["gsm8k_v1"][1]


def test_only_data_and_cards_are_downloaded(results, hub):
    assert ("GET", f"datasets/math-ai/aime24/resolve/{Hub.sha('math-ai/aime24', 0)}/README.md") in hub.requests
    assert not [path for _, path in hub.requests if path.endswith(("eval.py", ".png"))]


FAILURES = {
    "no_token": "someone/private is no data set on http://127.0.0.1",
    "bad_token": "refused the token (status 401): correct --token",
    "missing": "someone/nothing is no data set on http://127.0.0.1",
    "gated": "someone/gated is gated: accept its terms on http://127.0.0.1",
    "no_revision": "math-ai/aime24 has no revision 'v9': check --source owner/name@revision",
    "no_split": "has no split 'dev': use one of test.",
    "no_config": "has no config 'none': use one of main, socratic.",
    "many_configs": "has several configs: choose one with --config, of main, socratic.",
    "no_data": "holds no file of a kind that can be read (.parquet, .jsonl, .json, .csv)",
    "no_name": "some..one/--x is no name of a repository",
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_one_clear_line(results, home, name):
    code, output, error, trace = results[name]
    assert (code, output, trace) == (1, "", None)
    assert FAILURES[name] in error and len(error.splitlines()) == 1
    assert not (home / name).exists()


def test_without_the_hub_the_cache_serves_and_what_is_not_there_is_named(results, home, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hf" / "hub"))
    report = prepare("gsm8k", output=tmp_path)
    assert results["gsm8k"][1].splitlines()[-1].startswith(f"sha256 {report.sha256} ")
    with pytest.raises(DataError, match="HF_HUB_OFFLINE is set and it is not in the cache") as caught:
        prepare("aime24", source="someone/else", output=tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_hub_that_does_not_answer(home):
    code, _, error, trace = run(home, "http://127.0.0.1:9", {"silent": ["aime24", "--source", "a/b"]})["silent"]
    assert (code, trace) == (1, None) and len(error.splitlines()) == 1
    assert "a/b cannot be downloaded, http://127.0.0.1:9 does not answer (" in error

"""`subgroup-offset data` from the hub: the real client against a local server that answers as the hub does."""

import threading

import huggingface_hub
import pandas as pd
import pytest
from hub_server import TOKEN, Hub, sha

from subgroup_offset.data.errors import DataError
from subgroup_offset.data.prepare import prepare


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def hub(patched, tmp_path_factory):
    """The server, in the hub's place, with an empty cache: what HF_ENDPOINT and HF_HOME set as the client starts."""
    server, home = Hub(), tmp_path_factory.mktemp("home")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        patched.delenv(name, raising=False)
    patched.setenv("NO_PROXY", "127.0.0.1")
    set_endpoint(patched, server.url)
    patched.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(home / "token"))
    patched.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hub"))
    patched.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    huggingface_hub.close_session()  # which may have been made with other proxies
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def set_endpoint(patch, url):
    patch.setattr("huggingface_hub.constants.ENDPOINT", url)
    patch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )


# What is asked for: with which options, and the answers that come.
READ = {
    "dapo": ({}, ["0", "1", "2", "3"]),
    "aime24": ({}, ["204", "33"]),
    "aime25": ({}, ["336", "70"]),
    "aime26": ({"replicas": 2}, ["277", "62", "277", "62"]),
    "hmmt25": ({}, [r"\frac{1}{576}"]),
    "gsm8k": ({}, ["1080", "2", "3"]),
    "gsm8k test": ({"split": "test", "instruction": "gsm8k"}, ["5"]),
    "gsm8k socratic": ({"config": "socratic"}, ["7"]),
    "gsm8k v1": ({"source": "openai/gsm8k@v1"}, ["1"]),
    "aime24 another": ({"source": "MathArena/aime_2026"}, ["277", "62"]),
    "aime24 private": ({"source": "someone/private", "token": TOKEN}, ["1"]),
}


@pytest.mark.parametrize("case", READ)
def test_repositories_as_they_are_published(hub, tmp_path, case):
    options, answers = READ[case]
    name = case.split()[0]
    report = prepare(name, output=tmp_path, **options)
    assert [row["ground_truth"] for row in pd.read_parquet(report.path)["reward_model"]] == answers
    if name == "gsm8k":
        commit = sha("openai/gsm8k", 0 if "v1" in case else 1)
        assert f"openai/gsm8k@{commit}, split {options.get('split', 'train')}" in report.lines[0]
    assert not [file for file in hub.files_sent if file.endswith((".py", ".png"))]


HUB = "http://127.0.0.1"
FAILURES = [
    ({"source": "someone/private@v1"}, f"someone/private is no data set on {HUB}"),
    ({"source": "someone/other", "token": "hf_unknown"}, "401 Unauthorized"),
    ({"source": "someone/nothing"}, f"someone/nothing is no data set on {HUB}"),
    ({"source": "someone/gated"}, f"someone/gated is gated: accept its terms on {HUB}"),
    ({"source": "math-ai/aime24@v9"}, "math-ai/aime24 has no revision 'v9': check --source owner/name@revision"),
    ({"source": "someone/images"}, "holds no file that can be read (.parquet, .jsonl, .json, .csv)"),
    ({"source": "some..one/--x"}, "some..one/--x cannot be downloaded"),
    ({"split": "dev"}, "has no split 'dev': use one of test."),
    ({"source": "openai/gsm8k", "config": "none"}, "has no config 'none': use one of main, socratic."),
    ({"source": "openai/gsm8k"}, "has several configs: choose one with --config, of main, socratic."),
]


def failure(output, **options):
    with pytest.raises(DataError) as caught:
        prepare("aime24", output=output, **options)
    message = str(caught.value)
    assert not list(output.iterdir()) and len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize(("options", "message"), FAILURES)
def test_failures_are_one_clear_line(hub, tmp_path, options, message):
    assert message in failure(tmp_path, **options)


def test_without_the_hub_the_cache_serves_and_what_is_not_there_is_named(hub, tmp_path, monkeypatch):
    online = prepare("gsm8k", output=tmp_path)
    online.path.unlink()
    set_endpoint(monkeypatch, f"{HUB}:9")
    assert f"a/b cannot be downloaded from {HUB}:9 (" in failure(tmp_path, source="a/b")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in failure(tmp_path, source="someone/else")
    assert prepare("gsm8k", output=tmp_path) == online

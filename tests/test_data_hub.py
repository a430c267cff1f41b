"""`subgroup-offset data` from the hub: the real client against a local server that answers as the hub does."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest

from subgroup_offset.data.errors import DataError
from subgroup_offset.data.prepare import prepare

TOKEN = "hf_known"

GSM8K_CARD = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
  - {split: test, path: main/test-*}
- config_name: socratic
  data_files:
  - {split: train, path: socratic/train-*}
---
"""


def parquet(**columns):
    return pd.DataFrame(columns).to_parquet(index=False)


def gsm8k(numbers, words):
    return parquet(question=[f"{words} {n}?" for n in numbers], answer=[f"So.\n#### {n:,}" for n in numbers])


def repositories():
    """Name -> revisions, newest last -> files: layouts as the published repositories have them."""
    dapo = [
        {
            "data_source": "math_dapo",
            "prompt": [{"content": f"Problem {i % 4}", "role": "user"}],
            "ability": "MATH",
            "reward_model": {"ground_truth": str(i % 4), "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": f"uuid-{i % 4}"},
        }
        for i in range(12)
    ]
    aime24 = {"id": [60, 61], "problem": ["A?", "B?"], "solution": [r"\boxed{204}", r"\boxed{033}"], "url": ["u", "v"]}
    aime25 = [{"problem": "Arc?", "answer": r"336^\circ", "id": "0"}, {"problem": "Sum?", "answer": "70", "id": "1"}]
    return {
        "BytedTsinghua-SIA/DAPO-Math-17k": [
            {
                "README.md": b"---\nlicense: apache-2.0\n---\n",
                "data/dapo-math-17k.parquet": pd.DataFrame(dapo).to_parquet(),
            }
        ],
        "math-ai/aime24": [
            {
                "README.md": b"---\nlicense: mit\n---\n",
                "test-00000-of-00001.parquet": parquet(**aime24),
                "eval.py": b"raise",
            }
        ],
        "math-ai/aime25": [{"test.jsonl": "".join(json.dumps(row) + "\n" for row in aime25).encode()}],
        "MathArena/aime_2026": [
            {"data/train-00000-of-00001.parquet": parquet(problem_idx=[1, 2], answer=[277, 62], problem=["C?", "D?"])}
        ],
        "MathArena/hmmt_feb_2025": [
            {"data/train-00000-of-00001.parquet": parquet(problem_idx=[1], answer=[r"\frac{1}{576}"], problem=["E?"])}
        ],
        "openai/gsm8k": [
            {"README.md": b"---\nlicense: mit\n---\n", "train.csv": b"question,answer\nOld?,#### 1\n"},
            {
                "README.md": GSM8K_CARD.encode(),
                "main/train-00000-of-00002.parquet": gsm8k([1080, 2], "Main"),
                "main/train-00001-of-00002.parquet": gsm8k([3], "Main"),
                "main/test-00000-of-00001.parquet": gsm8k([5], "Test"),
                "socratic/train-00000-of-00001.parquet": gsm8k([7], "Socratic"),
            },
        ],
        "someone/private": [{"test.jsonl": b'{"problem": "Hidden?", "answer": 1}\n'}],
        "someone/images": [{"cat.png": b"no data"}],
        "someone/gated": [{"test.jsonl": b""}],
    }


class Hub(ThreadingHTTPServer):
    """What `huggingface_hub` asks for: revisions, trees, and files with their ETags, large ones by redirection."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories = repositories()
        self.requests = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @staticmethod
    def sha(name, number):
        return hashlib.sha1(f"{name} {number}".encode()).hexdigest()

    def revision(self, name, wanted):
        """The files and the commit of a revision, or None."""
        revisions = self.repositories[name]
        names = {self.sha(name, i): i for i in range(len(revisions))} | {"main": len(revisions) - 1, "v1": 0}
        number = names.get(wanted)
        return None if number is None else (self.sha(name, number), revisions[number])


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def answer(self):
        path = unquote(urlsplit(self.path).path).strip("/")
        self.server.requests.append((self.command, path))
        api = path.startswith("api/datasets/")
        parts = path.removeprefix("api/").removeprefix("cdn/").removeprefix("datasets/").split("/")
        name, (action, wanted), rest = "/".join(parts[:2]), parts[2:4], "/".join(parts[4:])
        given = self.headers.get("Authorization")
        if given not in (None, f"Bearer {TOKEN}"):
            message = "Invalid credentials in Authorization header"
            return self.reply(401, X_Error_Message=message)
        if name not in self.server.repositories or (name == "someone/private" and not given):
            return self.reply(401 if not given else 404, X_Error_Code="RepoNotFound")
        if name == "someone/gated" and action == "resolve":
            return self.reply(403, X_Error_Code="GatedRepo")
        found = self.server.revision(name, wanted)
        if found is None:
            return self.reply(404, X_Error_Code="RevisionNotFound")
        sha, files = found
        if api:
            return self.json(self.tree(files) if action == "tree" else {"id": name, "sha": sha, "siblings": []})
        if rest not in files:
            return self.reply(404, X_Error_Code="EntryNotFound")
        data = files[rest]
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        common = {"X_Repo_Commit": sha, "ETag": etag}
        if rest.endswith(".parquet") and not path.startswith("cdn/"):  # kept by git LFS: redirected
            linked = {
                "X_Linked_Etag": etag,
                "X_Linked_Size": str(len(data)),
                "Location": f"{self.server.url}/cdn/{path}",
            }
            return self.reply(302, **common, **linked)
        return self.reply(200, data, **common)

    def json(self, value):
        self.reply(200, json.dumps(value).encode(), Content_Type="application/json")

    @staticmethod
    def tree(files):
        def entry(path, data):
            digest = hashlib.sha256(data).hexdigest()
            lfs = {"lfs": {"oid": digest, "size": len(data), "pointerSize": 134}} if path.endswith(".parquet") else {}
            return {"type": "file", "path": path, "size": len(data), "oid": digest[:40], **lfs}

        folders = {path.partition("/")[0] for path in files if "/" in path}
        directories = [{"type": "directory", "path": folder, "size": 0, "oid": "0" * 40} for folder in sorted(folders)]
        return [*directories, *(entry(path, data) for path, data in files.items())]


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

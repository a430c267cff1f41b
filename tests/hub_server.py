"""A local server that answers as the hub does, and the repositories that it holds."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pandas as pd

TOKEN = "hf_known"
CARD = b"""---
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


def gsm8k(*numbers):
    return parquet(question=[f"What is {n}?" for n in numbers], answer=[f"So.\n#### {n:,}" for n in numbers])


def dapo(i):
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": f"Problem {i % 4}", "role": "user"}],
        "reward_model": {"ground_truth": str(i % 4), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": f"uuid-{i % 4}"},
    }


#: Name -> revisions, newest last -> files: layouts as the published repositories have them.
REPOSITORIES = {
    "BytedTsinghua-SIA/DAPO-Math-17k": [
        {"data/dapo-math-17k.parquet": pd.DataFrame([dapo(i) for i in range(12)]).to_parquet()}
    ],
    "math-ai/aime24": [
        {
            "README.md": b"---\nlicense: mit\n---\n",
            "test-00000-of-00001.parquet": parquet(id=[60, 61], problem=["A?", "B?"], solution=[r"\boxed{204}", "033"]),
            "eval.py": b"raise",
        }
    ],
    "math-ai/aime25": [
        {"test.jsonl": b'{"problem": "Arc?", "answer": "336^\\\\circ"}\n{"problem": "Sum?", "answer": "70"}\n'}
    ],
    "MathArena/aime_2026": [
        {"data/train-00000-of-00001.parquet": parquet(problem_idx=[1, 2], answer=[277, 62], problem=["C?", "D?"])}
    ],
    "MathArena/hmmt_feb_2025": [
        {"data/train-00000-of-00001.parquet": parquet(problem_idx=[1], answer=[r"\frac{1}{576}"], problem=["E?"])}
    ],
    "openai/gsm8k": [
        {"train.csv": b"question,answer\nOld?,#### 1\n"},
        {
            "README.md": CARD,
            "main/train-00000-of-00002.parquet": gsm8k(1080, 2),
            "main/train-00001-of-00002.parquet": gsm8k(3),
            "main/test-00000-of-00001.parquet": gsm8k(5),
            "socratic/train-00000-of-00001.parquet": gsm8k(7),
        },
    ],
    "someone/private": [{"test.jsonl": b'{"problem": "Hidden?", "answer": 1}\n'}],
    "someone/images": [{"cat.png": b"no data"}],
    "someone/gated": [{"test.jsonl": b""}],
}


def sha(name, number):
    """The commit of a repository's revision."""
    return hashlib.sha1(f"{name} {number}".encode()).hexdigest()


class Hub(ThreadingHTTPServer):
    """What ``huggingface_hub`` asks for: revisions, trees, and files with their ETags."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files_sent = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    do_GET = do_HEAD

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in {**headers, "Content_Length": str(len(body))}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def answer(self):
        # [api/]datasets/owner/name/(revision|tree|resolve)/revision[/file]
        path = unquote(urlsplit(self.path).path).strip("/").removeprefix("api/").removeprefix("datasets/")
        owner, repository, action, wanted, *file = path.split("/", 4)
        name, given = f"{owner}/{repository}", self.headers.get("Authorization")
        if given not in (None, f"Bearer {TOKEN}"):
            return self.reply(401, X_Error_Message="Invalid credentials in Authorization header")
        if name not in REPOSITORIES or (name == "someone/private" and not given):
            return self.reply(404 if given else 401, X_Error_Code="RepoNotFound")
        if name == "someone/gated" and action == "resolve":
            return self.reply(403, X_Error_Code="GatedRepo")
        revisions = REPOSITORIES[name]
        numbers = {sha(name, i): i for i in range(len(revisions))} | {"main": len(revisions) - 1, "v1": 0}
        if wanted not in numbers:
            return self.reply(404, X_Error_Code="RevisionNotFound")
        commit, files = sha(name, numbers[wanted]), revisions[numbers[wanted]]
        if action == "revision":
            return self.reply(200, json.dumps({"id": name, "sha": commit, "siblings": []}).encode())
        if action == "tree":
            return self.reply(200, json.dumps([entry(path, data) for path, data in files.items()]).encode())
        if self.command == "GET":
            self.server.files_sent.append(f"{name}/{file[0]}")
        data = files[file[0]]
        return self.reply(200, data, X_Repo_Commit=commit, ETag=f'"{hashlib.sha1(data).hexdigest()}"')


def entry(path, data):
    return {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}

"""A local server that answers as the hub does, and the repositories that it holds."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pandas as pd

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

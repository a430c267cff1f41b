"""Whether the model's and the data's files can be read here: complete weights, the columns of the data."""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import struct
import sys
from pathlib import Path
from typing import Any

_TAIL_BYTES = 65536
_SINGLE_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_OFFLINE, _TRUE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), ("1", "true", "yes", "on")
_MAGIC = frozenset("*?[")


def model(request: dict) -> dict[str, Any]:
    """A model directory, or the cached snapshot of one on the hub.

    Returns:
        ``kind`` (directory, hub or remote), ``found``, ``problems`` (texts), ``missing`` (files that the index names),
        ``parameters`` (0: not known), ``bytes`` of the weights, ``fingerprint`` to compare nodes by.
    """
    path = request["path"]  # verl does not replace a leading ~ here
    facts: dict[str, Any] = {"kind": "directory", "found": True, "problems": [], "missing": []}
    facts.update(parameters=0, bytes=0, fingerprint=None, offline=False)
    if "://" in path:
        return {**facts, "kind": "remote"}
    if not os.path.isdir(path):
        if os.path.isabs(path) or path.count("/") > 1 or path[:1] in ("", ".", "~"):
            return {**facts, "found": False}
        facts["kind"], facts["offline"] = "hub", any(os.environ.get(name, "0").lower() in _TRUE for name in _OFFLINE)
        snapshot = cached_snapshot(path)
        if snapshot is None:
            return {**facts, "found": False}
        path = snapshot
    return {**facts, **directory(Path(path))}


def cached_snapshot(name: str) -> str | None:
    """The local copy of a model of the hub, without asking the hub."""
    try:
        from huggingface_hub import snapshot_download

        return snapshot_download(name, local_files_only=True)
    except Exception:  # not in the cache, no valid name, no such library
        return None


def directory(path: Path) -> dict[str, Any]:
    """What `model` says of a directory."""
    problems: list[str] = []
    digest = hashlib.sha256()
    try:
        text = (path / "config.json").read_bytes()
        json.loads(text)
        digest.update(text)
    except (OSError, ValueError) as error:
        problems.append(f"config.json cannot be read ({error})")
    names, index_error = weight_files(path)
    if index_error:
        problems.append(index_error)
    missing = [name for name in names if not (path / name).is_file()]
    parameters = size = 0
    for name in sorted(set(names) - set(missing)):
        size += (path / name).stat().st_size
        digest.update(f"{name} {(path / name).stat().st_size}\n".encode())
        if name.endswith(".safetensors"):
            count, error = safetensors_parameters(path / name)
            parameters += count
            if error:
                problems.append(f"{name} {error}")
    return {
        "problems": problems,
        "missing": missing,
        "parameters": parameters,
        "bytes": size,
        "fingerprint": digest.hexdigest()[:12],
    }


def weight_files(path: Path) -> tuple[list[str], str | None]:
    """The names of the weight files: those of the index, else the one file there is, and what is wrong with them."""
    for single in _SINGLE_WEIGHTS:
        index = path / f"{single}.index.json"
        if index.is_file():
            try:
                return sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values())), None
            except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
                return [], f"{index.name} cannot be read ({error!r})"
    for single in _SINGLE_WEIGHTS:
        if (path / single).is_file():
            return [single], None
    return [], "has no weights: neither model.safetensors nor an index of shards"


def safetensors_parameters(path: Path) -> tuple[int, str | None]:
    """Number of values in a safetensors file, by its header, and what is wrong: cut short, or none at all."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if not 2 <= length <= size - 8:
                raise ValueError("no header")
            header = json.loads(file.read(length))
        tensors = [value for key, value in header.items() if key != "__metadata__"]
        end = max((tensor["data_offsets"][1] for tensor in tensors), default=0)
        count = sum(math.prod(tensor["shape"]) for tensor in tensors)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        return 0, f"is no safetensors file ({type(error).__name__}: {error})"
    if size != 8 + length + end:
        return count, f"has {size} bytes where its header says {8 + length + end}: it was copied or written in part"
    return count, None


def data(path: str) -> dict[str, Any]:
    """A file of the training or validation data (or a pattern of such): columns with their types, rows, what failed.

    Returns:
        ``error``, ``rows`` (None: not counted), ``columns`` of the first file, ``fingerprint`` to compare nodes by.
    """
    empty: dict[str, Any] = {"error": None, "rows": None, "columns": None, "fingerprint": None}
    if "://" in path:
        return empty
    pattern = os.path.expanduser(path)
    files = sorted(glob.glob(pattern)) if _MAGIC & set(pattern) and not os.path.exists(pattern) else [pattern]
    if not files:
        return {**empty, "error": "no file fits this pattern"}
    digest = hashlib.sha256()
    rows: int | None = 0
    columns: dict[str, str] | None = None
    try:
        for file in files:
            names, count = read_columns(file)
            columns = columns or names
            rows = None if rows is None or count is None else rows + count
            with open(file, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - _TAIL_BYTES))
                digest.update(f"{size}\n".encode() + stream.read())
    except Exception as error:  # pyarrow's errors, the file system's, a JSON line that is none
        return {**empty, "error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {"error": None, "rows": rows, "columns": columns, "fingerprint": digest.hexdigest()[:12]}


def read_columns(file: str) -> tuple[dict[str, str], int | None]:
    """Column names with their types and the number of rows (None for JSON, of which one row is looked at)."""
    if file.endswith(".parquet"):
        import pyarrow.parquet as parquet

        found = parquet.ParquetFile(file)
        return {field.name: str(field.type) for field in found.schema_arrow}, found.metadata.num_rows
    if file.endswith((".json", ".jsonl")):
        with open(file, encoding="utf-8") as stream:
            first = stream.readline()
            row = (json.loads(first + stream.read()) or [{}])[0] if first[:1] == "[" else json.loads(first)
        return {key: json.dumps(value) for key, value in row.items()}, None
    raise ValueError("verl reads .parquet, .json and .jsonl files only")


if __name__ == "__main__":
    request = json.load(sys.stdin)
    answer = {
        "models": {entry["path"]: model(entry) for entry in request["models"]},
        "data": {path: data(path) for path in request["data"]},
        "files": {path: os.access(os.path.expanduser(path), os.R_OK) for path in request["files"]},
    }
    print(f"\n@@doctor@@{json.dumps(answer)}", flush=True)

"""What one node of a Ray cluster is and has: sent there as text and run by the node's own interpreter.

It imports nothing of this package, and outside of functions nothing but the standard library, so that it runs where
anything else is missing. It reads a request (JSON: ``steps``, and what they need) from standard input. For each step
it prints ``{"began": step}``, then ``{step: {"value": ...}}`` or ``{step: {"error": ...}}``, as JSON on lines that
begin with `MARKER`. A step that fails does not stop the next; one that ends the process or hangs is known by having
begun.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Any

MARKER = "@@doctor@@"
PACKAGE, ESTIMATOR = "subgroup_offset", "grpo_subgroup"


def host(request: dict[str, Any]) -> dict[str, Any]:
    """Python, distributions, source files and plugins."""
    installed = [d for d in importlib.metadata.distributions() if d.metadata["Name"]]
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "cwd": os.getcwd(),
        # Backwards: of two that are found, the first is imported.
        "packages": {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d.version for d in reversed(installed)},
        "code": {package: code_hash(package) for package in (PACKAGE, "verl")},
        "plugins": sorted({entry.name for entry in importlib.metadata.entry_points(group="verl.plugins")}),
        "plugin_policy": os.environ.get("VERL_USE_EXTERNAL_PLUGINS"),
    }


def code_hash(package: str) -> str | None:
    """A hash over a package's Python files: two checkouts of one version may differ. None: it is not there."""
    try:
        spec = importlib.util.find_spec(package)
    except Exception:  # a finder that is installed here may raise what it likes
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    digest = hashlib.sha256()
    for root in spec.submodule_search_locations:
        for path in sorted(Path(root).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def storage(request: dict[str, Any]) -> dict[str, Any]:
    """Write this node's token into every directory, or above one that the run makes itself.

    Returns:
        Path -> ``directory`` written into, ``token`` (its file, None where it failed), ``error``, ``free`` bytes.
    """
    return {d["path"]: write(d["path"], d["may_be_made"], request["token"]) for d in request["directories"]}


def write(path: str, may_be_made: bool, token: str) -> dict[str, Any]:
    """See `storage`."""
    place = Path(path).expanduser().absolute()
    while may_be_made and not os.path.lexists(place) and place != place.parent:
        place = place.parent
    facts: dict[str, Any] = {"directory": str(place), "token": None, "error": None, "free": None}
    if not place.is_dir():
        return {**facts, "error": "is not a directory" if os.path.lexists(place) else "does not exist"}
    file = place / f".subgroup-offset-doctor-{token}"
    try:
        facts["free"] = shutil.disk_usage(place).free
        file.write_text(token, "utf-8")
        return {**facts, "token": str(file)}
    except OSError as error:
        remove({"files": [file]})
        return {**facts, "error": f"cannot be written ({error.strerror})"}


def read(request: dict[str, Any]) -> dict[str, bool]:
    """Which of other nodes' tokens are here: a network file system must ask for a name that it does not know."""
    found = {}
    for file, token in request["files"].items():
        try:
            found[file] = Path(file).read_text("utf-8") == token
        except OSError:
            found[file] = False
    return found


def remove(request: dict[str, Any]) -> None:
    """Take away this node's own tokens."""
    for file in request["files"]:
        with contextlib.suppress(OSError):
            os.unlink(file)


def data(request: dict[str, Any]) -> dict[str, Any]:
    """Every data file or pattern of such; under "files" which files of code can be read."""
    files = {path: os.access(os.path.expanduser(path), os.R_OK) for path in request["files"]}
    return {**{path: look_at_data(path) for path in request["data"]}, "files": files}


def look_at_data(path: str) -> dict[str, Any]:
    """``error``, the ``columns`` of the first row (None: remote storage), ``fingerprint`` to compare nodes by."""
    facts: dict[str, Any] = {"error": None, "columns": None, "fingerprint": None}
    if "://" in path:
        return facts
    # A file without rows is refused by the default size, its own first group's.
    kinds = {".parquet": {"path": "parquet", "batch_size": 1}, ".json": {"path": "json"}, ".jsonl": {"path": "json"}}
    digest = hashlib.sha256()
    try:
        from datasets import load_dataset

        path = os.path.expanduser(path)
        rows = load_dataset(**kinds[Path(path).suffix], data_files=path, split="train", streaming=True)
        for file in sorted(glob.glob(path)) or [path]:
            with open(file, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - 65536))
                digest.update(f"{size}\n".encode() + stream.read())
        return {**facts, "columns": shape(next(iter(rows))), "fingerprint": digest.hexdigest()[:12]}
    except KeyError:
        error = "verl reads .parquet, .json and .jsonl files only"
    except StopIteration:
        error = "it has no rows"
    except Exception as caught:  # pyarrow's errors, the file system's, a JSON line that is none
        error = one_line(caught)
    return {**facts, "error": error}


def shape(value: Any) -> Any:
    """Keys and types of a value, as ``{"prompt": [{"role": "str", "content": "str"}]}``."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return type(value).__name__


def memory(request: dict[str, Any]) -> dict[str, Any]:
    """Bytes of memory (a container's limit, by cgroup 2, counts as the total) and of /dev/shm."""
    import psutil  # verl brings it, through accelerate

    total, available = psutil.virtual_memory()[:2]
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, LookupError, ValueError):  # no such file, or "max"
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        cached = int(stat["active_file"]) + int(stat["inactive_file"])  # give way to what a process asks for
        total, available = min(total, limit), min(available, limit - used + cached)
    shared = shutil.disk_usage("/dev/shm").total if os.path.isdir("/dev/shm") else 0
    return {"total": total, "available": available, "shared": shared}


def torch(request: dict[str, Any]) -> dict[str, Any]:
    """How many GPUs torch sees, and why none."""
    import torch

    count, why = torch.cuda.device_count(), None
    if not count:
        try:
            torch.cuda.init()
        except Exception as error:  # a build without CUDA, no driver, or one that is too old
            why = one_line(error)
    return {"count": count, "why": why}


def verl(request: dict[str, Any]) -> str:
    """``import verl``, which loads the plugins: its version."""
    return importlib.import_module("verl").__version__


def plugin(request: dict[str, Any]) -> dict[str, Any]:
    """Whether verl has our estimator, and which of our hooks are in place."""
    core_algos = importlib.import_module("verl.trainer.ppo.core_algos")
    hooked = {
        "verl.utils.config.validate_config": importlib.import_module("verl.utils.config").validate_config,
        "verl.utils.tracking.Tracking.log": vars(importlib.import_module("verl.utils.tracking").Tracking)["log"],
    }
    hooks = {name: any(m.split(".")[0] == PACKAGE for m in layers(f)) for name, f in hooked.items()}
    if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
        from verl.plugin.platform import PlatformRegistry

        hooks["the platform `cpu`"] = PlatformRegistry.get("cpu") is not None
    try:
        importlib.import_module(f"{PACKAGE}.plugin")
        import_error = None
    except Exception as error:  # verl says so at DEBUG only
        import_error = one_line(error)
    registered = ESTIMATOR in core_algos.ADV_ESTIMATOR_REGISTRY
    return {"registered": registered, "hooks": hooks, "import_error": import_error}


def layers(function: Any) -> set[str]:
    """The modules whose code runs when ``function`` is called: its own and those of all wrappers around it."""
    modules = set()
    while function is not None:
        wrapper = getattr(function, "_self_wrapper", function)
        modules.add(getattr(wrapper, "__globals__", {}).get("__name__", ""))
        function = getattr(function, "__wrapped__", None)
    return modules


def vllm(request: dict[str, Any]) -> str:
    """The module of verl that serves rollouts with vLLM, and so everything that it needs: vLLM's version."""
    importlib.import_module("verl.workers.rollout.vllm_rollout.vllm_async_server")
    return importlib.import_module("vllm").__version__


def models(request: dict[str, Any]) -> dict[str, Any]:
    """Whether transformers loads every model's tokenizer and config, and its weights as far as their headers.

    Returns:
        Path -> ``kind`` (directory, hub, remote or missing), ``offline``, ``error``, ``parameters``, ``bytes`` of the
        weights, ``fingerprint`` to compare nodes by.
    """
    return {model["path"]: look_at_model(**model) for model in request["models"]}


def look_at_model(path: str, tokenizer: str, config: str, trust_remote_code: bool) -> dict[str, Any]:
    """See `models`. verl does not replace a leading ~ here."""
    kind = "hub"
    if "://" in path:
        kind = "remote"
    elif os.path.isdir(path):
        kind = "directory"
    elif os.path.isabs(path) or path.count("/") > 1 or path[:1] in ("", ".", "~"):
        kind = "missing"
    facts = {"kind": kind, "offline": False, "error": None, "parameters": 0, "bytes": 0, "fingerprint": None}
    if kind in ("remote", "missing"):
        return facts
    digest = hashlib.sha256()
    try:
        import transformers
        from huggingface_hub import constants

        facts["offline"] = constants.HF_HUB_OFFLINE
        local = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        transformers.AutoTokenizer.from_pretrained(tokenizer, **local)
        settings = transformers.AutoConfig.from_pretrained(config, **local)
        own_class = getattr(transformers, (settings.architectures or [""])[0], transformers.AutoModel)
        # Opens every shard, which is held against its header, and reads no weights.
        model = own_class.from_pretrained(path, config=settings, device_map="meta", **local)
        for file in sorted(Path(path).glob("*")):
            if file.suffix in (".json", ".safetensors", ".bin"):
                digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        facts.update(parameters=model.num_parameters(), bytes=model.get_memory_footprint())
        return {**facts, "fingerprint": digest.hexdigest()[:12]}
    except Exception as error:  # the libraries' own, or the file system's
        return {**facts, "error": one_line(error)}


def one_line(error: BaseException) -> str:
    """An error's type and text, short enough to be read in a list."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


#: What an examination asks for, in this order: imports, which may crash, come late.
EXAMINATION = (host, storage, data, memory, torch, verl, plugin, vllm, models)
STEPS = {step.__name__: step for step in (*EXAMINATION, read, remove)}


def main() -> None:
    """All steps that are asked for."""
    request = json.load(sys.stdin)
    for name in request["steps"]:
        print(f"\n{MARKER}{json.dumps({'began': name})}", flush=True)
        try:
            result = {"value": STEPS[name](request)}
        except BaseException as error:  # SystemExit included: a library may call it
            result = {"error": one_line(error)}
        print(f"\n{MARKER}{json.dumps({name: result})}", flush=True)
    sys.stderr.flush()
    os._exit(0)  # some libraries start threads or processes that keep an interpreter from ending


if __name__ == "__main__":
    main()

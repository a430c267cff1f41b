"""What a node is and what is installed on it. Nothing is imported but the standard library."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

GROUP = "verl.plugins"


def packages(wanted: dict[str, list[str]]) -> dict[str, str | None]:
    """Version of each distribution, looked up under several names; None where there is none."""
    found = dict.fromkeys(wanted)
    for name, names in wanted.items():
        for candidate in names:
            try:
                found[name] = importlib.metadata.version(candidate)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


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


def gpus() -> tuple[list[dict], str | None]:
    """Every NVIDIA device of the machine, whatever this process may see, and why they cannot be listed."""
    if shutil.which("nvidia-smi") is None:
        return [], "nvidia-smi is not installed"
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi failed ({error})"
    if done.returncode != 0:
        return [], f"nvidia-smi failed ({(done.stdout + done.stderr).strip()})"
    return parse_gpus(done.stdout), None


def parse_gpus(text: str) -> list[dict]:
    """Read nvidia-smi's CSV of name and total memory in MiB; a memory it does not know (``[N/A]``) is None."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        name, _, memory = line.rpartition(",")
        memory = memory.strip()
        found.append({"name": name.strip(), "memory": int(memory) * 2**20 if memory.isdigit() else None})
    return found


def memory() -> tuple[int | None, int | None]:
    """Total and available bytes of memory; a container's limit counts as the total."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None, None
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    total, available = values.get("MemTotal"), values.get("MemAvailable")
    for group, limit, used, prefix in (
        (Path("/sys/fs/cgroup"), "memory.max", "memory.current", ""),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        try:
            most, now = int((group / limit).read_text()), int((group / used).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # no such file, or "max"
            continue
        # Cached files count as used, but give way to what a process asks for.
        cached = sum(int(stat.get(f"{prefix}{kind}", 0)) for kind in ("active_file", "inactive_file"))
        if total is not None and most < total:
            total, available = most, min(available or most, most - now + cached)
    return total, available


def shared_memory() -> int | None:
    """Bytes of /dev/shm."""
    try:
        return shutil.disk_usage("/dev/shm").total
    except OSError:
        return None


def main(request: dict) -> dict:
    """All of it."""
    devices, gpu_error = gpus()
    total, available = memory()
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "cwd": os.getcwd(),
        "packages": packages(request["packages"]),
        "code": {package: code_hash(package) for package in request["code"]},
        "importable": code_hash("subgroup_offset") is not None,
        "plugins": sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)}),
        "plugin_policy": os.environ.get("VERL_USE_EXTERNAL_PLUGINS"),
        "gpus": devices,
        "gpu_error": gpu_error,
        "memory": total,
        "memory_available": available,
        "shared_memory": shared_memory(),
    }


if __name__ == "__main__":
    print(f"\n@@doctor@@{json.dumps(main(json.load(sys.stdin)))}", flush=True)

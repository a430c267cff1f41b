"""Whether directories can be written, and whether they are one storage: every node writes a token, the others read it.

Tokens are looked up by name: a network file system may answer a listing from a cache, a new name it must ask for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import Any

PREFIX = ".subgroup-offset-doctor-"


def write(path: str, may_be_made: bool, token: str) -> dict[str, Any]:
    """Write this node's token into a directory, or above one that is yet to be made (a run makes it itself).

    Returns:
        ``directory`` it was written into, ``token`` (its file; None where it failed), ``error``, ``free`` bytes.
    """
    directory = os.path.abspath(os.path.expanduser(path))
    facts: dict[str, Any] = {"directory": directory, "token": None, "error": None, "free": None}
    if may_be_made:
        while not os.path.lexists(directory) and os.path.dirname(directory) != directory:
            directory = os.path.dirname(directory)
        facts["directory"] = directory
    if not os.path.isdir(directory):
        return {**facts, "error": "is not a directory" if os.path.lexists(directory) else "does not exist"}
    file = os.path.join(directory, f"{PREFIX}{token}")
    try:
        facts["free"] = shutil.disk_usage(directory).free
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(token)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        remove(file)
        return {**facts, "error": f"cannot be written ({error.strerror})"}
    return {**facts, "token": file}


def read(file: str, token: str) -> bool:
    """Whether another node's token is here."""
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read() == token
    except OSError:
        return False


def remove(file: str) -> None:
    """Take away this node's own token."""
    with contextlib.suppress(OSError):
        os.unlink(file)


def main(request: dict) -> dict:
    """``write``, ``read`` or ``remove``, as asked."""
    if request["action"] == "write":
        return {p["path"]: write(p["path"], p["may_be_made"], request["token"]) for p in request["paths"]}
    if request["action"] == "read":
        return {file: read(file, token) for file, token in request["files"].items()}
    for file in request["files"]:
        remove(file)
    return {}


if __name__ == "__main__":
    print(f"\n@@doctor@@{json.dumps({'answer': main(json.load(sys.stdin))})}", flush=True)

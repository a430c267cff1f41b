"""Merge the shards of verl's FSDP engine into a Hugging Face directory, by verl's own merger, once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from subgroup_offset.evaluation.checkpoint import Checkpoint
from subgroup_offset.evaluation.plan import EvaluationError

#: Beside ``actor``, so that it goes when the checkpoint does.
DIRECTORY = "merged_hf"
#: In it: what it was merged from.
SOURCE = "merged_from.json"
_COMMAND = ("-m", "verl.model_merger", "merge", "--backend", "fsdp")


def model_directory(checkpoint: Checkpoint) -> Path:
    """Where the Hugging Face model of a checkpoint is, or will be once it is :func:`merged`."""
    return checkpoint.directory.parent / DIRECTORY if checkpoint.sharded else checkpoint.directory


def merged(checkpoint: Checkpoint) -> Path:
    """The Hugging Face directory of a sharded checkpoint: ``global_step_N/merged_hf``.

    Made by ``python -m verl.model_merger``, which rounds all weights to bfloat16 (also those of a float32 model), and
    used again as long as the shards are the same files.

    Raises:
        EvaluationError: if the merger fails or cannot write; nothing is left behind then.
    """
    target, shards = model_directory(checkpoint), checkpoint.directory
    source = checkpoint.fingerprint()
    if _source_of(target) == source:
        return target
    draft = target.with_name(f".{DIRECTORY}.{os.getpid()}")
    command = [*_COMMAND, "--local_dir", str(shards), "--target_dir"]
    try:
        draft.mkdir()
        done = subprocess.run(
            [sys.executable, *command, str(draft)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            tail = "\n".join(done.stdout.splitlines()[-15:])
            raise EvaluationError(f"{shards} cannot be merged: verl's merger ended with {done.returncode}.\n{tail}")
        (draft / SOURCE).write_text(json.dumps(source, indent=1) + "\n", "utf-8")
        if target.exists():  # of shards that are no longer there
            shutil.rmtree(target)
        draft.rename(target)
    except OSError as error:
        if _source_of(target) == source:  # another process was first
            return target
        raise EvaluationError(
            f"{target} cannot be written ({error}). Merge elsewhere and give that directory: "
            f"{shlex.join(['python', *command, 'DIR'])}"
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _source_of(target: Path) -> dict[str, list[int]] | None:
    try:
        return json.loads((target / SOURCE).read_text("utf-8"))
    except (OSError, ValueError):
        return None

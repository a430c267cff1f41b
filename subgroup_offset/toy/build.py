"""Builds the toy world once and caches it by its content."""

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .data import TRAIN_SIZE, VAL_SIZE, write_data
from .sft import STEPS, Progress, build_model, train
from .tokenizer import build_tokenizer

CACHE_VARIABLE = "SUBGROUP_OFFSET_CACHE"
# Modules that use a built world and so do not change it.
NOT_PART_OF_THE_WORLD = {"__init__.py", "__main__.py", "check.py", "progress.py"}


@dataclass(frozen=True)
class ToyPaths:
    """A built world: the model directory (with its tokenizer) and the two Parquet files, all in one directory."""

    model: Path
    train: Path
    val: Path

    @property
    def root(self) -> Path:
        """The directory that holds model/, toy-train.parquet and toy-val.parquet."""
        return self.model.parent


def default_cache_dir() -> Path:
    """The directory in SUBGROUP_OFFSET_CACHE, else ~/.cache/subgroup_offset."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "subgroup_offset")


def world_key(seed: int, steps: int) -> str:
    """A hash over everything a built world depends on: the arguments and the source of the world's modules."""
    digest = hashlib.sha256(json.dumps({"seed": seed, "steps": steps}).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in NOT_PART_OF_THE_WORLD:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _paths(root: Path) -> ToyPaths:
    return ToyPaths(model=root / "model", train=root / "toy-train.parquet", val=root / "toy-val.parquet")


def _write_world(root: Path, seed: int, steps: int, progress: Progress | None) -> None:
    paths = _paths(root)
    write_data(root, TRAIN_SIZE, VAL_SIZE, seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    train(model, tokenizer, seed, steps, progress)
    model.save_pretrained(paths.model)
    tokenizer.save_pretrained(paths.model)


def build_toy(
    cache_dir: Path | str | None = None, seed: int = 0, steps: int = STEPS, progress: Progress | None = None
) -> ToyPaths:
    """The paths of the toy world, built if the cache lacks it (some minutes), else at once.

    `cache_dir` defaults to default_cache_dir(); `steps` counts the warm start's batches; `progress` is called with
    (step, steps, loss) after each. Raises ValueError if `steps` is not positive.
    """
    if steps < 1:
        raise ValueError(f"steps={steps} trains no model; give a positive number of batches (default {STEPS})")
    parent = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    root = parent / f"toy-{world_key(seed, steps)}"
    if root.exists():
        return _paths(root)
    parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and renamed, so that nobody ever sees half a world.
    scratch = Path(tempfile.mkdtemp(prefix="toy-building-", dir=parent))
    try:
        _write_world(scratch, seed, steps, progress)
        scratch.rename(root)
    except OSError:
        if not root.exists():  # Else another process was first; its world is the same.
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _paths(root)

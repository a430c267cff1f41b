"""Find the weights that a path stands for: a Hugging Face model, a checkpoint of verl's, or a run's latest one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from subgroup_offset.evaluation.plan import EvaluationError

TRACKER = "latest_checkpointed_iteration.txt"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
# Beside the weights: what decides how a prompt is written and where a response ends.
_TEXT_FILES = ("config.json", "generation_config.json", "tokenizer*", "chat_template*", "vocab.json", "merges.txt")
# Where a run keeps its checkpoints: in its own directory, in `checkpoints`, or by verl's default below that.
_TRACKERS = (TRACKER, f"checkpoints/{TRACKER}", f"checkpoints/*/*/{TRACKER}")


@dataclass(frozen=True)
class Checkpoint:
    """A model to evaluate."""

    #: A Hugging Face directory, or with `sharded` verl's ``global_step_N/actor``.
    directory: Path
    #: Shards of verl's FSDP engine, which have to be merged.
    sharded: bool = False
    step: int | None = None
    #: The run it was looked up in; None if it was given by itself.
    run: Path | None = None

    def fingerprint(self) -> dict[str, list[int]]:
        """Size in bytes and time of last change in nanoseconds of each file that the model is made of."""
        if self.sharded:
            files = [*self.directory.glob("model_world_size_*.pt"), *(self.directory / "huggingface").glob("*")]
        else:
            files = [file for pattern in (*_WEIGHTS, *_TEXT_FILES) for file in self.directory.glob(pattern)]
        kept = sorted(file for file in files if file.is_file())
        stats = {str(file.relative_to(self.directory)): file.stat() for file in kept}
        return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def find_checkpoint(path: Path, step: int | None = None) -> Checkpoint:
    """The model that a path stands for.

    Args:
        path: a Hugging Face directory, ``global_step_N`` or its ``actor``, or the directory of a run.
        step: of a run: this one instead of the latest.

    Raises:
        EvaluationError: where there is no such thing; the message says what was looked for.
    """
    if not path.is_dir():
        hint = " Overrides come after the checkpoint." if "=" in str(path) else ""
        raise EvaluationError(
            f"{path} is no directory: give a model's (config.json and weights), a checkpoint's (global_step_N) or a "
            f"run's.{hint}"
        )
    path = path.resolve()
    single = _single(path)
    if single is not None and step is not None:
        raise EvaluationError(f"--step {step} chooses among a run's checkpoints, and {path} is a single one.")
    return single or _of_run(path, step)


def _single(path: Path) -> Checkpoint | None:
    if _has_weights(path):
        return Checkpoint(path, step=_step(path))
    if (path / "actor").is_dir():
        return _of_actor(path / "actor")
    if (path / "fsdp_config.json").is_file() or (path / "huggingface").is_dir():
        return _of_actor(path)
    if (path / "config.json").is_file():
        raise EvaluationError(f"{path} has a config.json, but no weights ({' or '.join(_WEIGHTS)}).")
    return None


def _of_actor(actor: Path) -> Checkpoint:
    whole = actor / "huggingface"
    if _has_weights(whole):  # actor.checkpoint.save_contents with hf_model
        return Checkpoint(whole, step=_step(actor))
    if (actor / "lora_train_meta.json").is_file():
        raise EvaluationError(
            f"{actor} is a LoRA checkpoint, which verl's merger splits into base model and adapter: merge the adapter "
            "into the model (peft: merge_and_unload) and give that directory."
        )
    config = actor / "fsdp_config.json"
    if not config.is_file():
        raise EvaluationError(
            f"{actor} is no FSDP checkpoint: there is no fsdp_config.json. Merge it by hand (python -m "
            f"verl.model_merger merge --backend megatron --local_dir {actor} --target_dir DIR) and give DIR."
        )
    try:
        ranks = int(json.loads(config.read_text("utf-8"))["world_size"])
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{config} does not say world_size ({error}): the checkpoint is not whole.") from None
    shards = [f"model_world_size_{ranks}_rank_{rank}.pt" for rank in range(ranks)]
    absent = [name for name in shards if not (actor / name).is_file()]
    if absent:
        raise EvaluationError(
            f"{actor} lacks {len(absent)} of {ranks} shards, {absent[0]} for one: it was not saved to the end, or "
            "each node kept its own. Bring the shards together in this directory."
        )
    return Checkpoint(actor, sharded=True, step=_step(actor))


def _of_run(path: Path, step: int | None) -> Checkpoint:
    trackers = sorted({found for pattern in _TRACKERS for found in path.glob(pattern)})
    if not trackers:
        raise EvaluationError(
            f"{path} is neither a model (config.json and weights) nor a checkpoint (actor/), and holds no checkpoints "
            f"of a run ({', '.join(_TRACKERS)}). Give the directory of trainer.default_local_dir, or one of its "
            "global_step_N. A run saves checkpoints with trainer.save_freq above 0."
        )
    if len(trackers) > 1:
        listed = ", ".join(str(tracker.parent) for tracker in trackers)
        raise EvaluationError(f"{path} holds the checkpoints of {len(trackers)} runs: give one of {listed}.")
    directory, text = trackers[0].parent, trackers[0].read_text("utf-8").strip()
    if step is None and not text.isdecimal():
        raise EvaluationError(f"{trackers[0]} says {text!r}, no step: give one with --step.")
    step = int(text) if step is None else step
    chosen = directory / f"global_step_{step}"
    single = _single(chosen) if chosen.is_dir() else None
    if single is None:
        numbers = sorted(number for child in directory.iterdir() if (number := _number(child)) is not None)
        there = f"there are steps {', '.join(map(str, numbers))}" if numbers else "there is none"
        raise EvaluationError(f"{directory} has no checkpoint of step {step}: {there}. Choose with --step.")
    return Checkpoint(single.directory, single.sharded, step, run=path)


def _has_weights(path: Path) -> bool:
    return (path / "config.json").is_file() and any(file for pattern in _WEIGHTS for file in path.glob(pattern))


def _number(path: Path) -> int | None:
    match = re.fullmatch(r"global_step_(\d+)", path.name)
    return int(match[1]) if match else None


def _step(path: Path) -> int | None:
    """The number in the name of the nearest directory above that verl named."""
    return next((number for parent in (path, *path.parents) if (number := _number(parent)) is not None), None)

"""Writes a checkpoint as verl's FSDP trainer does, from two ranks: ``torchrun fsdp_checkpoint.py MODEL GLOBAL_STEP``.

MODEL is a Hugging Face directory; its weights go, sharded, into ``GLOBAL_STEP/actor``.
"""

from __future__ import annotations

import sys
from pathlib import Path

RANKS = 2


def write_fsdp_checkpoint(model: Path, step_directory: Path) -> None:
    """Run this program on two ranks of this machine."""
    import subprocess

    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    command = [*launcher, __file__, str(model), str(step_directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def main(model_path: str, step_directory: str) -> None:
    """One rank."""
    import torch
    from omegaconf import DictConfig
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    torch.distributed.init_process_group("gloo")
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",)))
    contents = DictConfig({"load_contents": ["model"], "save_contents": ["model"]})
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    manager = FSDPCheckpointManager(model, processing_class=tokenizer, checkpoint_config=contents)
    manager.save_checkpoint(str(Path(step_directory) / "actor"))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

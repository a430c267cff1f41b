"""A Hydra program that looks like a training to a sweep: it logs steps, saves and resumes checkpoints, and can fail.

Files in ``control`` tell it what to do: with ``fail-<lam>`` it fails after step 2, with ``hold-<lam>`` it waits there.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

CONFIG = {
    "control": "???",
    "algorithm": {"subgroup": {"lam": 0.0}},
    "data": {"seed": 1},
    "trainer": {
        "project_name": "project",
        "experiment_name": "tiny",
        "logger": ["console"],
        "default_local_dir": "checkpoints/${trainer.project_name}/${trainer.experiment_name}",
        "resume_mode": "disable",
        "resume_from_path": None,
        "total_training_steps": 3,
        "save_freq": 1,
        "rollout_data_dir": None,
    },
}
ConfigStore.instance().store(name="tiny", node=CONFIG)


def resumed_step(trainer: DictConfig) -> int:
    tracker = Path(trainer.default_local_dir) / "latest_checkpointed_iteration.txt"
    if trainer.resume_mode == "resume_path":
        return int(trainer.resume_from_path.rpartition("global_step_")[2])
    return int(tracker.read_text()) if trainer.resume_mode == "auto" and tracker.exists() else 0


@hydra.main(config_path=None, config_name="tiny", version_base=None)
def main(config: DictConfig) -> None:
    trainer, control, lam = config.trainer, Path(config.control), config.algorithm.subgroup.lam
    start = resumed_step(trainer)
    with (control / "journal").open("a") as journal:
        journal.write(json.dumps({"lam": lam, "seed": config.data.seed, "from": start, "pid": os.getpid()}) + "\n")
    checkpoints = Path(trainer.default_local_dir)
    checkpoints.mkdir(parents=True, exist_ok=True)
    with open(config.ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH, "wb", buffering=0) as log:
        for step in range(start + 1, trainer.total_training_steps + 1):
            metrics = {"lr": 0.1, "val-core/tiny/acc/mean@2": lam + step, "start": start}
            log.write(json.dumps({"step": step, "data": metrics}).encode() + b"\n")
            (checkpoints / "latest_checkpointed_iteration.txt").write_text(str(step))
            if step == 2 and (control / f"fail-{lam:g}").exists():
                raise RuntimeError(f"told to fail at lam={lam:g}")
            while step == 2 and (control / f"hold-{lam:g}").exists():
                time.sleep(0.02)


if __name__ == "__main__":
    main()

"""The command line that the real runs on the toy world share."""

from __future__ import annotations

from pathlib import Path


def toy_overrides(toy: Path, prompts: int, method: str = "contrast") -> list[str]:
    """Hydra arguments of ``main_ppo`` for a step of so many prompts on the CPU."""
    return [
        f"--config-name={method}",
        "+experiment=toy",
        "+platform=cpu",
        f"toy_dir={toy}",
        f"data.train_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts}",
    ]

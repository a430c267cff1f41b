"""Verl's default config with Contrast, as the tests of the preflight checks change it."""

from functools import cache
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

STOCK = ["actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"]
STOCK += ["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1"]


@cache
def _base() -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("contrast", STOCK)


def changed(changes: dict[str, Any]) -> DictConfig:
    """The config, composed once, with other values for some dotted keys."""
    config = _base().copy()
    for key, value in changes.items():
        OmegaConf.update(config, key, value, force_add=True)
    return config

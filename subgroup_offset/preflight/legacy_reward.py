"""Reward settings under the names of older verl versions.

``verl/trainer/config/legacy_reward_impl.yaml`` keeps them in the schema, so they are accepted. The function that
carries them over (``migrate_legacy_reward_impl`` in ``verl/experimental/reward_loop/reward_loop.py``) is called by the
entry point of the fully asynchronous trainer only, never by ``main_ppo``: such a run trains on another reward than it
asks for.
"""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from subgroup_offset.preflight.findings import Findings

#: The key that is accepted and not read -> the one that is.
NEW_NAMES = {
    "custom_reward_function.path": "reward.custom_reward_function.path",
    "reward_model.enable": "reward.reward_model.enable",
    "reward_model.reward_manager": "reward.reward_manager.name",
    "reward_model.reward_kwargs": "reward.reward_kwargs",
    "reward_model.reward_loop_source": "reward.reward_manager.source",
    "sandbox_fusion.url": "reward.sandbox_fusion.url",
}
# Not in verl's schema: on a command line they need a plus.
_ADDED = {"reward.reward_kwargs"}


def check(config: Any, findings: Findings) -> None:
    """Look for an old name whose value the live key does not have as well."""
    for old, new in NEW_NAMES.items():
        value = _plain(config, old)
        if value is None or value == _plain(config, new):
            continue
        fix = f"move it to +{new}" if new in _ADDED else f"set {new}={value} instead"
        findings.quirk(f"{old}={value} is accepted by verl's main_ppo and ignored: {fix}.")


def _plain(config: Any, key: str) -> Any:
    value = OmegaConf.select(config, key)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value

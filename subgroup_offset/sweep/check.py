"""Checks of each job's config before the first starts: a bad value in the last costs seconds, not six trainings."""

from __future__ import annotations

from omegaconf import DictConfig

from subgroup_offset.preflight import check_as_main_ppo
from subgroup_offset.sweep.settings import SweepError


def check_config(config: DictConfig) -> None:
    """What ``main_ppo`` itself checks before it starts Ray, for configs that are ``main_ppo``'s.

    Raises:
        SweepError: if the config has no ``trainer``: then it is none of verl's, and nothing keeps its jobs apart.
        Exception: see :func:`~subgroup_offset.preflight.check_as_main_ppo`.
    """
    if "trainer" not in config:
        raise SweepError(
            "The config has no section `trainer`: hydra/launcher=subgroup_offset runs programs of verl. For others use "
            "hydra/launcher=basic."
        )
    if "actor_rollout_ref" not in config:
        return  # the SFT trainer's, for one
    check_as_main_ppo(config)

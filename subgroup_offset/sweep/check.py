"""Checks of each job's config before the first starts: a bad value in the last costs seconds, not six trainings."""

from __future__ import annotations

import contextlib
import io
import warnings

from omegaconf import DictConfig

from subgroup_offset.sweep.settings import SweepError


def check_config(config: DictConfig) -> None:
    """What ``main_ppo`` itself checks before it starts Ray, for configs that are ``main_ppo``'s.

    Raises:
        SweepError: if the config has no ``trainer``: then it is none of verl's, and nothing keeps its jobs apart.
        Exception: whatever verl or :func:`subgroup_offset.preflight.check_run` find.
    """
    if "trainer" not in config:
        raise SweepError(
            "The config has no section `trainer`: hydra/launcher=subgroup_offset runs programs of verl. For others use "
            "hydra/launcher=basic."
        )
    if "actor_rollout_ref" not in config:
        return  # the SFT trainer's, for one
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    # The job says all of it again, in its own log.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validate_config(config, need_reference_policy(config), need_critic(config))  # and check_run behind it

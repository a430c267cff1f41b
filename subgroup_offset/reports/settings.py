"""A run's composed config as flat settings: what each is, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, SubgroupConfig
from subgroup_offset.preflight.estimator import TAKEN_OVER, asks_for_a_method

#: Which settings say nothing about a training but where it puts things and what it is called.
_OUTPUT = {
    "trainer.project_name",
    "trainer.experiment_name",
    "trainer.logger",
    "trainer.default_local_dir",
    "trainer.default_hdfs_dir",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "trainer.log_val_generations",
    "trainer.resume_mode",
    "trainer.save_freq",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.max_critic_ckpt_to_keep",
    "algorithm.subgroup.name",
    "algorithm.subgroup.strategy.data_dir",
    "global_profiler.save_path",
    "ray_kwargs.timeline_json_file",
}
_OUTPUT_VARIABLES = {"VERL_FILE_LOGGER_PATH", "VERL_FILE_LOGGER_ROOT", "TENSORBOARD_DIR"}
SUBGROUP = "algorithm.subgroup"
STRATEGY_DIR = f"{SUBGROUP}.strategy.data_dir"


@dataclass(frozen=True)
class Settings:
    """A config by dotted keys. Lists are values as a whole, and so are empty sections."""

    #: Interpolations resolved; those that cannot be (of the environment, of Hydra) as they are written.
    values: Mapping[str, Any]
    #: As written, interpolations included.
    written: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; the default where it is absent or null."""
        value = self.values.get(key)
        return default if value is None else value


def read_settings(path: Path) -> Settings:
    """Read a composed config that Hydra wrote.

    The settings of ``algorithm.subgroup`` that are left out are filled in, for they count as their defaults.

    Raises:
        ValueError: if the file is no YAML mapping.
    """
    from omegaconf import DictConfig, OmegaConf
    from yaml import YAMLError

    try:
        config = OmegaConf.load(path)
    except (YAMLError, OSError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise ValueError(f"{path.name} holds no settings")
    values: dict[str, Any] = {}
    written: dict[str, Any] = {}
    for key, value, source in _leaves(config):
        values[key], written[key] = value, source
    if values.get("algorithm.adv_estimator") == ESTIMATOR_NAME or any(key.startswith(f"{SUBGROUP}.") for key in values):
        for key, value in subgroup_defaults().items():
            values.setdefault(key, value)
            written.setdefault(key, value)
    # The start of a run does this to its config after Hydra has written the file.
    if values.get("algorithm.adv_estimator") == TAKEN_OVER and asks_for_a_method(config):
        values["algorithm.adv_estimator"] = ESTIMATOR_NAME
    return Settings(values, written)


def subgroup_defaults() -> dict[str, Any]:
    """The defaults of ``algorithm.subgroup`` by dotted key."""
    top = asdict(SubgroupConfig())
    strategy = top.pop("strategy")
    return {f"{SUBGROUP}.{k}": v for k, v in top.items()} | {f"{SUBGROUP}.strategy.{k}": v for k, v in strategy.items()}


def kind(key: str) -> str:
    """``seed``, ``output`` (names and places of what a run writes) or ``setting``."""
    last = key.rpartition(".")[2]
    if last == "seed" or last.endswith("_seed"):
        return "seed"
    return "output" if key in _OUTPUT or last in _OUTPUT_VARIABLES else "setting"


def is_derived(written: Any) -> bool:
    """Whether a value is taken from other settings."""
    return isinstance(written, str) and "${" in written


def _leaves(config: Any, prefix: str = "", source: str | None = None) -> Iterator[tuple[str, Any, Any]]:
    """Key, value and text of each leaf; ``source`` is the interpolation that led to this section, if one did."""
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    raw = OmegaConf.to_container(config, resolve=False)
    for name in raw:
        key, text = f"{prefix}{name}", source or raw[name]
        try:
            if is_derived(raw[name]) and "oc.env" in raw[name]:
                value = raw[name]  # this machine's environment is not the run's
            else:
                value = "???" if OmegaConf.is_missing(config, name) else config[name]
        except (OmegaConfBaseException, ValueError):
            value = raw[name]
        if isinstance(value, DictConfig) and len(value):
            yield from _leaves(value, f"{key}.", text if is_derived(text) else None)
        else:
            yield key, _plain(value), text


def _plain(value: Any) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not OmegaConf.is_config(value):
        return value
    try:
        return OmegaConf.to_container(value, resolve=True)
    except (OmegaConfBaseException, ValueError):
        return OmegaConf.to_container(value, resolve=False)


def shown(value: Any) -> str:
    """A value as JSON, text without its quotes unless it would look like something else."""
    if isinstance(value, str) and not _looks_otherwise(value):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _looks_otherwise(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return text != text.strip() or not text
    return True

"""A run's composed config as flat settings: what each is, and in which of them runs differ, exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from subgroup_offset.config import ESTIMATOR_NAME, SubgroupConfig
from subgroup_offset.preflight.estimator import TAKEN_OVER, asks_for_a_method
from subgroup_offset.text import flat

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
ABSENT = "(absent)"  #: In a difference: the config has no such key, which is not the same as null.


@dataclass(frozen=True)
class Settings:
    """A config by dotted keys. Lists are values as a whole, and so are empty sections."""

    #: Interpolations resolved; those that cannot be (of the environment, of Hydra) as they are written.
    values: Mapping[str, Any]
    #: As written, interpolations included.
    written: Mapping[str, Any]
    #: The run's directory: a path inside of it is an output, whatever its key.
    directory: Path = Path("/nowhere")

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; the default where it is absent or null."""
        value = self.values.get(key)
        return default if value is None else value


@dataclass(frozen=True)
class Difference:
    """A key whose values differ."""

    key: str
    #: One for each run, as :func:`shown`; :data:`ABSENT` where its config has no such key.
    values: tuple[str, ...]
    #: ``setting``, ``seed`` or ``output`` (names and places of what a run writes).
    kind: str
    #: Written alike in all configs, as an interpolation: it follows from another difference.
    derived: bool


def read_settings(path: Path, directory: Path) -> Settings:
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
    leaves = list(_leaves(config))
    values, written = {key: value for key, value, _ in leaves}, {key: text for key, _, text in leaves}
    if values.get("algorithm.adv_estimator") == ESTIMATOR_NAME or any(key.startswith(f"{SUBGROUP}.") for key in values):
        values, written = subgroup_defaults() | values, subgroup_defaults() | written
    # The start of a run does this to its config after Hydra has written the file.
    if values.get("algorithm.adv_estimator") == TAKEN_OVER and asks_for_a_method(config):
        values["algorithm.adv_estimator"] = ESTIMATOR_NAME
    return Settings(values, written, directory)


@cache
def subgroup_defaults() -> dict[str, Any]:
    """The defaults of ``algorithm.subgroup`` by dotted key."""
    return dict(flat({"algorithm": {"subgroup": asdict(SubgroupConfig())}}))


def kind(key: str) -> str:
    """``seed``, ``output`` or ``setting``."""
    last = key.rpartition(".")[2]
    if last == "seed" or last.endswith("_seed"):
        return "seed"
    return "output" if key in _OUTPUT or last in _OUTPUT_VARIABLES else "setting"


def differences(configs: Sequence[Settings]) -> list[Difference]:
    """All keys, sorted, whose values are not equal in all configs.

    Values are compared as resolved; 1 and 1.0 are equal, true and 1 are not.
    """
    found = []
    for key in sorted({key for config in configs for key in config.values}):
        values = [config.values.get(key, ABSENT) for config in configs]
        if all(_same(value, values[0]) for value in values[1:]):
            continue
        written = [config.written.get(key, ABSENT) for config in configs]
        derived = _interpolated(written[0]) and all(text == written[0] for text in written[1:])
        own = all(_inside(value, config.directory) for value, config in zip(values, configs, strict=True))
        texts = tuple(ABSENT if key not in c.values else shown(v) for c, v in zip(configs, values, strict=True))
        found.append(Difference(key, texts, "output" if own else kind(key), derived))
    return found


def differing(first: Settings, second: Settings) -> frozenset[str]:
    """What makes two runs different trainings: neither seeds nor outputs, nor what follows from others."""
    return frozenset(d.key for d in differences([first, second]) if d.kind == "setting" and not d.derived)


def shown(value: Any) -> str:
    """A value as JSON, text without its quotes unless it would look like something else."""
    if isinstance(value, str) and value and value == value.strip() and value != ABSENT and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _leaves(config: Any) -> Iterator[tuple[str, Any, Any]]:
    """Key, value and text of each leaf; what an interpolation to a section leads to has the interpolation as text."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for key, text in flat(OmegaConf.to_container(config, resolve=False)):
        value = text
        # This machine's environment is not the run's, nor is what Hydra may have set up in this process.
        if _interpolated(text) and not any(resolver in str(text) for resolver in ("oc.env:", "hydra:")):
            try:
                found = OmegaConf.select(config, key, throw_on_resolution_failure=True)
                value = OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found
            except (OmegaConfBaseException, ValueError):
                value = text
        yield from ((inner, leaf, text) for inner, leaf in flat({key: value}))


def _interpolated(text: Any) -> bool:
    return isinstance(text, str | list) and "${" in str(text)


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _inside(value: Any, directory: Path) -> bool:
    return isinstance(value, str) and (value == str(directory) or value.startswith(f"{directory}/"))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

"""What a run needs of a cluster: from options of the doctor, and from the run's config, composed as it would be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

#: Columns that verl's dataset and its reward managers read (``RLHFDataset``, ``reward_manager/``).
PROMPT, SOURCE, REWARD = "prompt", "data_source", "reward_model"
_VERL_CONFIGS = "verl.trainer.config"
#: Directories that one process writes to, on whichever node Ray puts it.
_WRITTEN = ("trainer.rollout_data_dir", "trainer.validation_data_dir", "algorithm.subgroup.strategy.data_dir")


class Model(NamedTuple):
    """A model to be loaded: a directory or a name on the hub, with the tokenizer's and the config's own places."""

    path: str
    tokenizer: str
    config: str
    trust_remote_code: bool = False


class Data(NamedTuple):
    """A data file and the columns it must have; none for a dataset class of the user's own."""

    path: str
    columns: tuple[str, ...] = (PROMPT, SOURCE, REWARD)
    prompt: str = PROMPT


class Directory(NamedTuple):
    """A directory that nodes write to, and the option or config key it comes from."""

    path: str
    key: str
    #: Must it be one storage for all nodes, or only be writable on each?
    shared: bool = True
    #: The run makes it where it is missing.
    may_be_made: bool = False
    #: Where checkpoints of all parameters go (not of adapters alone): needs space.
    checkpoints: bool = False


@dataclass(frozen=True)
class Needs:
    """Everything that the checks compare the cluster with. The default: a GPU cluster of any size."""

    #: ``cuda`` or ``cpu``; GPUs are checked for ``cuda`` only.
    device: str = "cuda"
    #: Nodes of the trainer and their GPUs; GPUs of all pools of the run together. None: not known.
    nodes: int | None = None
    gpus_per_node: int | None = None
    total_gpus: int | None = None
    vllm: bool = True
    models: tuple[Model, ...] = ()
    data: tuple[Data, ...] = ()
    #: Python files that the run loads by path.
    files: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ()
    #: Arguments that the run gives to ``ray.init``, without those that are null.
    ray_init: dict[str, Any] = field(default_factory=dict)

    @property
    def runtime_env(self) -> dict[str, Any]:
        """Environment of the run's workers."""
        environment = self.ray_init.get("runtime_env", {})
        if self.device != "cpu":
            return environment
        return {**environment, "env_vars": {"VERL_PLATFORM": "cpu", **environment.get("env_vars", {})}}


def compose_run(name: str, directory: Path | None, overrides: Sequence[str]) -> Any:
    """Compose a config of ``main_ppo``: ``--config-name``, ``--config-dir`` and overrides, as Hydra has them.

    Raises:
        Exception: Hydra's, for a config or override that is not right.
    """
    from hydra import compose, initialize_config_dir, initialize_config_module

    if directory is not None and (directory / f"{name.removesuffix('.yaml')}.yaml").is_file():
        # Hydra looks for the primary config in the first place only when it is asked from Python.
        with initialize_config_dir(str(directory.resolve()), version_base=None):
            return compose(name, [*overrides, f"hydra.searchpath=[pkg://{_VERL_CONFIGS}]"])
    more = [] if directory is None else [f"hydra.searchpath=['file://{directory.resolve()}']"]
    with initialize_config_module(_VERL_CONFIGS, version_base=None):
        return compose(name, [*overrides, *more])


def of_config(config: Any) -> Needs:
    """What a composed config of ``verl.trainer.main_ppo`` needs.

    Raises:
        omegaconf.errors.OmegaConfBaseException: where a value that is needed here is missing or cannot be resolved.
    """
    from omegaconf import OmegaConf

    trainer, rollout, actor = config.trainer, config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    reward, section = config.reward.reward_model, config.data
    pools = [trainer]
    if trainer.v1.trainer_mode == "separate_async":
        pools.append(rollout)
    if reward.enable and reward.enable_resource_pool:
        pools.append(reward)
    config_path, trusted = actor.hf_config_path or actor.path, bool(actor.trust_remote_code)
    models = [Model(actor.path, actor.tokenizer_path or actor.path, config_path, trusted)]
    if reward.enable and reward.model_path:
        models.append(Model(reward.model_path, reward.model_path, reward.model_path))
    columns = () if section.custom_cls.path else (section.prompt_key, section.reward_fn_key, REWARD)
    given = [[f] if isinstance(f, str) else list(f or ()) for f in (section.train_files, section.val_files)]
    files = dict.fromkeys(file for part in given for file in part)
    directories = []
    if trainer.save_freq > 0:
        key, whole = "trainer.default_local_dir", not actor.lora_rank
        directories.append(Directory(trainer.default_local_dir, key, may_be_made=True, checkpoints=whole))
    for key in _WRITTEN:
        if path := OmegaConf.select(config, key):
            directories.append(Directory(path, key, shared=False, may_be_made=True))
    return Needs(
        device=trainer.device,
        nodes=trainer.nnodes,
        gpus_per_node=trainer.n_gpus_per_node,
        total_gpus=sum(pool.nnodes * pool.n_gpus_per_node for pool in pools),
        vllm=rollout.name == "vllm",
        models=tuple(models),
        data=tuple(Data(path, columns, section.prompt_key) for path in files),
        files=tuple(filter(None, (config.reward.custom_reward_function.path, section.custom_cls.path))),
        directories=tuple(directories),
        ray_init=_without_nulls(OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)),
    )


def with_options(
    needs: Needs, paths: Iterable[str], models: Iterable[str], data: Iterable[str], nodes: int | None
) -> Needs:
    """Add what the command line names beside the config."""
    return replace(
        needs,
        device="cpu" if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu" else needs.device,
        nodes=nodes or needs.nodes,
        models=needs.models + tuple(Model(model, model, model) for model in models),
        data=needs.data + tuple(Data(path) for path in data),
        directories=needs.directories + tuple(Directory(path, "--path") for path in paths),
    )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value

"""What a run needs of a cluster: from options of the command, and from the run's own config."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

#: Columns that verl's dataset and its reward managers read (``RLHFDataset``, ``reward_manager/``).
PROMPT, SOURCE, REWARD = "prompt", "data_source", "reward_model"


@dataclass(frozen=True)
class Model:
    """A model to be loaded: a directory or a name on the hub, with the tokenizer's and the config's own places."""

    path: str
    tokenizer: str
    config: str
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Data:
    """A data file and the columns it must have; none for a dataset class of the user's own."""

    path: str
    columns: tuple[str, ...] = (PROMPT, SOURCE, REWARD)
    prompt: str = PROMPT


@dataclass(frozen=True)
class Directory:
    """A directory that every node writes to."""

    path: str
    #: The option or config key it comes from.
    key: str
    #: Must it be one storage for all nodes, or only be writable on each?
    shared: bool = True
    #: The run makes it where it is missing.
    may_be_made: bool = False
    #: Where checkpoints of all parameters go (not of adapters alone): needs space.
    checkpoints: bool = False


@dataclass(frozen=True)
class Expected:
    """Everything that the checks hold the cluster against. The default: a GPU cluster of any size."""

    #: ``cuda`` or ``cpu``; GPUs are checked for ``cuda`` only.
    device: str = "cuda"
    #: Nodes of the trainer and their GPUs; None: not known.
    nodes: int | None = None
    gpus_per_node: int | None = None
    #: GPUs of all pools of the run together.
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
        if self.device == "cpu":
            variables = {"VERL_PLATFORM": "cpu", **environment.get("env_vars", {})}
            return {**environment, "env_vars": variables}
        return environment


def of_config(config: Any) -> Expected:
    """What a composed config of ``verl.trainer.main_ppo`` needs.

    Raises:
        omegaconf.errors.OmegaConfBaseException: where a value that is needed here is missing or cannot be resolved.
    """
    trainer, rollout = config.trainer, config.actor_rollout_ref.rollout
    pools = [(trainer.nnodes, trainer.n_gpus_per_node)]
    if trainer.v1.trainer_mode == "separate_async":
        pools.append((rollout.nnodes, rollout.n_gpus_per_node))
    reward_model = config.reward.reward_model
    if reward_model.enable and reward_model.enable_resource_pool:
        pools.append((reward_model.nnodes, reward_model.n_gpus_per_node))
    return Expected(
        device=trainer.device,
        nodes=trainer.nnodes,
        gpus_per_node=trainer.n_gpus_per_node,
        total_gpus=sum(nodes * gpus for nodes, gpus in pools),
        vllm=rollout.name == "vllm",
        models=_models(config),
        data=_data(config.data),
        files=tuple(filter(None, (config.reward.custom_reward_function.path, config.data.custom_cls.path))),
        directories=_directories(config),
        ray_init=_without_nulls(config.ray_kwargs.ray_init),
    )


def with_options(
    expected: Expected, paths: Iterable[str], models: Iterable[str], data: Iterable[str], nodes: int | None
) -> Expected:
    """Add what the command line names beside the config."""
    return replace(
        expected,
        device="cpu" if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu" else expected.device,
        nodes=nodes or expected.nodes,
        models=expected.models + tuple(Model(model, model, model) for model in models),
        data=expected.data + tuple(Data(path) for path in data),
        directories=expected.directories + tuple(Directory(path, "--path") for path in paths),
    )


def _models(config: Any) -> tuple[Model, ...]:
    actor = config.actor_rollout_ref.model
    tokenizer, own_config = actor.tokenizer_path or actor.path, actor.hf_config_path or actor.path
    found = [Model(actor.path, tokenizer, own_config, bool(actor.trust_remote_code))]
    reward_model = config.reward.reward_model
    if reward_model.enable and reward_model.model_path:
        found.append(Model(reward_model.model_path, reward_model.model_path, reward_model.model_path))
    return tuple(found)


def _data(section: Any) -> tuple[Data, ...]:
    columns = () if section.custom_cls.path else (section.prompt_key, section.reward_fn_key, REWARD)
    found: list[str] = []
    for files in (section.train_files, section.val_files):
        found += [files] if isinstance(files, str) else list(files or ())
    return tuple(Data(path, columns, section.prompt_key) for path in dict.fromkeys(found))


def _directories(config: Any) -> tuple[Directory, ...]:
    found = []
    trainer = config.trainer
    if trainer.save_freq > 0:
        key, whole = "trainer.default_local_dir", not config.actor_rollout_ref.model.lora_rank
        found.append(Directory(trainer.default_local_dir, key, may_be_made=True, checkpoints=whole))
    written = {f"trainer.{key}": trainer.get(key) for key in ("rollout_data_dir", "validation_data_dir")}
    written["algorithm.subgroup.strategy.data_dir"] = (
        (config.algorithm.get("subgroup") or {}).get("strategy") or {}
    ).get("data_dir")
    for key, path in written.items():
        if path:
            # One process writes there, on whichever node Ray puts it.
            found.append(Directory(path, key, shared=False, may_be_made=True))
    return tuple(found)


def _without_nulls(section: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(inner) for key, inner in value.items() if inner is not None}
        return value

    return strip(OmegaConf.to_container(section, resolve=True))

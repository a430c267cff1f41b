"""The config of the verl run that generates samples: what an evaluation sets, and what is left to its user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.cluster.launch import hydra_quoted
from subgroup_offset.evaluation.plan import EvaluationError

MANAGER = "subgroup_offset.evaluation.rollout.EvaluationManager"
_ROLLOUT = "actor_rollout_ref.rollout"
#: Every start samples with seeds of its own: an engine's is this plus its number, and engines that begin alike draw the
#: same samples of the same problem again.
SEED_STRIDE = 10_000
_TRANSFER_QUEUE_SIZE = 100_000

#: Keys of :func:`fixed_settings` that have an option of the command.
_OPTIONS = {
    "actor_rollout_ref.model.path": "the checkpoint",
    "data.val_files": "--benchmark and --data-dir",
    "data.max_prompt_length": "--max-prompt-length",
    "data.max_response_length": "--max-response-length",
    f"{_ROLLOUT}.prompt_length": "--max-prompt-length",
    f"{_ROLLOUT}.response_length": "--max-response-length",
    f"{_ROLLOUT}.seed": "--seed",
    f"{_ROLLOUT}.val_kwargs.n": "--samples",
    f"{_ROLLOUT}.val_kwargs.temperature": "--temperature",
    f"{_ROLLOUT}.val_kwargs.do_sample": "--temperature",
    f"{_ROLLOUT}.val_kwargs.top_p": "--top-p",
    "evaluation.samples_dir": "--output",
}
#: Keys left to the user that change what the samples are; they are recorded with the evaluation.
_SHAPING = (
    f"{_ROLLOUT}.name",
    f"{_ROLLOUT}.dtype",
    f"{_ROLLOUT}.quantization",
    f"{_ROLLOUT}.max_model_len",
    f"{_ROLLOUT}.ignore_eos",
    f"{_ROLLOUT}.val_kwargs.top_k",
    f"{_ROLLOUT}.agent.default_agent_loop",
    "actor_rollout_ref.model.custom_chat_template",
    "data.apply_chat_template_kwargs",
)


@dataclass(frozen=True)
class Sampling:
    """How responses are sampled; the defaults are the paper's ("Evaluation Details"), but for the lengths.

    The paper gives no lengths for the evaluation: these are those of its training.
    """

    samples: int = 16
    #: 0 is greedy.
    temperature: float = 0.7
    top_p: float = 1.0
    #: Tokens. A longer prompt is refused, a longer response cut off and counted.
    max_prompt_length: int = 2048
    max_response_length: int = 20480
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise EvaluationError(f"--temperature {self.temperature:g} is negative: set it to 0 (greedy) or above.")
        if not 0 < self.top_p <= 1:
            raise EvaluationError(f"--top-p {self.top_p:g} is outside (0, 1]: set it to 1.0 to sample from everything.")


def fixed_settings(
    sampling: Sampling, start: int, model: Path, rows: Path, samples_dir: Path, total: int
) -> dict[str, Any]:
    """What an evaluation needs to be as it is.

    Args:
        sampling: see there.
        start: the number of this start, from 0.
        model: Hugging Face directory.
        rows: parquet file of :func:`~subgroup_offset.evaluation.plan.verl_rows`.
        samples_dir: where samples are written.
        total: their number.
    """
    return {
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.val_only": True,
        "trainer.val_before_train": True,
        # It would hold what the worker leaves verl, a token each.
        "trainer.validation_data_dir": None,
        "trainer.resume_mode": "disable",
        "algorithm.adv_estimator": "grpo",
        "algorithm.use_kl_in_reward": False,
        "actor_rollout_ref.actor.use_kl_loss": False,
        "reward.reward_model.enable": False,
        "actor_rollout_ref.model.path": str(model),
        "data.train_files": str(rows),
        "data.val_files": str(rows),
        "data.val_max_samples": -1,
        "data.validation_shuffle": False,
        "data.prompt_key": "prompt",
        # Prompts were measured before; verl would leave out the long ones without a word.
        "data.filter_overlong_prompts": False,
        "data.max_prompt_length": sampling.max_prompt_length,
        "data.max_response_length": sampling.max_response_length,
        f"{_ROLLOUT}.prompt_length": sampling.max_prompt_length,
        f"{_ROLLOUT}.response_length": sampling.max_response_length,
        f"{_ROLLOUT}.agent.agent_loop_manager_class": MANAGER,
        # With it all samples of a prompt would get one seed.
        f"{_ROLLOUT}.full_determinism": False,
        f"{_ROLLOUT}.seed": sampling.seed + SEED_STRIDE * start,
        f"{_ROLLOUT}.val_kwargs.n": sampling.samples,
        f"{_ROLLOUT}.val_kwargs.do_sample": sampling.temperature > 0,
        f"{_ROLLOUT}.val_kwargs.temperature": sampling.temperature,
        f"{_ROLLOUT}.val_kwargs.top_p": sampling.top_p,
        "evaluation.samples_dir": str(samples_dir),
        "transfer_queue.backend.SimpleStorage.total_storage_size": max(_TRANSFER_QUEUE_SIZE, 2 * total),
    }


def default_settings(sampling: Sampling) -> dict[str, Any]:
    """What an evaluation sets unless its user does: nothing that changes a sample."""
    return {
        # Nothing is trained, but verl plans for it.
        "trainer.total_training_steps": 1,
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        f"{_ROLLOUT}.max_model_len": sampling.max_prompt_length + sampling.max_response_length,
        "trainer.project_name": "subgroup_offset",
        "trainer.experiment_name": "evaluation",
        "trainer.logger": ["file"],
    }


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings as Hydra overrides; keys that verl does not know are added."""
    return [f"++{key}={_value(value)}" for key, value in settings.items()]


def compose_run(arguments: Sequence[str], fixed: Mapping[str, Any]) -> Any:
    """The whole config of the run.

    Args:
        arguments: all overrides.
        fixed: what they may not change.

    Raises:
        EvaluationError: for an override that Hydra refuses, or one that changes what is fixed.
    """
    from hydra import compose, initialize_config_module
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", overrides=list(arguments))
        found = {key: OmegaConf.select(config, key) for key in fixed}
    except (HydraException, OmegaConfBaseException) as error:
        raise EvaluationError(f"The overrides cannot be used: {' '.join(str(error).split())}") from None
    wrong = [key for key, value in fixed.items() if found[key] != value]
    if wrong:
        lines = [f"  {key}={found[key]}: {_fix(key)}" for key in wrong]
        raise EvaluationError("\n".join(["Overrides change what an evaluation sets:", *lines]))
    return config


def shaping_settings(config: Any) -> dict[str, Any]:
    """The settings left to the user that change what samples are, by key."""
    from omegaconf import OmegaConf

    values = {key: OmegaConf.select(config, key) for key in _SHAPING}
    return {key: OmegaConf.to_container(v, resolve=True) if OmegaConf.is_config(v) else v for key, v in values.items()}


def _fix(key: str) -> str:
    return f"use {_OPTIONS[key]}." if key in _OPTIONS else "leave it out."


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    return hydra_quoted(value) if isinstance(value, str) else repr(value)

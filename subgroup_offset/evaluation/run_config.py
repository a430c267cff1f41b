"""The config of a run that samples: what an evaluation sets, and what is left to its user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.cluster.launch import hydra_quoted
from subgroup_offset.evaluation.plan import EvaluationError

_ROLLOUT = "actor_rollout_ref.rollout"
#: Every start samples with seeds of its own: an engine's is this plus its number, and engines that begin alike draw the
#: same samples of the same problem again.
SEED_STRIDE = 10_000

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
        if not 0 < self.top_p <= 1:
            raise EvaluationError(f"--top-p {self.top_p:g} is outside (0, 1]: set it to 1.0 to sample from everything.")


def fixed_settings(
    sampling: Sampling, start: int, model: Path, requests: Path, samples_dir: Path
) -> dict[str, tuple[Any, str | None]]:
    """What an evaluation needs to be as it is: keys, their values, and the options that set them, if there are any.

    ``start`` is the number of this start, from 0, and ``model`` a Hugging Face directory.
    """
    prompt = (sampling.max_prompt_length, "--max-prompt-length")
    response = (sampling.max_response_length, "--max-response-length")
    return {
        "actor_rollout_ref.model.path": (str(model), "the checkpoint"),
        # In training an engine begins with random weights, and the trainer sends it others.
        f"{_ROLLOUT}.load_format": ("auto", None),
        # With it all samples of a prompt would get one seed.
        f"{_ROLLOUT}.full_determinism": (False, None),
        f"{_ROLLOUT}.seed": (sampling.seed + SEED_STRIDE * start, "--seed"),
        "data.max_prompt_length": prompt,
        "data.max_response_length": response,
        f"{_ROLLOUT}.prompt_length": prompt,
        f"{_ROLLOUT}.response_length": response,
        f"{_ROLLOUT}.val_kwargs.n": (sampling.samples, "--samples"),
        f"{_ROLLOUT}.val_kwargs.temperature": (sampling.temperature, "--temperature"),
        f"{_ROLLOUT}.val_kwargs.top_p": (sampling.top_p, "--top-p"),
        "reward.reward_model.enable": (False, None),
        "evaluation.requests": (str(requests), None),
        "evaluation.samples_dir": (str(samples_dir), "--output"),
    }


def compose_run(
    sampling: Sampling, fixed: Mapping[str, tuple[Any, str | None]], user: Sequence[str]
) -> tuple[Any, list[str]]:
    """The whole config of the run, and the overrides that make it: the user's may change what is not fixed.

    Raises:
        EvaluationError: for an override that Hydra refuses, or one that changes what is fixed.
    """
    from hydra import compose, initialize_config_module
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    context = sampling.max_prompt_length + sampling.max_response_length
    values = {f"{_ROLLOUT}.max_model_len": context, **{key: value for key, (value, _) in fixed.items()}}
    arguments = [f"++{key}={hydra_quoted(v) if isinstance(v, str) else v}" for key, v in values.items()] + list(user)
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", overrides=arguments)
        found = {key: OmegaConf.select(config, key) for key in fixed}
    except (HydraException, OmegaConfBaseException) as error:
        raise EvaluationError(f"The overrides cannot be used: {' '.join(str(error).split())}") from None
    lines = [
        f"\n  {key}={found[key]}: {f'use {option}' if option else 'leave it out'}."
        for key, (value, option) in fixed.items()
        if found[key] != value
    ]
    if lines:
        raise EvaluationError(f"Overrides change what an evaluation sets:{''.join(lines)}")
    rollout, trainer = config.actor_rollout_ref.rollout, config.trainer
    names = [f"{kind}_parallel_size" for kind in ("tensor_model", "pipeline_model", "data")]
    sizes = {name: rollout[name] for name in names}
    if math.prod(sizes.values()) > trainer.nnodes * trainer.n_gpus_per_node:
        product = " x ".join(f"{_ROLLOUT}.{name}={size}" for name, size in sizes.items())
        raise EvaluationError(
            f"An engine, which takes {product} GPUs, has no room on trainer.nnodes={trainer.nnodes} x "
            f"trainer.n_gpus_per_node={trainer.n_gpus_per_node}: correct one of them."
        )
    return config, arguments


def shaping_settings(config: Any) -> dict[str, Any]:
    """The settings left to the user that change what samples are, by key."""
    from omegaconf import OmegaConf

    values = {key: OmegaConf.select(config, key) for key in _SHAPING}
    return {key: OmegaConf.to_container(v, resolve=True) if OmegaConf.is_config(v) else v for key, v in values.items()}

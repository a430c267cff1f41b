"""Configuration of the method: everything under ``algorithm.subgroup``.

verl hands an estimator ``config.algorithm`` as it is, while unknown keys under ``actor_rollout_ref.rollout`` raise, so
the estimator's and the rollout's settings live together here. They are read and validated once, by
:meth:`SubgroupConfig.from_algorithm`, on the driver before any accelerator is touched.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

logger = logging.getLogger(__name__)

STD_CHOICES = ("sample", "population", "none")
SAMPLING_CHOICES = ("independent",)
SELECTION_CHOICES = ("diverse", "random")
ESTIMATOR_NAME = "grpo_subgroup"

_warned: set[str] = set()


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the key, the value and the fix."""


@dataclass(frozen=True)
class StrategyConfig:
    """``algorithm.subgroup.strategy``: the strategy stage (paper, appendix "Strategy sampling" and Table 5)."""

    #: K, strategies per prompt. ``rollout.n`` must equal ``num_strategies * rollouts_per_strategy``.
    num_strategies: int = 4
    #: Z, rollouts conditioned on each strategy.
    rollouts_per_strategy: int = 8
    #: Previews sampled per prompt before K are selected; at least K.
    num_candidates: int = 8
    #: How candidates are drawn: ``independent`` draws each on its own.
    sampling: str = "independent"
    #: Which usable previews are kept: ``diverse`` (greedy maximum Jaccard distance) or ``random`` (Table 4).
    selection: str = "diverse"
    #: Sampling temperature of the strategy stage.
    temperature: float = 1.0
    #: Nucleus mass of the strategy stage, in (0, 1].
    top_p: float = 1.0
    #: Generated tokens per candidate, at most.
    max_tokens: int = 256
    #: Jinja2 template of the strategy stage (variable ``problem``): inline text, a file's path, or null: the built-in.
    strategy_template: str | None = None
    #: Jinja2 template of the execution stage (``problem``, ``preview``): inline text, a path, or null: the built-in.
    execution_template: str | None = None

    def __post_init__(self) -> None:
        key = "algorithm.subgroup.strategy"
        for name in ("num_strategies", "rollouts_per_strategy", "num_candidates", "max_tokens"):
            _require_int(f"{key}.{name}", getattr(self, name), minimum=1)
        if self.num_candidates < self.num_strategies:
            raise ConfigError(
                f"{key}.num_candidates={self.num_candidates} is less than {key}.num_strategies={self.num_strategies}: "
                f"set num_candidates to at least {self.num_strategies} (the paper draws 8 and keeps 4)."
            )
        _require_choice(f"{key}.sampling", self.sampling, SAMPLING_CHOICES)
        _require_choice(f"{key}.selection", self.selection, SELECTION_CHOICES)
        temperature = _require_number(f"{key}.temperature", self.temperature)
        if temperature < 0:
            raise ConfigError(f"{key}.temperature={self.temperature!r} is negative: set it to 0 (greedy) or above.")
        top_p = _require_number(f"{key}.top_p", self.top_p)
        if not 0 < top_p <= 1:
            raise ConfigError(f"{key}.top_p={self.top_p!r} is outside (0, 1]: set it to 1.0 to sample from everything.")
        for name in ("strategy_template", "execution_template"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"{key}.{name}={value!r} is not text: give a file's path or the template itself.")

    @property
    def rollouts_per_prompt(self) -> int:
        """N = K * Z, which ``actor_rollout_ref.rollout.n`` must equal."""
        return self.num_strategies * self.rollouts_per_strategy


@dataclass(frozen=True)
class SubgroupConfig:
    """``algorithm.subgroup``: the estimator's settings (paper, Eq. 6 and 7) and those of the strategy stage."""

    #: Signed coefficient of the offset. Above 0: Alignment; below 0: Contrast; 0: GRPO on the same rollouts.
    lam: float = 0.0
    #: What divides the advantage: ``sample`` (verl's own, ddof 1), ``population`` (ddof 0) or ``none`` (Dr.GRPO).
    std: str = "sample"
    #: Ablation of Table 3: each subgroup is given the offset of another subgroup of its prompt.
    shuffle_offsets: bool = False
    #: Seed of the offset shuffling and of random selection.
    seed: int = 0
    strategy: StrategyConfig = field(default_factory=StrategyConfig)

    def __post_init__(self) -> None:
        lam = _require_number("algorithm.subgroup.lam", self.lam)
        if abs(lam) > 1:
            _warn_once(
                f"algorithm.subgroup.lam={lam:g} is outside [-1, 1]: the offset outweighs the reward of the rollout "
                "itself (the paper's best values are -0.3 and 0.3)."
            )
        _require_choice("algorithm.subgroup.std", self.std, STD_CHOICES)
        if not isinstance(self.shuffle_offsets, bool):
            raise ConfigError(
                f"algorithm.subgroup.shuffle_offsets={self.shuffle_offsets!r} is neither true nor false: set it to one."
            )
        _require_int("algorithm.subgroup.seed", self.seed)

    @classmethod
    def from_algorithm(cls, algorithm: Mapping[str, Any] | None) -> SubgroupConfig:
        """Read ``config.algorithm`` of a verl run.

        Args:
            algorithm: verl's ``config.algorithm`` (a DictConfig, an ``AlgoConfig``, a plain dict) or None, which gives
                the defaults.

        Returns:
            The validated settings. ``norm_adv_by_std_in_grpo=False`` gives ``std="none"``.

        Raises:
            ConfigError: for an unknown key (the nearest known one is named) or a value that cannot be used.
        """
        if algorithm is None:
            return cls()
        gae_lam = algorithm.get("lam", 1.0)
        if algorithm.get("adv_estimator") == ESTIMATOR_NAME and gae_lam is not None and float(gae_lam) != 1.0:
            _warn_once(
                f"algorithm.lam={gae_lam} is GAE's lambda and does nothing with {ESTIMATOR_NAME}: "
                f"algorithm.subgroup.lam={gae_lam} was probably meant."
            )
        section = _plain(algorithm.get("subgroup"), "algorithm.subgroup")
        if not algorithm.get("norm_adv_by_std_in_grpo", True):
            if section.get("std", "none") == "population":
                raise ConfigError(
                    "algorithm.norm_adv_by_std_in_grpo=False contradicts algorithm.subgroup.std=population: "
                    "set the former to True, or the latter to none."
                )
            section["std"] = "none"
        return _build(cls, section, "algorithm.subgroup")


def _build(cls: type, section: dict[str, Any], path: str) -> Any:
    """Make a dataclass from a plain dict, going down into nested ones; unknown keys raise."""
    known = {f.name: f for f in fields(cls)}
    for key in section:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{path}.{key}={section[key]!r} is not a known setting: did you mean {path}.{nearest}?")
    values = dict(section)
    if cls is SubgroupConfig and "strategy" in values:
        nested = f"{path}.strategy"
        values["strategy"] = _build(StrategyConfig, _plain(values["strategy"], nested), nested)
    return cls(**values)


def _plain(section: Any, path: str) -> dict[str, Any]:
    """A section as a plain dict; OmegaConf interpolations are resolved."""
    if section is None:
        return {}
    if hasattr(section, "_metadata"):  # an OmegaConf container; imported only when one is there
        from omegaconf import OmegaConf

        section = OmegaConf.to_container(section, resolve=True)
    if isinstance(section, Mapping):
        return dict(section)
    raise ConfigError(f"{path}={section!r} is not a mapping: write its settings as {path}.<name>=<value>.")


def _require_number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{key}={value!r} is not a finite number: set it to one, for example {key}=0.3.")
    return float(value)


def _require_int(key: str, value: Any, minimum: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{key}={value!r} is not a whole number: set it to one, for example {key}=4.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{key}={value} is too small: set it to {minimum} or above.")


def _require_choice(key: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        nearest = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.0)[0]
        raise ConfigError(f"{key}={value!r} is unknown: use one of {', '.join(choices)} (nearest: {nearest}).")


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning(message)

"""Configuration of the method: everything under ``algorithm.subgroup``.

verl hands an estimator ``config.algorithm`` as it is, while unknown keys under ``actor_rollout_ref.rollout`` raise, so
the estimator's and the rollout's settings live together here. They are read and validated once, by
:meth:`SubgroupConfig.from_algorithm`, on the driver before any accelerator is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from subgroup_offset.lam import parse_lam
from subgroup_offset.logs import WarnOnce
from subgroup_offset.nearest import nearest
from subgroup_offset.settings import (
    ConfigError,
    plain,
    require_bool,
    require_choice,
    require_int,
    require_number,
    require_text,
)
from subgroup_offset.slots import slot_sizes

if TYPE_CHECKING:
    from subgroup_offset.methods.base import Method

logger = logging.getLogger(__name__)

STD_CHOICES = ("sample", "population", "none")
SAMPLING_CHOICES = ("independent", "paired")
SELECTION_CHOICES = ("diverse", "random")
AFFINITY_CHOICES = ("prompt", "subgroup", "none")
CONTEXT_CHOICES = ("sampled", "plain")
SHRINKAGE_CHOICES = ("none", "batch")
CHECKS_CHOICES = ("error", "warn", "off")
ESTIMATOR_NAME = "grpo_subgroup"

_warn_once = WarnOnce(logger)


@dataclass(frozen=True)
class StrategyConfig:
    """``algorithm.subgroup.strategy``: the strategy stage (paper, appendix "Strategy sampling" and Table 5)."""

    #: K, strategies per prompt; even for paired sampling.
    num_strategies: int = 4
    #: Z, rollouts conditioned on each strategy: ``rollout.n`` must then be ``num_strategies`` times as many. null:
    #: ``rollout.n`` is spread over the strategies as evenly as it goes (``slots.py``).
    rollouts_per_strategy: int | None = None
    #: Strategy-stage calls per prompt, from whose previews K are selected: at least K, or K/2 for paired sampling.
    num_candidates: int = 8
    #: How candidates are drawn: ``independent``, one preview a call, or ``paired``, two deliberately different previews
    #: a call, of which K/2 pairs with both halves usable are kept, halves in adjacent slots (for models whose
    #: independent previews are all alike).
    sampling: str = "independent"
    #: Which usable previews are kept: ``diverse`` (greedy maximum Jaccard distance) or ``random`` (Table 4).
    selection: str = "diverse"
    #: Drop a preview (or pair) equal to an earlier one of the prompt, and a pair of equal halves, before selection, so
    #: that no strategy holds two slots. Off as in the paper; ``strategy/duplicate_previews`` counts them either way.
    deduplicate: bool = False
    #: Slots without a preview run the plain prompt: all as one subgroup, since they are one population (true), or each
    #: as a subgroup of its own (false), between which only noise differs.
    merge_empty: bool = True
    #: Least share of a step's slots, in [0, 1], that should have a preview: a step below it is warned about; 0 warns
    #: never.
    min_preview_share: float = 0.25
    #: After so many such steps in a row the run stops, because lam then acts on next to nothing; null: it goes on.
    max_low_preview_steps: int | None = 3
    #: Sampling temperature of the strategy stage.
    temperature: float = 1.0
    #: Nucleus mass of the strategy stage, in (0, 1].
    top_p: float = 1.0
    #: Generated tokens per call, at most. In paired sampling both previews share them (the paper's cap is 256 as well).
    max_tokens: int = 256
    #: Which requests go to one vLLM replica, so that they find their common prefix in its cache: all of a ``prompt``,
    #: those of each ``subgroup`` (and the strategy stage), or ``none``: each to the least loaded. Without effect under
    #: ``rollout.full_determinism``, where verl's own request ids must stay.
    affinity: str = "prompt"
    #: Directory for one JSONL file a step that says what the strategy stage did with each prompt
    #: (``subgroup-offset inspect`` shows it), written by the driver; null writes none.
    data_dir: str | None = None
    #: Jinja2 template of the strategy stage: inline text, a file's path, or null: the built-in. Variable ``problem``:
    #: the problem without the answer-format instructions that are recognised around it.
    strategy_template: str | None = None
    #: The same for paired sampling; variables ``problem`` and ``marker``, the line that parts the two previews.
    paired_template: str | None = None
    #: Jinja2 template of the execution stage, likewise. Variables ``problem``, here the dataset's whole text, and
    #: ``preview``.
    execution_template: str | None = None

    def __post_init__(self) -> None:
        key = "algorithm.subgroup.strategy"
        for name in ("num_strategies", "num_candidates", "max_tokens"):
            require_int(f"{key}.{name}", getattr(self, name), minimum=1)
        for name in ("rollouts_per_strategy", "max_low_preview_steps"):
            if getattr(self, name) is not None:
                require_int(f"{key}.{name}", getattr(self, name), minimum=1)
        share = require_number(f"{key}.min_preview_share", self.min_preview_share)
        if not 0 <= share <= 1:
            raise ConfigError(
                f"{key}.min_preview_share={self.min_preview_share!r} is no share: set it within [0, 1]; 0 warns never."
            )
        require_choice(f"{key}.sampling", self.sampling, SAMPLING_CHOICES)
        if self.paired and self.num_strategies % 2:
            raise ConfigError(
                f"{key}.num_strategies={self.num_strategies} is odd, but {key}.sampling=paired fills two slots with "
                f"each pair: set num_strategies to {self.num_strategies + 1}, or sampling to independent."
            )
        if self.num_candidates < self.calls_needed:
            what = "half of it, the pairs to keep" if self.paired else "the previews to keep"
            raise ConfigError(
                f"{key}.num_candidates={self.num_candidates} is less than {key}.num_strategies={self.num_strategies} "
                f"asks for ({what}): set num_candidates to at least {self.calls_needed} (the paper draws 8)."
            )
        require_choice(f"{key}.selection", self.selection, SELECTION_CHOICES)
        require_choice(f"{key}.affinity", self.affinity, AFFINITY_CHOICES)
        for name in ("deduplicate", "merge_empty"):
            require_bool(f"{key}.{name}", getattr(self, name))
        temperature = require_number(f"{key}.temperature", self.temperature)
        if temperature < 0:
            raise ConfigError(f"{key}.temperature={self.temperature!r} is negative: set it to 0 (greedy) or above.")
        top_p = require_number(f"{key}.top_p", self.top_p)
        if not 0 < top_p <= 1:
            raise ConfigError(f"{key}.top_p={self.top_p!r} is outside (0, 1]: set it to 1.0 to sample from everything.")
        for name in ("strategy_template", "paired_template", "execution_template"):
            require_text(f"{key}.{name}", getattr(self, name), "a file's path or the template itself")
        require_text(f"{key}.data_dir", self.data_dir, "a directory")

    @property
    def paired(self) -> bool:
        """Whether a call asks for two previews."""
        return self.sampling == "paired"

    @property
    def calls_needed(self) -> int:
        """Usable calls that fill all slots: K, or K/2 pairs."""
        return self.num_strategies // 2 if self.paired else self.num_strategies

    def slot_sizes(self, n: int) -> tuple[int, ...]:
        """How many of a prompt's n rollouts each slot gets, first slot first: see ``slots.py``."""
        return slot_sizes(n, self.num_strategies, self.rollouts_per_strategy, step=2 if self.paired else 1)


@dataclass(frozen=True)
class SubgroupConfig:
    """``algorithm.subgroup``: the estimator's settings (paper, Eq. 6 and 7) and those of the strategy stage."""

    #: Signed coefficient of the offset. Above 0: Alignment; below 0: Contrast; 0: GRPO on the same rollouts. Or a rule
    #: that makes a number of every step: ``auto``, or ``{budget: 0.05}`` (see ``lam.py``).
    lam: float | str | Mapping[str, float] = 0.0
    #: What divides the advantage: ``sample`` (verl's own, ddof 1), ``population`` (ddof 0) or ``none`` (Dr.GRPO).
    std: str = "sample"
    #: Ablation of Table 3: each subgroup is given the offset of another subgroup of its prompt.
    shuffle_offsets: bool = False
    #: ``batch``: every offset times its reliability (``methods/reliability.py``), so that lam acts on what is no noise.
    #: ``none``: as it is, as in the paper.
    offset_shrinkage: str = "none"
    #: The prompt that rollouts with a preview are trained under: the one they were ``sampled`` from, as in the paper,
    #: or the ``plain`` one, which is the one that is evaluated. ``method.oc_grpo`` needs and sets the latter.
    context: str = "sampled"
    #: Methods of other papers, ``{name: {setting: value}}``, alone or together (docs/methods.md).
    method: Mapping[str, Any] = field(default_factory=dict)
    #: Seed of the offset shuffling and of random selection.
    seed: int = 0
    #: What makes the subgroups: ``strategy`` (two-stage rollouts), or a partition of single-stage rollouts: ``field``,
    #: ``length``, ``turns``, ``answer``, ``none`` (see ``partition.py``), or the dotted path of a class of your own.
    partition: str = "strategy"
    #: Of ``partition: field``: a dataset column, or a field that the agent loop or the reward returns.
    partition_field: str | None = None
    #: Of ``partition: length`` and ``turns``: quantile buckets inside the prompt's group, at least 2.
    partition_buckets: int = 2
    #: What to do about settings of verl's own that it accepts and ignores: ``error``, ``warn`` or ``off``. Settings
    #: under ``algorithm.subgroup`` that cannot be used are errors whatever this is.
    checks: str = "warn"
    #: What these settings are called in a run's name and in reports (the configs' names). Changes nothing else.
    name: str | None = None
    strategy: StrategyConfig = field(default_factory=StrategyConfig)

    def __post_init__(self) -> None:
        lam = parse_lam(self.lam)
        if isinstance(lam, float) and abs(lam) > 1:
            _warn_once(
                ("subgroup.lam", lam),
                f"algorithm.subgroup.lam={lam:g} is outside [-1, 1]: the offset outweighs the reward of the rollout "
                "itself (the paper's best values are -0.3 and 0.3).",
            )
        require_choice("algorithm.subgroup.offset_shrinkage", self.offset_shrinkage, SHRINKAGE_CHOICES)
        require_choice("algorithm.subgroup.context", self.context, CONTEXT_CHOICES)
        require_choice("algorithm.subgroup.std", self.std, STD_CHOICES)
        if self.checks is False:  # what YAML makes of `off`
            object.__setattr__(self, "checks", "off")
        require_choice("algorithm.subgroup.checks", self.checks, CHECKS_CHOICES)
        require_bool("algorithm.subgroup.shuffle_offsets", self.shuffle_offsets)
        require_int("algorithm.subgroup.seed", self.seed)
        require_int("algorithm.subgroup.partition_buckets", self.partition_buckets, minimum=2)
        require_text("algorithm.subgroup.name", self.name, "what the run is called")
        require_text("algorithm.subgroup.partition_field", self.partition_field, "the field's name")
        if not isinstance(self.partition, str):
            raise ConfigError(f"algorithm.subgroup.partition={self.partition!r} is not a name: use strategy, for one.")

    @property
    def two_stage(self) -> bool:
        """Whether strategies make the subgroups."""
        return self.partition == "strategy"

    @property
    def plain_context(self) -> bool:
        """Whether rollouts with a preview are trained under the plain prompt."""
        return self.two_stage and (self.context == "plain" or "oc_grpo" in self.method)

    def methods(self) -> dict[str, Method]:
        """The configured methods, by name; their settings are known to be right."""
        from subgroup_offset.methods import make_methods

        return make_methods(self.method)

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
                ("lam", gae_lam),
                f"algorithm.lam={gae_lam} is GAE's lambda and does nothing with {ESTIMATOR_NAME}: "
                f"algorithm.subgroup.lam={gae_lam} was probably meant.",
            )
        section = plain(algorithm.get("subgroup"), "algorithm.subgroup")
        std = section.get("std", "sample")  # the default is what the composed config says of itself
        std_key = None if std == "sample" else f"algorithm.subgroup.std={std}"
        if not algorithm.get("norm_adv_by_std_in_grpo", True):
            if section.get("std", "none") == "population":
                raise ConfigError(
                    "algorithm.norm_adv_by_std_in_grpo=False contradicts algorithm.subgroup.std=population: "
                    "set the former to True, or the latter to none."
                )
            section["std"], std_key = "none", "algorithm.norm_adv_by_std_in_grpo=False"
        config: SubgroupConfig = _build(cls, section, "algorithm.subgroup")
        if config.method:
            from subgroup_offset.methods.compose import check_together

            check_together(config.methods(), config.lam, std_key)
        return config


def _build(cls: type, section: dict[str, Any], path: str) -> Any:
    """Make a dataclass from a plain dict, going down into nested ones; unknown keys raise."""
    known = {f.name: f for f in fields(cls)}
    for key in section:
        if key not in known:
            raise ConfigError(f"{path}.{key}={section[key]!r} is not a known setting: {_meant(str(key), list(known))}")
    values = dict(section)
    if cls is SubgroupConfig:
        values["method"] = plain(values.get("method"), f"{path}.method")
    if cls is SubgroupConfig and "strategy" in values:
        nested = f"{path}.strategy"
        values["strategy"] = _build(StrategyConfig, plain(values["strategy"], nested), nested)
    return cls(**values)


def _meant(key: str, here: list[str]) -> str:
    """Which setting was meant, wherever under ``algorithm.subgroup`` it is; where none is like it, what there is."""
    places = {f.name: "algorithm.subgroup" for f in fields(SubgroupConfig)}
    places |= {f.name: "algorithm.subgroup.strategy" for f in fields(StrategyConfig)}
    if found := nearest(key, places):
        return f"did you mean {' or '.join(f'{places[name]}.{name}' for name in found)}?"
    return f"use one of {', '.join(here)} (documented in subgroup_offset/config.py)."

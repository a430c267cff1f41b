"""What a run trained: the method's name from its composed config, in the paper's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from subgroup_offset.config import ESTIMATOR_NAME
from subgroup_offset.reports.settings import SUBGROUP, Settings, shown, subgroup_defaults

LAM = f"{SUBGROUP}.lam"
METHOD = f"{SUBGROUP}.method"
SHUFFLE = f"{SUBGROUP}.shuffle_offsets"
STRATEGY = f"{SUBGROUP}.strategy."
MANAGER = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
MODEL = "actor_rollout_ref.model.path"
# Last parts of a path that name no model: it is their parent that does.
_PLAIN_NAMES = {"model", "huggingface", "hf", "actor"}

# Configs of this package whose runs are called by their settings: a sweep over lam keeps the name it began with.
_PAPERS = re.compile(
    "grpo|grpo_labelled|strategy_grpo|(alignment|contrast)(_random_selection|_shuffled|_temperature_07)?"
)

#: In the order of the paper's Table 1, then what it does not have.
DIRECTIONS = ("grpo", "anchor", "alignment", "contrast", "method", "other")


@dataclass(frozen=True)
class Method:
    """A method. Two runs of one method may still differ in other settings."""

    #: One of :data:`DIRECTIONS`: plain GRPO, lam = 0, above 0, below 0, methods of other papers or with a name of one's
    #: own; ``other``: another estimator, a lam that is no number, or no config.
    direction: str
    #: What it is called in tables.
    label: str
    #: None where there are no subgroups, or no config.
    lam: float | None
    shuffled: bool = False

    @property
    def strategy_based(self) -> bool:
        """Whether there are subgroups whose offset the baseline takes in."""
        return self.lam is not None


def method_of(settings: Settings | None, fallback: str) -> Method:
    """The method that a config makes, and what it is called.

    The estimator, the agent loop manager, ``lam``, the partition and the settings of the strategy stage decide. Methods
    of other papers, and those with an own ``algorithm.subgroup.name``, are called by that name, else by the methods.

    Args:
        settings: the config; None where there is none.
        fallback: what to call a run without a config.
    """
    estimator = settings and settings.get("algorithm.adv_estimator")
    if settings is None or (estimator is None and LAM not in settings.values):
        return Method("other", fallback, None)
    if estimator not in (ESTIMATOR_NAME, None):
        return Method("grpo" if estimator == "grpo" else "other", _foreign_label(settings, str(estimator)), None)
    name, partition = _own_name(settings), settings.get(f"{SUBGROUP}.partition", "strategy")
    if partition == "none" or (partition == "strategy" and estimator and not settings.get(MANAGER)):
        return Method("method", name, None) if name else Method("grpo", _plain_label(settings), None)
    lam = settings.get(LAM, 0.0)
    rule = [
        f"{key.removeprefix(f'{LAM}.')}={shown(value)}" for key, value in settings.values.items() if _below(key, LAM)
    ]
    if rule or not isinstance(lam, int | float):  # or an interpolation that this machine cannot resolve
        return Method("other", f"{name or fallback} (lam={', '.join(rule) or lam})", None)
    lam = float(lam)
    direction = "anchor" if lam == 0 else "alignment" if lam > 0 else "contrast"
    if name:
        label = f"{name}, lam={lam_text(lam)}" if lam else name
    else:
        label = f"{direction} (lam={lam_text(lam)})" if lam else "strategy_grpo"
    label = " ".join([label, *_partition(settings, partition), *_variants(settings)])
    return Method("method" if name else direction, label, lam, bool(settings.get(SHUFFLE, False)) and lam != 0)


def _own_name(settings: Settings) -> str:
    """A name that is not the paper's; else the methods of other papers, sorted; empty if there is neither."""
    name = str(settings.get(f"{SUBGROUP}.name", ""))
    own = name if not _PAPERS.fullmatch(name) else ""
    return own or "+".join(sorted(family_of(settings)))


def family_of(settings: Settings) -> set[str]:
    """The names under ``algorithm.subgroup.method``."""
    return {key.removeprefix(f"{METHOD}.").split(".")[0] for key in settings.values if _below(key, METHOD)}


def _below(key: str, section: str) -> bool:
    return key.startswith(f"{section}.")


def lam_text(lam: float) -> str:
    """``+0.3``, ``-0.3``, ``0``."""
    return f"{lam:+g}" if lam else "0"


def model_name(path: object) -> str:
    """A model's short name from its path or its name on the hub."""
    parts = [part for part in str(path).split("/") if part]
    if not parts:
        return str(path)
    count = 2 if len(parts) > 1 and (parts[-1] in _PLAIN_NAMES or parts[-1].startswith("global_step_")) else 1
    if "snapshots" in parts and (hub := [part for part in parts if part.startswith("models--")]):
        return hub[-1].removeprefix("models--").replace("--", "/")
    return "/".join(parts[-count:])


def _plain_label(settings: Settings) -> str:
    lam = settings.get(LAM, 0.0)
    return f"grpo (lam={shown(lam)} without subgroups)" if lam else "grpo"


def _foreign_label(settings: Settings, estimator: str) -> str:
    return f"{estimator} on strategy rollouts" if settings.get(MANAGER) else estimator


def _partition(settings: Settings, partition: str) -> list[str]:
    if partition == "strategy":
        return []
    field = settings.get(f"{SUBGROUP}.partition_field")
    return [f"by {partition}" if partition != "field" else f"by field {field}"]


def _variants(settings: Settings) -> list[str]:
    """What departs from the defaults in the ways of the paper's Tables 3 and 4."""
    parts = []
    if settings.get(SHUFFLE, False):
        parts.append("+ shuffle")
    for key, text in ((f"{STRATEGY}temperature", "+ T={}"), (f"{STRATEGY}selection", "+ {}")):
        default = subgroup_defaults()[key]
        if (value := settings.get(key, default)) != default:
            parts.append(text.format(shown(value)))
    return parts

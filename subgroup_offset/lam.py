"""``algorithm.subgroup.lam``: a number, or a rule by which every step's number follows from its offsets' reliability.

Both rules take B, the reliability (`methods/reliability.py`), as its running mean over steps. Our own; the paper's lam
is a constant. B is between 0, where lam has nothing to act on, and 1.

- ``auto``: lam = B, which minimises the variance of the advantages: an Alignment as strong as the offsets are real.
- ``{budget: v}``: the Contrast that raises that variance by the share v: lam = B - sqrt(B^2 + v / D), where
  D = E (mu_k - mu_g)^2 / E (r - mu_g)^2 of the batch, both means without the row's own reward.

A run that is resumed begins its running mean anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from subgroup_offset.settings import ConfigError, require_number

KEY = "algorithm.subgroup.lam"
#: Weight of the earlier steps in the running mean.
MEMORY = 0.9


@dataclass(slots=True)
class LamRule:
    """A lam that follows the steps' reliability.

    Attributes:
        budget: v, None for ``auto``.
        mean: the running mean of B so far.
    """

    budget: float | None
    mean: float | None = None

    def step(self, reliability: float | None, share: float) -> float:
        """The lam of a step with this B (None: it could not be told) and this D; 0 where there is nothing to go by."""
        if reliability is not None:
            self.mean = reliability if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * reliability
        if self.mean is None:
            return 0.0
        if self.budget is None:
            return self.mean
        return self.mean - (self.mean**2 + self.budget / share) ** 0.5 if share > 0 else 0.0


def parse_lam(value: Any) -> float | LamRule:
    """The number, or a rule that has seen no step yet.

    Raises:
        ConfigError: the value is neither.
    """
    if value == "auto":
        return LamRule(None)
    if isinstance(value, Mapping):
        if set(value) != {"budget"} or require_number(f"{KEY}.budget", value["budget"]) <= 0:
            raise ConfigError(
                f"{KEY}={dict(value)!r} is no rule: write {{budget: 0.05}}, the share by which Contrast may raise the "
                "variance of the advantages, above 0."
            )
        return LamRule(float(value["budget"]))
    if isinstance(value, str):
        raise ConfigError(f"{KEY}={value!r} is not a finite number: set it to one, to auto, or to {{budget: 0.05}}.")
    return require_number(KEY, value)


def lam_text(value: Any) -> str:
    """As people read it: ``-0.3``, ``auto``, ``budget 0.05``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part:g}" for name, part in value.items())
    return value if isinstance(value, str) else f"{value:g}"

"""SignBalance: right and wrong rollouts of a prompt weigh the same, however rare either is (arXiv 2609.04063).

With n+ right and n- wrong of k rollouts, p = n+ / k and the verdict s::

    A_i = C                for the right ones             = C * (s - p) / (1 - p)
    A_i = -C * n+ / n-     for the wrong ones

which sums to 0 over the group. The paper's text calls that a property of the batch; its algorithm balances within a
group, and so do we. `mode: sign` is A = C or -C without the balance, `per_class` C * (s - p) / (2 p (1 - p)), each side
divided by its own size: the paper's ablations, the second in a normalisation of ours.

When it degenerates:

- All wrong: 0. All right: the algorithm read literally gives C, a push on solved prompts that nothing clips; here 0, as
  GRPO has it. `solved: positive` is the literal one, with its rows counted.
- One wrong rollout in k: its advantage is -C * (k - 1), the heaviest of any method; `max_negative` may bound it.
- With lam, the offset has the same scale: lam * delta * C / (1 - p), in verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from subgroup_offset.methods.base import Method
from subgroup_offset.methods.groups import GroupView
from subgroup_offset.settings import ConfigError, require_choice, require_number

_KEY = "algorithm.subgroup.method.signbalance"


@dataclass(frozen=True)
class SignBalance(Method):
    """Slot scale; for ``mode: sign`` the baseline, too, and credit for ``solved: positive``."""

    on_verdicts: ClassVar[bool] = True
    logs: ClassVar[tuple[str, ...]] = ("signbalance/heaviest_max", "signbalance/rows_solved")
    #: C, the advantage of a right rollout.
    magnitude: float = 1.0
    #: ``balanced``, or one of the ablations ``sign`` and ``per_class``.
    mode: str = "balanced"
    #: What a prompt gets that every rollout solved: ``zero`` or ``positive``.
    solved: str = "zero"
    #: Largest |A| of a wrong rollout; null as in the paper.
    max_negative: float | None = None

    def __post_init__(self) -> None:
        for name in ("magnitude", "max_negative"):
            value = getattr(self, name)
            if not (name == "max_negative" and value is None) and require_number(f"{_KEY}.{name}", value) <= 0:
                raise ConfigError(f"{_KEY}.{name}={value} is not above 0: set it to 1.0, for one.")
        require_choice(f"{_KEY}.mode", self.mode, ("balanced", "sign", "per_class"))
        require_choice(f"{_KEY}.solved", self.solved, ("zero", "positive"))

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that these settings fill."""
        return "scale", *["baseline"] * (self.mode == "sign"), *["credit"] * (self.solved == "positive")

    def baseline(self, g: GroupView) -> Tensor:
        """(B,) one half, which makes verdicts signs."""
        return torch.full_like(g.r, 0.5)

    def scale(self, g: GroupView) -> Tensor:
        """(B,) C / (1 - p), or what the mode says."""
        wrong = (1 - g.p).clamp(min=1 / g.k)  # read in groups with both verdicts only
        scale = {
            "balanced": 1 / wrong,
            "sign": torch.full_like(g.r, 2.0),
            "per_class": 1 / (2 * g.p.clamp(min=1 / g.k) * wrong),
        }[self.mode]
        scale = self.magnitude * scale
        distance = torch.full_like(g.r, 0.5) if self.mode == "sign" else g.p.clamp(min=1 / g.k)
        if self.max_negative is not None:
            scale = torch.where(g.success > 0, scale, torch.minimum(scale, self.max_negative / distance))
        if (rows := g.varied & (g.success == 0)).any():
            g.metrics["signbalance/heaviest_max"] = float((scale * distance)[rows].max())
        return scale

    def credit(self, g: GroupView) -> tuple[Tensor, Tensor]:
        """The rows of groups without a wrong rollout, and C for each."""
        rows = g.valid & (g.c == g.k)
        g.metrics["signbalance/rows_solved"] = float(rows.sum())
        return rows, torch.full(g.mask.shape, self.magnitude, dtype=torch.float64, device=g.mask.device)

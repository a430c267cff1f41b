"""How a prompt's rollouts fall onto its strategies (``slots.py``), and what that leaves of lam."""

from __future__ import annotations

from typing import Any

from subgroup_offset.config import StrategyConfig
from subgroup_offset.lam import lam_text
from subgroup_offset.preflight.findings import Findings

_N = "actor_rollout_ref.rollout.n"
_STRATEGY = "algorithm.subgroup.strategy"


def check(strategy: StrategyConfig, lam: Any, n: int, findings: Findings) -> None:
    """Refuse an ``n`` that is not K * Z where Z is given, else say how n is spread; warn of subgroups of one."""
    k, z = strategy.num_strategies, strategy.rollouts_per_strategy
    if n < 1:
        findings.error(f"{_N}={n} is no number of rollouts: set it to {k} * {z or 8} or another.")
        return
    sizes = strategy.slot_sizes(n)
    spread = " + ".join(map(str, sizes))
    if z is not None and n != k * z:
        findings.error(
            f"{_N}={n} is not num_strategies * rollouts_per_strategy = {k} * {z}: set {_N}={k * z}, or "
            f"{_STRATEGY}.rollouts_per_strategy=null, which spreads {n} as {spread}."
        )
        return
    if n == 1:
        return
    if sizes != (n // k,) * k:
        findings.note(f"{_N}={n} over {len(sizes)} strategies: {spread} rollouts ({_why(k, n, len(sizes))}).")
    if lam != 0:
        _check_offsets(lam, n, sizes, z, findings)


def _why(k: int, n: int, slots: int) -> str:
    few = f"{_STRATEGY}.num_strategies={k} would leave fewer than 2 on some"
    ragged = f"{n} is no multiple of {slots}"
    return "; ".join([few] * (slots < k) + [ragged] * (n % slots > 0))


def _check_offsets(lam: Any, n: int, sizes: tuple[int, ...], z: int | None, findings: Findings) -> None:
    fix = f"set {_N} to 4 or above" if z is None else f"set {_STRATEGY}.rollouts_per_strategy to 2 or above"
    if len(sizes) == 1:
        findings.warn(
            f"{_STRATEGY}.num_strategies=1 makes one subgroup a prompt, whose offset is 0: "
            f"algorithm.subgroup.lam={lam_text(lam)} has no effect. Set num_strategies to 2 or above."
        )
    elif max(sizes) == 1:
        findings.warn(
            f"{_N}={n} over {len(sizes)} strategies makes each rollout a subgroup of its own: "
            f"algorithm.subgroup.lam={lam_text(lam)} only scales GRPO's advantages{_by(lam)}: {fix}."
        )
    elif min(sizes) == 1:
        findings.warn(
            f"{_N}={n} leaves a strategy one rollout ({' + '.join(map(str, sizes))}), a subgroup whose mean is that "
            f"rollout's own reward: {fix}."
        )


def _by(lam: Any) -> str:
    return f" by {1 - lam:g}" if isinstance(lam, int | float) else ""

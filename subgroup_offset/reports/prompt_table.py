"""One prompt's subgroups as in the paper's Table 6, with the credit that each lambda would give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from subgroup_offset.advantage import subgroup_advantages
from subgroup_offset.files import json_object, numbered_lines
from subgroup_offset.strategy import extract_preview


@dataclass(frozen=True)
class Rollout:
    """One row of verl's rollout dump (``trainer.rollout_data_dir``)."""

    prompt: str
    session: int
    input: str
    output: str
    score: float


@dataclass(frozen=True)
class Subgroup:
    """One slot of a prompt. ``credit[lam]`` is the advantage of (a success, a failure); None where there was none."""

    preview: str | None
    successes: int
    size: int
    credit: dict[float, tuple[float | None, float | None]]


def read_rollouts(path: Path) -> list[Rollout]:
    """The rollouts of one step's dump. Its ``uid`` is verl's key, ``{prompt}_{session}_{output}``."""
    rollouts = []
    for _, line in numbered_lines(path):
        row = json_object(line)
        prompt, session, _ = row["uid"].rsplit("_", 2)
        if not prompt.startswith("pad"):
            rollouts.append(Rollout(prompt, int(session), row["input"], row["output"], row["score"]))
    return rollouts


def most_informative(rollouts: Iterable[Rollout], per_subgroup: int) -> list[Rollout]:
    """The rollouts of the prompt whose subgroups' success rates differ most (in variance; ties to the first)."""
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.prompt].append(rollout)

    def spread(group: Sequence[Rollout]) -> float:
        rates = torch.tensor([[float(r.score > 0)] for r in group], dtype=torch.float64)
        ids = torch.tensor([r.session // per_subgroup for r in group])
        means = torch.stack([rates[ids == k].mean() for k in ids.unique()])
        return float(means.var(correction=0))

    return max(groups.values(), key=spread)


def subgroups_of(group: Sequence[Rollout], per_subgroup: int, lams: Sequence[float]) -> list[Subgroup]:
    """The subgroups of one prompt, best first.

    Args:
        group: all rollouts of the prompt.
        per_subgroup: Z; session i belongs to slot ``i // Z``.
        lams: the coefficients to compute the credit for, from the rewards as they are.
    """
    slots = [r.session // per_subgroup for r in group]
    rewards = torch.tensor([r.score for r in group], dtype=torch.float64)
    credits = {lam: subgroup_advantages(rewards, [0] * len(group), slots, lam).advantages.tolist() for lam in lams}
    result = []
    for slot in sorted(set(slots)):
        rows = [i for i, s in enumerate(slots) if s == slot]
        won = [i for i in rows if group[i].score > 0]
        lost = [i for i in rows if group[i].score <= 0]
        credit = {
            lam: (values[won[0]] if won else None, values[lost[0]] if lost else None) for lam, values in credits.items()
        }
        result.append(Subgroup(extract_preview(group[rows[0]].input), len(won), len(rows), credit))
    return sorted(result, key=lambda s: -s.successes)

"""Runs that differ only in seed as one group, groups by model, and what each group is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from subgroup_offset.reports.methods import DIRECTIONS, LAM, SHUFFLE, STRATEGY, Method, family_of
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.settings import differing, shown, subgroup_defaults


@dataclass(eq=False)
class Group:
    """Runs of one method with the same settings, seeds aside. Compared by identity."""

    label: str
    method: Method
    runs: list[Run]
    #: Number of its colour and dash in figures.
    style: int = 0

    @property
    def seeds(self) -> int:
        """How many runs."""
        return len(self.runs)


class Anchor(NamedTuple):
    """What a group is compared with."""

    group: Group
    #: Why it is not the same with lam = 0; empty if it is.
    note: str


class Ablation(NamedTuple):
    """A group and those that depart from it in one way."""

    base: Group
    #: What each changes, as in the paper's tables (``+ shuffle``, ``+ T=0.7``), and the group.
    variants: tuple[tuple[str, Group], ...]


@dataclass
class ModelRuns:
    """All groups of one model, in the order of the paper's Table 1."""

    name: str
    groups: list[Group]
    #: The one that was given first.
    first: Run

    @property
    def runs(self) -> list[Run]:
        """Its runs, group by group."""
        return [run for group in self.groups for run in group.runs]

    def anchor(self, group: Group) -> Anchor | None:
        """What a method is compared with: the same settings with lam = 0, else the first group given.

        Where lam = 0 was run with other settings only, it is the nearest of these, but never one with a method of the
        family that the group has not: that is another question.
        """
        method = group.method
        if method.lam is None or method.direction == "anchor":
            return None
        # What has lam = 0 and is another method is compared with the paper's.
        zeros = [
            other
            for other in self.groups
            if other is not group
            and other.method.lam == 0
            and (method.lam or other.method.direction == "anchor")
            and _family(other) <= _family(group)
        ]
        by_distance = sorted(zeros, key=lambda zero: len(_differing(group, zero) - {LAM, SHUFFLE}))
        if by_distance:
            nearest = by_distance[0]
            other = sorted(_differing(group, nearest) - {LAM, SHUFFLE})
            return Anchor(nearest, f"which also differs in {', '.join(other)}" if other else "")
        first = next(other for other in self.groups if self.first in other.runs)
        return (
            None
            if first is group or not method.lam
            else Anchor(first, "the first run given, for there is none with lam = 0")
        )

    def families(self) -> list[list[Group]]:
        """Groups that differ only in lam, sorted by it, at least two with lam = 0 among them, or three."""
        families: list[list[Group]] = []
        for group in self.groups:
            if group.method.lam is None or group.method.shuffled:
                continue
            home = next((f for f in families if _differing(group, f[0]) <= {LAM}), None)
            if home is None:
                families.append([group])
            else:
                home.append(group)
        families = [sorted(family, key=lambda g: g.method.lam or 0.0) for family in families]
        return [f for f in families if len(f) > 2 or (len(f) == 2 and any(g.method.lam == 0 for g in f))]

    def shuffle_ablations(self) -> list[Ablation]:
        """Table 3: a group, and the same with shuffled offsets."""
        return self._ablations(lambda base, other: other.method.shuffled and _differing(base, other) == {SHUFFLE})

    def strategy_ablations(self) -> list[Ablation]:
        """Table 4: a group, and those that sample or select their strategies otherwise."""

        def departs(base: Group, other: Group) -> bool:
            keys = _differing(base, other)
            only = bool(keys) and all(key.startswith(STRATEGY) for key in keys)
            return only and _departures(other) > _departures(base) and base.method.strategy_based

        return self._ablations(departs)

    def headline(self) -> list[Group]:
        """Groups of the main table: all but those that an ablation shows beside their base."""
        ablations = [*self.shuffle_ablations(), *self.strategy_ablations()]
        variants = {group for ablation in ablations for _, group in ablation.variants}
        return [group for group in self.groups if group not in variants]

    def _ablations(self, departs: Callable[[Group, Group], bool]) -> list[Ablation]:
        found = []
        for base in self.groups:
            variants = [(_changed(base, other), other) for other in self.groups if departs(base, other)]
            if variants:
                found.append(Ablation(base, tuple(variants)))
        return found


def group_runs(runs: Sequence[Run]) -> list[ModelRuns]:
    """All runs, grouped; models and, where nothing else decides, groups are in the order given."""
    groups: list[Group] = []
    for run in runs:
        home = next((group for group in groups if _same_training(run, group.runs[0])), None)
        if home is None:
            groups.append(Group(run.method.label, run.method, [run]))
        else:
            home.runs.append(run)
    models: dict[str, list[Group]] = {}
    for group in groups:
        models.setdefault(group.runs[0].model, []).append(group)
    short = [members[0].runs[0].model_name for members in models.values()]
    sections = [
        ModelRuns(name if short.count(name) == 1 else path, sorted(members, key=_rank), members[0].runs[0])
        for name, (path, members) in zip(short, models.items(), strict=True)
    ]
    for section in sections:
        _tell_apart(section.groups)
        for style, group in enumerate(section.groups):
            group.style = style
    return sections


def _rank(group: Group) -> tuple:
    method = group.method
    return (DIRECTIONS.index(method.direction), abs(method.lam or 0.0), method.shuffled, _departures(group))


def _same_training(run: Run, other: Run) -> bool:
    return run.settings is not None and other.settings is not None and not differing(run.settings, other.settings)


@cache
def _family(group: Group) -> set[str]:
    settings = group.runs[0].settings
    return set() if settings is None else family_of(settings)


def _differing(a: Group, b: Group) -> frozenset[str]:
    first, second = a.runs[0].settings, b.runs[0].settings
    return frozenset({"(no config)"}) if first is None or second is None else differing(first, second)


def _departures(group: Group) -> int:
    """How many settings of the strategy stage are not the default."""
    settings = group.runs[0].settings
    defaults = {key: value for key, value in subgroup_defaults().items() if key.startswith(STRATEGY)}
    return 0 if settings is None else sum(settings.values.get(key) != value for key, value in defaults.items())


def _changed(base: Group, other: Group) -> str:
    """``+ T=0.7`` for what another group changes."""
    parts = []
    values = other.runs[0].settings.values  # type: ignore[union-attr]
    for key in sorted(_differing(base, other)):
        name, value = key.rpartition(".")[2], shown(values.get(key))
        parts.append({SHUFFLE: "shuffle", f"{STRATEGY}temperature": f"T={value}"}.get(key, f"{name}={value}"))
        if name == "selection":
            parts[-1] = value
    return "+ " + ", ".join(parts)


def _tell_apart(groups: Sequence[Group]) -> None:
    """Add the first run's name to equal labels; Config differences says in what they differ."""
    counts = Counter(group.label for group in groups)
    for group in groups:
        if counts[group.label] > 1:
            group.label += f" [{group.runs[0].name}]"

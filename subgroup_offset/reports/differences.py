"""In which settings runs differ, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgroup_offset.reports.settings import Settings, is_derived, kind


class _Absent:
    """A key that a config does not have, which is not the same as null."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclass(frozen=True)
class Difference:
    """A key whose values differ."""

    key: str
    #: One for each run, :data:`ABSENT` where its config has no such key.
    values: tuple[Any, ...]
    #: ``setting``, ``seed`` or ``output``.
    kind: str
    #: Written alike in all configs, as an interpolation: it follows from another difference.
    derived: bool


@dataclass(frozen=True)
class Configured:
    """A config, and the directory whose name in a path is no difference."""

    settings: Settings
    directory: Path


def differences(configs: Sequence[Configured]) -> list[Difference]:
    """All keys, sorted, whose values are not equal in all configs.

    Values are compared as resolved; 1 and 1.0 are equal, true and 1 are not. Paths inside of a run's own directory
    are outputs, whatever their key.
    """
    keys = sorted({key for config in configs for key in config.settings.values})
    found = []
    for key in keys:
        values = tuple(config.settings.values.get(key, ABSENT) for config in configs)
        if all(_same(value, values[0]) for value in values[1:]):
            continue
        texts = [config.settings.written.get(key, ABSENT) for config in configs]
        derived = is_derived(texts[0]) and all(text == texts[0] for text in texts[1:])
        own = all(_is_own(value, config.directory) for value, config in zip(values, configs, strict=True))
        found.append(Difference(key, values, "output" if own else kind(key), derived))
    return found


def setting_differences(first: Configured, second: Configured) -> dict[str, tuple[Any, Any]]:
    """What makes two runs different trainings: neither seeds nor outputs, nor what follows from them."""
    found = differences([first, second])
    return {d.key: (d.values[0], d.values[1]) for d in found if d.kind == "setting" and not d.derived}


def _same(a: Any, b: Any) -> bool:
    if a is ABSENT or b is ABSENT:
        return a is b
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _is_own(value: Any, directory: Path) -> bool:
    return isinstance(value, str) and (value == str(directory) or value.startswith(f"{directory}/"))

"""What the settings under ``algorithm.subgroup`` have in common: how they are read, and what a wrong one says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from subgroup_offset.nearest import nearest


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the key, the value and the fix."""


def plain(section: Any, path: str) -> dict[str, Any]:
    """A section as a plain dict; OmegaConf interpolations are resolved."""
    if section is None:
        return {}
    if hasattr(section, "_metadata"):  # an OmegaConf container; imported only when one is there
        from omegaconf import OmegaConf

        section = OmegaConf.to_container(section, resolve=True)
    if isinstance(section, Mapping):
        return dict(section)
    raise ConfigError(f"{path}={section!r} is not a mapping: write its settings as {path}.<name>=<value>.")


def require_number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{key}={value!r} is not a finite number: set it to one, for example {key}=0.3.")
    return float(value)


def require_int(key: str, value: Any, minimum: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{key}={value!r} is not a whole number: set it to one, for example {key}=4.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{key}={value} is too small: set it to {minimum} or above.")


def require_bool(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}={value!r} is neither true nor false: set it to one.")


def require_text(key: str, value: Any, what: str) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{key}={value!r} is not text: give {what}.")


def require_choice(key: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        found = nearest(str(value), choices)
        meant = f" (did you mean {found[0]}?)" if found else ""
        raise ConfigError(f"{key}={value!r} is unknown: use one of {', '.join(choices)}{meant}.")

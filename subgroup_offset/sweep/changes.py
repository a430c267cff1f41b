"""What changed in a job's config files between two starts of a sweep, while its overrides stayed the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

FILE_NAME = "config.yaml"
_NAMED = 3


def save_config(directory: Path, config: DictConfig) -> None:
    """Keep the config that a job is started with, interpolations as they are."""
    (directory / FILE_NAME).write_text(OmegaConf.to_yaml(config, sort_keys=True), "utf-8")


def changed_settings(directory: Path, config: DictConfig) -> str:
    """The settings that are not as at the job's last start, ``a.b, a.c and 2 more``; empty where all are."""
    path = directory / FILE_NAME
    if not path.exists():
        return ""
    texts = (path.read_text("utf-8"), OmegaConf.to_yaml(config))  # both as text: an enum would differ from its name
    before, now = (dict(_leaves(OmegaConf.to_container(OmegaConf.create(text), resolve=False))) for text in texts)
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return ", ".join(changed[:_NAMED]) + more


def _leaves(section: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(section, dict) and section:
        for key, value in section.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, section

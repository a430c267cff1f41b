"""Where the files that belong to this package are."""

from __future__ import annotations

from pathlib import Path


def config_dir() -> Path:
    """The directory of the Hydra configs: inside an installed wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"

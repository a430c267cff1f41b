"""The versions that can work, from the installed metadata of verl and of this package."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections import defaultdict

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

#: Who states bounds, and with which extra: verl's brings what ``verl.trainer.ppo.v1`` imports.
_STATED_BY = {"verl": "verl-core", "subgroup-offset": ""}


def package_bounds() -> dict[str, SpecifierSet]:
    """Distribution -> bounds, of all that verl and this package require and bound."""
    bounds: dict[str, SpecifierSet] = defaultdict(SpecifierSet)
    for name, extra in _STATED_BY.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # the checks say so on their own
            for requirement in map(Requirement, importlib.metadata.requires(name) or ()):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    bounds[canonicalize_name(requirement.name)] &= requirement.specifier
    return {name: stated for name, stated in bounds.items() if str(stated)}


def allows(bounds: SpecifierSet, version: str) -> bool:
    """Whether a version is within bounds. A local part (``+cpu``) does not count; pre-releases do.

    A version that is none by PEP 440 (a build from source may have any) is within no bounds.
    """
    try:
        return bounds.contains(version, prereleases=True)
    except InvalidVersion:
        return False

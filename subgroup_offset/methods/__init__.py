"""The family of methods: a table of names, and how the mapping ``algorithm.subgroup.method`` becomes objects.

Light: a method's module is imported when a run names it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from subgroup_offset.nearest import nearest
from subgroup_offset.settings import ConfigError, plain

if TYPE_CHECKING:
    from subgroup_offset.methods.base import Method

KEY = "algorithm.subgroup.method"
#: The group of entry points in which an installed package names methods of its own, as ``name = "module:Class"``.
ENTRY_POINTS = "subgroup_offset.methods"
#: name -> module and class.
BUILT_IN = {
    "bicc": "subgroup_offset.methods.bicc:BiCC",
    "bnpo": "subgroup_offset.methods.bnpo:BNPO",
    "f_grpo": "subgroup_offset.methods.f_grpo:FGRPO",
    "gapo": "subgroup_offset.methods.gapo:GAPO",
    "maxrl": "subgroup_offset.methods.maxrl:MaxRL",
    "oc_grpo": "subgroup_offset.methods.oc_grpo:OCGRPO",
    "quantile": "subgroup_offset.methods.quantile:Quantile",
    "rcc": "subgroup_offset.methods.rcc:RCC",
    "reco": "subgroup_offset.methods.reco:ReCo",
    "rloo": "subgroup_offset.methods.rloo:RLOO",
    "signbalance": "subgroup_offset.methods.signbalance:SignBalance",
    "stratified": "subgroup_offset.methods.stratified:Stratified",
    "verigate": "subgroup_offset.methods.verigate:VeriGate",
}


def make_methods(section: Any) -> dict[str, Method]:
    """The methods that a run names, by name in alphabetical order: the order they were named in is no matter.

    Args:
        section: ``{name: {setting: value}}``; a name with null or an empty mapping has the defaults. A name that is
            not built in is an entry point of an installed package, or has ``class: package.module.Class``.

    Raises:
        ConfigError: an unknown name or setting, with the nearest known one; a value that cannot be used.
    """
    methods = {}
    for name, given in sorted(plain(section, KEY).items()):
        settings = plain(given, f"{KEY}.{name}")
        cls = method_class(name, settings.pop("class", None))
        known = [field.name for field in fields(cls)]
        for key, value in settings.items():
            if key not in known:
                found = nearest(key, known)
                meant = f"did you mean {' or '.join(found)}?" if found else f"it has {', '.join(known) or 'none'}."
                raise ConfigError(f"{KEY}.{name}.{key}={value!r} is not a setting of {cls.__name__}: {meant}")
        methods[name] = cls(**settings)
    return methods


def known_methods() -> dict[str, str]:
    """All names that can be given, built in or by an installed package, each with its module and class."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)} | BUILT_IN


def method_class(name: str, path: Any = None) -> type[Method]:
    """The class of a known name, or at a dotted path.

    Raises:
        ConfigError: there is none.
    """
    from subgroup_offset.methods.base import Method

    where = f"{KEY}.{name}"
    if path is None:
        known = known_methods()
        if name not in known:
            found = nearest(name, known)
            meant = f"did you mean {' or '.join(found)}?" if found else f"use one of {', '.join(sorted(known))}."
            raise ConfigError(
                f"{where} is no known method: {meant} One of your own: {where}.class=package.module.Class"
            )
        path = known[name].replace(":", ".")
    module, _, attribute = str(path).rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigError(
            f"{where}: {path} cannot be imported ({type(error).__name__}: {error}): give the dotted path of a class "
            "that every process of the run can import."
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise ConfigError(f"{where}: {path} is no subclass of subgroup_offset.methods.base.Method: make it one.")
    return cls


def method_names(section: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names alone, in alphabetical order, without importing anything."""
    return tuple(sorted(section or ()))

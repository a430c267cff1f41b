"""The table of supported versions agrees with what the installed verl and our own package metadata say."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from subgroup_offset.compat import PACKAGES, PYTHON, is_supported

ROOT = Path(__file__).resolve().parents[1]
BY_NAME = {package.name.lower(): package for package in PACKAGES}


def requirements(lines):
    """Name -> requirement, of the lines that hold without an extra or for verl-core."""
    parsed = [Requirement(line) for line in lines]
    wanted = [r for r in parsed if r.marker is None or r.marker.evaluate({"extra": "verl-core"})]
    return {r.name.lower(): r.specifier for r in wanted if str(r.specifier)}


def test_bounds_are_those_of_the_installed_verl():
    of_verl = requirements(importlib.metadata.requires("verl"))
    shared = of_verl.keys() & BY_NAME.keys()
    assert {"ray", "transformers", "tensordict", "transferqueue", "numpy"} <= shared
    assert {name: SpecifierSet(BY_NAME[name].supported) for name in shared} == {name: of_verl[name] for name in shared}


def test_bounds_are_those_of_our_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    ours = requirements(project["dependencies"])
    for name in ("torch", "hydra-core"):
        assert SpecifierSet(BY_NAME[name].supported) == ours[name]
    verl = SpecifierSet(BY_NAME["verl"].supported)
    assert all(version in verl and version in ours["verl"] for version in BY_NAME["verl"].tried)
    assert SpecifierSet(PYTHON) == SpecifierSet(project["requires-python"])


def test_what_is_installed_is_supported():
    for package in PACKAGES:
        names = (package.name, *package.aliases)
        version = next(v for name in names if (v := version_of(name)))
        assert is_supported(package.supported, version), (package, version)


def version_of(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.parametrize(
    ("specifier", "version", "supported"),
    [
        (">=0.9.0,<0.10", "0.9.1", True),
        (">=0.9.0,<0.10", "0.10.0", False),
        (">=2.6", "2.13.0+cpu", True),
        (">=2.6", "2.5.1+cu124", False),
        (">=5.5.3,<5.11,!=5.6.0", "5.6.0", False),
        (">=0.18.0", "0.24.1rc1", True),
        (">=0.18.0", "dev-build", False),
        ("", "dev-build", True),
    ],
)
def test_versions(specifier, version, supported):
    assert is_supported(specifier, version) is supported

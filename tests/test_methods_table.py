"""Names of methods: built in, by a dotted path, by an entry point of a package that is not this one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from method_cases import advantages

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.methods import BUILT_IN, make_methods, method_class
from subgroup_offset.methods.base import SLOTS, Method


@dataclass(frozen=True)
class Double(Method):
    """Twice the advantage, and its scale where asked."""

    slots: ClassVar[tuple[str, ...]] = ("weight",)
    by: float = 2.0

    def weight(self, g):
        return torch.full_like(g.r, self.by)


@dataclass(frozen=True)
class OwnScale(Method):
    """A scale, which is exclusive."""

    slots: ClassVar[tuple[str, ...]] = ("scale",)
    takes_lam: ClassVar[bool] = False

    def scale(self, g):
        return torch.ones_like(g.r)


DOUBLE, OWN = {"class": f"{__name__}.Double"}, {"class": f"{__name__}.OwnScale"}
#: Settings without which a method cannot be.
REQUIRED = {"verigate": {"url": "http://prm:8000"}}
GROUP = {"p": [[1.0, 0.0], [0.0, 0.0]]}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_methods_say_what_they_are(name):
    cls, method = method_class(name), make_methods({name: REQUIRED.get(name)})[name]
    assert method.slots and set(method.slots) <= set(SLOTS)
    module = sys.modules[cls.__module__]
    assert "degenerate" in module.__doc__ and cls.__doc__


def test_a_dotted_path_is_a_method():
    torch.testing.assert_close(advantages(GROUP, {"double": DOUBLE}), 2 * advantages(GROUP))
    torch.testing.assert_close(advantages(GROUP, {"x": {**DOUBLE, "by": 3.0}}), 3 * advantages(GROUP))


def test_weights_multiply_whatever_their_order():
    both = {"a": DOUBLE, "b": {**DOUBLE, "by": 3.0}}
    torch.testing.assert_close(advantages(GROUP, both), 6 * advantages(GROUP))
    assert list(make_methods(both)) == list(make_methods(dict(reversed(both.items()))))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"method": {"a": OWN, "b": OWN}},
            r"method\.a and .*method\.b cannot be used together, for both set the scale",
        ),
        ({"method": {"a": OWN}, "std": "none"}, r"algorithm\.subgroup\.std=none and .*method\.a cannot be used tog"),
        ({"method": {"a": OWN}, "lam": 0.3}, r"algorithm\.subgroup\.lam=0\.3 and .*method\.a cannot be used together"),
        ({"method": {"a": OWN}, "lam": "auto"}, r"algorithm\.subgroup\.lam=auto and .*method\.a"),
        ({"method": {"a": {"class": "no.such.Thing"}}}, r"method\.a: no\.such\.Thing cannot be imported \(ModuleNot"),
        ({"method": {"a": {"class": "builtins.dict"}}}, r"method\.a: builtins\.dict is no subclass of .*Method"),
        ({"method": {"a": {"class": "dict"}}}, r"method\.a: dict cannot be imported"),
        ({"method": {"a": {**DOUBLE, "buy": 3}}}, r"method\.a\.buy=3 is not a setting of Double: did you mean by\?"),
        ({"method": {"f_grop": {}}}, r"method\.f_grop is no known method: did you mean f_grpo\?"),
        ({"method": "gapo"}, r"algorithm\.subgroup\.method='gapo' is not a mapping"),
        ({"method": {"f_grpo": 3}}, r"algorithm\.subgroup\.method\.f_grpo=3 is not a mapping"),
    ],
)
def test_refusals(section, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": section})


def test_norm_adv_by_std_is_a_scale_too():
    with pytest.raises(ConfigError, match=r"norm_adv_by_std_in_grpo=False and .*method\.a cannot be used together"):
        SubgroupConfig.from_algorithm({"norm_adv_by_std_in_grpo": False, "subgroup": {"method": {"a": OWN}}})


def test_a_strangers_package_registers_a_method_by_an_entry_point(tmp_path):
    """Installed as any package is: a module, and metadata that names it."""
    (tmp_path / "strange.py").write_text(
        "from dataclasses import dataclass\n"
        "from subgroup_offset.methods.base import Method\n"
        "@dataclass(frozen=True)\n"
        "class Strange(Method):\n"
        "    slots = ('weight',)\n"
        "    strength: float = 1.0\n"
    )
    metadata = tmp_path / "strange-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[subgroup_offset.methods]\nstrange = strange:Strange\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from subgroup_offset.methods import known_methods, make_methods\n"
        "print(known_methods()['strange'], make_methods({'strange': {'strength': 2.0}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "strange:Strange {'strange': Strange(strength=2.0)}", done.stderr

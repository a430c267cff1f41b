"""The differences between configs, exactly."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.reports.settings import (
    ABSENT,
    Settings,
    differences,
    differing,
    kind,
    read_settings,
    shown,
    subgroup_defaults,
)  # fmt: skip

ESTIMATOR = {"adv_estimator": "grpo_subgroup"}


@pytest.fixture
def read(tmp_path):
    """Settings from mappings, each with a directory of its own."""

    def make(*configs):
        found = []
        for i, config in enumerate(configs):
            directory = tmp_path / f"run{i}"
            directory.mkdir(exist_ok=True)
            (directory / "config.yaml").write_text(config if isinstance(config, str) else yaml.safe_dump(config))
            found.append(read_settings(directory / "config.yaml", directory))
        return found

    return make


def found(configs):
    return {d.key: (*d.values, d.kind) + ("derived",) * d.derived for d in differences(configs)}


def test_exactly_what_differs(read):
    a = {"a": {"same": 1, "b": 1, "only": None}, "l": [1, 2], "t": True, "n": 1, "e": {}}
    b = {"a": {"same": 1.0, "b": 2}, "l": [1, 3], "t": 1, "n": 1, "e": {"x": 1}}
    assert found(read(a, b)) == {
        "a.b": ("1", "2", "setting"),
        "a.only": ("null", ABSENT, "setting"),  # null is not the same as no key
        "l": ("[1, 2]", "[1, 3]", "setting"),
        "t": ("true", "1", "setting"),
        "e": ("{}", ABSENT, "setting"),
        "e.x": (ABSENT, "1", "setting"),
    }
    assert found(read({"n": 1, "copy": "${n}"}, {"n": 1, "copy": 1})) == {}  # however they are written


def test_what_follows_from_another_difference_is_marked(read):
    a = {"n": 1, "copy": "${n}", "text": "at ${n}", "section": {"m": 1}, "other": "${section}", "l": ["${n}"]}
    b = {"n": 2, "copy": "${n}", "text": "at 2", "section": {"m": 2}, "other": "${section}", "l": ["${n}"]}
    assert found(read(a, b)) == {
        "n": ("1", "2", "setting"),
        "copy": ("1", "2", "setting", "derived"),
        "l": ("[1]", "[2]", "setting", "derived"),
        "text": ("at 1", "at 2", "setting"),  # the second does not follow
        "section.m": ("1", "2", "setting"),
        "other.m": ("1", "2", "setting", "derived"),
    }
    assert differing(*read(a, b)) == {"n", "section.m", "text"}


def test_unresolvable_values_are_compared_as_written(read, monkeypatch):
    monkeypatch.setenv("HERE", "this machine's")
    config = {"v": "${oc.env:HERE}", "h": "${hydra:runtime.cwd}", "m": "???", "x": "${m}"}
    assert found(read(config, config)) == {}
    assert read(config)[0].values == config


def test_seeds_and_outputs_are_of_their_own_kind(read, tmp_path):
    a = {"data": {"seed": 1}, "trainer": {"experiment_name": "a"}, "x": {"dir": f"{tmp_path}/run0/x"}}
    b = {"data": {"seed": 2}, "trainer": {"experiment_name": "b"}, "x": {"dir": f"{tmp_path}/run1/x"}}
    kinds = {key: values[2] for key, values in found(read(a, b)).items()}
    assert kinds == {"data.seed": "seed", "trainer.experiment_name": "output", "x.dir": "output"}
    assert not differing(*read(a, b))
    assert [kind(key) for key in ("a.data_loader_seed", "data.seedling", "trainer.resume_from_path")] == [
        "seed", "setting", "setting",
    ]  # fmt: skip
    assert kind("ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH") == "output"


def test_settings_that_are_left_out_count_as_their_defaults(read):
    explicit = {"algorithm": {**ESTIMATOR, "subgroup": {"lam": 0.0, "strategy": {"temperature": 1}}}}
    assert found(read({"algorithm": ESTIMATOR}, explicit)) == {}
    other = {"algorithm": {**ESTIMATOR, "subgroup": {"strategy": {"selection": "random"}}}}
    assert list(found(read({"algorithm": ESTIMATOR}, other))) == ["algorithm.subgroup.strategy.selection"]
    (plain,) = read({"algorithm": {"adv_estimator": "grpo"}})
    assert list(plain.values) == ["algorithm.adv_estimator"]
    assert "algorithm.subgroup.strategy.selection" in subgroup_defaults()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), ("null", '"null"'), (0.3, "0.3"), ("0.3", '"0.3"'), (True, "true"), ("a b", "a b"), ("", '""'),
     ([1, "é"], '[1, "é"]'), (" x", '" x"'), (ABSENT, '"(absent)"')],
)  # fmt: skip
def test_values_are_shown_so_that_they_cannot_be_mistaken(value, text):
    assert shown(value) == text


@given(st.dictionaries(st.text("abc", min_size=1), st.one_of(st.none(), st.booleans(), st.integers(), st.text("x1 "))))
def test_a_config_differs_from_itself_in_nothing_and_from_another_symmetrically(values):
    one, other = (Settings(v, v) for v in (values, {**values, "d": 1}))
    assert differences([one, one]) == []
    assert [d.key for d in differences([one, other])] == [d.key for d in differences([other, one])] == ["d"]


def test_a_file_without_settings_is_refused(read):
    assert read("")[0].values == {}
    for text in ("a: [", "- 1"):
        with pytest.raises(ValueError, match=r"config.yaml (cannot be read|holds no settings)"):
            read(text)

"""The differences between configs, exactly."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.reports.differences import ABSENT, Configured, differences, setting_differences
from subgroup_offset.reports.settings import Settings, kind, read_settings, shown, subgroup_defaults


@pytest.fixture
def configured(tmp_path):
    """Configs from mappings, each with a directory of its own."""

    def make(*configs):
        found = []
        for i, made in enumerate(configs):
            directory = tmp_path / f"run{i}"
            directory.mkdir(exist_ok=True)
            (directory / "config.yaml").write_text(yaml.safe_dump(made))
            found.append(Configured(read_settings(directory / "config.yaml"), directory))
        return found

    return make


def found(configs):
    return {d.key: (d.values, d.kind, d.derived) for d in differences(configs)}


def test_exactly_what_differs(configured):
    a = {"a": {"same": 1, "b": 1, "only": None}, "l": [1, 2], "t": True, "n": 1, "e": {}}
    b = {"a": {"same": 1.0, "b": 2}, "l": [1, 3], "t": 1, "n": 1, "e": {"x": 1}}
    assert found(configured(a, b)) == {
        "a.b": ((1, 2), "setting", False),
        "a.only": ((None, ABSENT), "setting", False),  # null is not the same as no key
        "l": (([1, 2], [1, 3]), "setting", False),
        "t": ((True, 1), "setting", False),
        "e": (({}, ABSENT), "setting", False),
        "e.x": ((ABSENT, 1), "setting", False),
    }


def test_what_follows_from_another_difference_is_marked(configured):
    a = {"n": 1, "copy": "${n}", "text": "at ${n}", "section": {"m": 1}, "other": "${section}"}
    b = {"n": 2, "copy": "${n}", "text": "at 2", "section": {"m": 2}, "other": "${section}"}
    assert found(configured(a, b)) == {
        "n": ((1, 2), "setting", False),
        "copy": ((1, 2), "setting", True),
        "text": (("at 1", "at 2"), "setting", False),  # the second does not follow
        "section.m": ((1, 2), "setting", False),
        "other.m": ((1, 2), "setting", True),
    }
    assert list(setting_differences(*configured(a, b))) == ["n", "section.m", "text"]


def test_equal_values_however_they_are_written_are_no_difference(configured):
    assert found(configured({"n": 1, "copy": "${n}"}, {"n": 1, "copy": 1})) == {}


def test_unresolvable_values_are_compared_as_written(configured, monkeypatch):
    monkeypatch.setenv("HERE", "this machine's")
    a = {"v": "${oc.env:HERE}", "h": "${hydra:runtime.cwd}", "m": "???"}
    assert found(configured(a, a)) == {}
    (only,) = configured(a)
    assert only.settings.values == {"v": "${oc.env:HERE}", "h": "${hydra:runtime.cwd}", "m": "???"}


def test_seeds_and_outputs_are_of_their_own_kind(configured, tmp_path):
    a = {"data": {"seed": 1}, "trainer": {"experiment_name": "a"}, "x": {"dir": f"{tmp_path}/run0/x"}}
    b = {"data": {"seed": 2}, "trainer": {"experiment_name": "b"}, "x": {"dir": f"{tmp_path}/run1/x"}}
    assert {key: d[1] for key, d in found(configured(a, b)).items()} == {
        "data.seed": "seed",
        "trainer.experiment_name": "output",
        "x.dir": "output",  # inside of each run's own directory
    }
    assert setting_differences(*configured(a, b)) == {}


def test_settings_of_ours_that_are_left_out_count_as_their_defaults(configured):
    ours = {"algorithm": {"adv_estimator": "grpo_subgroup"}}
    said = {"algorithm": {"adv_estimator": "grpo_subgroup", "subgroup": {"lam": 0.0, "strategy": {"temperature": 1}}}}
    assert found(configured(ours, said)) == {}
    other = {"algorithm": {"adv_estimator": "grpo_subgroup", "subgroup": {"strategy": {"selection": "random"}}}}
    assert list(found(configured(ours, other))) == ["algorithm.subgroup.strategy.selection"]
    (verls,) = configured({"algorithm": {"adv_estimator": "grpo"}})
    assert list(verls.settings.values) == ["algorithm.adv_estimator"]


def test_every_default_is_known_by_its_key():
    defaults = subgroup_defaults()
    assert defaults["algorithm.subgroup.lam"] == 0.0
    assert defaults["algorithm.subgroup.strategy.selection"] == "diverse"
    assert "algorithm.subgroup.strategy" not in defaults


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("data.seed", "seed"),
        ("actor_rollout_ref.actor.data_loader_seed", "seed"),
        ("data.seedling", "setting"),
        ("trainer.resume_from_path", "setting"),
        ("trainer.total_training_steps", "setting"),
        ("ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH", "output"),
    ],
)
def test_kinds(key, expected):
    assert kind(key) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), ("null", '"null"'), (0.3, "0.3"), ("0.3", '"0.3"'), (True, "true"), ("a b", "a b"), ("", '""'),
     ([1, "é"], '[1, "é"]'), (" x", '" x"')],
)  # fmt: skip
def test_values_are_shown_so_that_they_cannot_be_mistaken(value, text):
    assert shown(value) == text


@given(st.dictionaries(st.text("abc", min_size=1), st.one_of(st.none(), st.booleans(), st.integers(), st.text("x1 "))))
def test_a_config_differs_from_itself_in_nothing_and_from_another_symmetrically(values):
    one = Configured(Settings(values, values), Path("/nowhere"))
    other = Configured(Settings({**values, "d": 1}, {**values, "d": 1}), Path("/nowhere"))
    assert differences([one, one]) == []
    assert [d.key for d in differences([one, other])] == [d.key for d in differences([other, one])] == ["d"]


@pytest.mark.parametrize("text", ["a: [", "- 1", ""])
def test_a_file_without_settings_is_refused(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    if not text:
        assert read_settings(tmp_path / "config.yaml").values == {}
        return
    with pytest.raises(ValueError, match=r"config.yaml (cannot be read|holds no settings)"):
        read_settings(tmp_path / "config.yaml")

"""Olmo 3 whose trainer and engine scale RoPE on different layers is refused before either loads; others are not."""

from __future__ import annotations

import json
import logging
from importlib.util import find_spec
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from preflight_configs import changed
from recipe_models import OLMO3_7B, QWEN3_8B

from subgroup_offset.config import ConfigError
from subgroup_offset.preflight import check_run, findings, olmo3
from subgroup_offset.preflight.olmo3 import CORRECTION, Engine

MODEL, OVERRIDES = "actor_rollout_ref.model", "actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides"
BY_TYPE = {
    "full_attention": OLMO3_7B["rope_scaling"] | {"rope_theta": 500000},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500000},
}
NESTED = {key: value for key, value in OLMO3_7B.items() if not key.startswith("rope")} | {"rope_parameters": BY_TYPE}
PLAIN = OLMO3_7B | {"rope_scaling": None}


@pytest.fixture
def run(tmp_path, monkeypatch, uncorrected_olmo3):
    """``run(config.json, engine, changes)``: a config whose model is on this machine, under a vLLM of that kind."""

    def made(described: dict, engine: Engine | None, **changes) -> DictConfig:
        (tmp_path / "config.json").write_text(json.dumps(described), "utf-8")
        monkeypatch.setattr(olmo3, "vllm_reads", lambda: engine)
        return changed({f"{MODEL}.path": str(tmp_path), **changes})

    return made


@pytest.fixture
def said(caplog):
    findings.warn_once.forget()
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("subgroup_offset")]


CORRECTED = {f"{MODEL}.external_lib": CORRECTION}


@pytest.mark.parametrize(
    ("described", "engine", "changes"),
    [
        (OLMO3_7B, Engine.PLAIN_SLIDING, CORRECTED),
        (OLMO3_7B, Engine.PLAIN_SLIDING, {f"{MODEL}.external_lib": ["json", CORRECTION]}),
        (OLMO3_7B, Engine.BY_TYPE, CORRECTED | {OVERRIDES: {"rope_parameters": BY_TYPE}}),
        (OLMO3_7B, Engine.BY_TYPE, CORRECTED | {OVERRIDES: json.dumps({"rope_parameters": BY_TYPE})}),
        (NESTED, Engine.BY_TYPE, CORRECTED),
        (NESTED, Engine.PLAIN_SLIDING, CORRECTED | {OVERRIDES: {"rope_parameters": BY_TYPE["full_attention"]}}),
        (PLAIN, Engine.BY_TYPE, {}),
        (QWEN3_8B, Engine.BY_TYPE, {}),
    ],
)
def test_what_is_right_passes(run, said, described, engine, changes):
    check_run(run(described, engine, **changes))
    assert said() == []


@pytest.mark.parametrize(
    ("described", "engine", "changes", "message"),
    [
        (
            OLMO3_7B,
            Engine.PLAIN_SLIDING,
            {},
            r"transformers \S+ would scale .* set \S+external_lib=subgroup_offset\.mod",
        ),
        (
            OLMO3_7B,
            Engine.BY_TYPE,
            CORRECTED,
            r": vLLM \S+ would scale .* set '\+\S+hf_overrides=.*, or install vLLM 0\.24",
        ),
        (
            NESTED,
            Engine.BY_TYPE,
            {},
            r"rope_parameters for each type of layer, which transformers \S+ cannot read: set ",
        ),
        (
            NESTED,
            Engine.PLAIN_SLIDING,
            CORRECTED,
            r"for each type of layer, and vLLM .* reads one set .*: set '\+\S+yarn",
        ),
    ],
)
def test_what_differs_or_cannot_be_read_is_refused(run, described, engine, changes, message):
    with pytest.raises(ConfigError, match=message):
        check_run(run(described, engine, **changes))


@pytest.mark.parametrize(("described", "engine", "changes"), [(OLMO3_7B, Engine.BY_TYPE, CORRECTED)])
def test_the_override_that_is_printed_is_the_fix(run, said, described, engine, changes):
    with pytest.raises(ConfigError) as error:
        check_run(run(described, engine, **changes))
    key, _, value = str(error.value).split("'")[1].removeprefix("+").partition("=")
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_override(f"{key}={value}").value()
    check_run(run(described, engine, **changes | {key: parsed}))
    assert said() == []


def test_a_model_that_is_scaled_on_both_sides_is_warned_about(run, said):
    check_run(run(OLMO3_7B, Engine.BY_TYPE))
    (warning,) = said()
    assert "transformers" in warning and "and vLLM" in warning and CORRECTION in warning and OVERRIDES in warning


def test_without_vllm_on_the_driver_the_trainer_is_looked_at(run, said, capsys):
    check_run(run(OLMO3_7B, None))
    (warning,) = said()
    assert CORRECTION in warning and "its RoPE was not compared with vLLM's" in capsys.readouterr().out


def test_a_model_that_is_not_here_is_a_note(said, capsys):
    check_run(changed({f"{MODEL}.path": "allenai/Olmo-3-1025-7B"}))
    assert said() == [] and "is not on this machine yet" in capsys.readouterr().out
    check_run(changed({f"{MODEL}.path": "Qwen/Qwen3-8B-Base"}))
    assert "not on this machine" not in capsys.readouterr().out


def test_the_hubs_cache_is_looked_into(monkeypatch, tmp_path):
    """A repository as huggingface_hub keeps it."""
    repository = tmp_path / "models--allenai--Olmo-3-1025-7B"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(OLMO3_7B), "utf-8")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc", "utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert olmo3._directory("allenai/Olmo-3-1025-7B") == snapshot
    assert olmo3._directory("allenai/Olmo-3-7B-Instruct") is None
    assert olmo3._directory("hdfs://somewhere/model") is None and olmo3._directory("") is None


VLLM = {
    "0.24": 'if sliding_window is not None:\n    rope_parameters = {"rope_type": "default", "rope_theta": theta}',
    "0.27": "rope_parameters = rope_parameters.get(attn_type, rope_parameters)",
    "another": "rope_parameters = somehow_else(config)",
}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("olmo2", VLLM["0.24"], Engine.PLAIN_SLIDING),
        ("olmo3", VLLM["0.27"], Engine.BY_TYPE),
        ("olmo3", VLLM["another"], None),
    ],
)
def test_vllms_kind_is_read_off_its_source(monkeypatch, tmp_path: Path, file, text, expected):
    models = tmp_path / "vllm" / "model_executor" / "models"
    models.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").touch()
    (models / f"{file}.py").write_text(text, "utf-8")
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "vllm")]})()
    monkeypatch.setattr(olmo3, "find_spec", lambda name: spec)
    assert olmo3.vllm_reads() is expected


def test_the_recipe_has_the_correction():
    recipe = OmegaConf.load(Path(olmo3.__file__).parents[2] / "configs" / "recipe" / "olmo3_7b.yaml")
    assert recipe.actor_rollout_ref.model.external_lib == CORRECTION
    assert find_spec(CORRECTION)

"""Validation of ``algorithm.subgroup``: every refusal names key, value and fix."""

import logging

import pytest
from omegaconf import OmegaConf

from subgroup_offset import config as config_module
from subgroup_offset.config import ConfigError, StrategyConfig, SubgroupConfig


def read(**algorithm):
    return SubgroupConfig.from_algorithm(OmegaConf.create(algorithm))


@pytest.fixture(autouse=True)
def fresh_warnings():
    config_module._warned.clear()


def test_defaults_are_grpo_with_the_papers_strategy_stage():
    config = SubgroupConfig.from_algorithm(None)
    assert config.lam == 0 and config.std == "sample" and not config.shuffle_offsets
    assert (config.strategy.num_strategies, config.strategy.rollouts_per_strategy) == (4, 8)
    assert config.strategy.num_candidates == 8 and config.strategy.max_tokens == 256
    assert config.strategy.rollouts_per_prompt == 32


def test_interpolations_are_resolved():
    config = OmegaConf.create({"x": 0.3, "algorithm": {"subgroup": {"lam": "${x}", "strategy": {"max_tokens": 9}}}})
    read_config = SubgroupConfig.from_algorithm(config.algorithm)
    assert read_config.lam == 0.3 and read_config.strategy.max_tokens == 9


def test_verls_own_dataclass_and_plain_dicts_work():
    from verl.trainer.config import AlgoConfig

    assert SubgroupConfig.from_algorithm(AlgoConfig()) == SubgroupConfig()
    assert SubgroupConfig.from_algorithm({"subgroup": {"lam": -0.3}}).lam == -0.3


def test_no_std_when_verl_says_so():
    assert read(norm_adv_by_std_in_grpo=False).std == "none"
    assert read(norm_adv_by_std_in_grpo=True, subgroup={"std": "population"}).std == "population"
    with pytest.raises(ConfigError, match="norm_adv_by_std_in_grpo=False contradicts"):
        read(norm_adv_by_std_in_grpo=False, subgroup={"std": "population"})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"lamb": 0.3}, r"algorithm\.subgroup\.lamb=0\.3 .* algorithm\.subgroup\.lam\?"),
        ({"strategy": {"selecton": "diverse"}}, r"strategy\.selecton='diverse' .*strategy\.selection\?"),
        ({"lam": "a"}, r"algorithm\.subgroup\.lam='a' is not a finite number"),
        ({"lam": True}, r"algorithm\.subgroup\.lam=True is not a finite number"),
        ({"lam": float("nan")}, r"lam=nan is not a finite number"),
        ({"std": "smaple"}, r"std='smaple' is unknown: .* \(nearest: sample\)"),
        ({"shuffle_offsets": "yes"}, r"shuffle_offsets='yes' is neither"),
        ({"seed": 0.5}, r"seed=0\.5 is not a whole number"),
        ({"strategy": {"num_strategies": 0}}, r"num_strategies=0 is too small"),
        ({"strategy": {"num_candidates": 3}}, r"num_candidates=3 is less than .*num_strategies=4"),
        ({"strategy": {"temperature": -1}}, r"temperature=-1 is negative"),
        ({"strategy": {"top_p": 0}}, r"top_p=0 is outside"),
        ({"strategy": {"sampling": "pared"}}, r"sampling='pared' is unknown: .* \(nearest: paired\)"),
        ({"strategy": {"sampling": "paired", "num_strategies": 3}}, r"num_strategies=3 is odd.*strategies to 4"),
        ({"strategy": {"sampling": "paired", "num_candidates": 1}}, r"num_candidates=1 is less.*at least 2"),
        ({"strategy": {"merge_empty": "yes"}}, r"merge_empty='yes' is neither true nor false"),
        ({"strategy": {"deduplicate": 1}}, r"deduplicate=1 is neither true nor false"),
        ({"strategy": {"paired_template": 3}}, r"paired_template=3 is not text"),
        ({"strategy": 4}, r"algorithm\.subgroup\.strategy=4 is not a mapping"),
        ({"strategy": {"strategy_template": 3}}, r"strategy_template=3 is not text"),
    ],
)
def test_refusals_name_key_value_and_fix(section, message):
    with pytest.raises(ConfigError, match=message):
        read(subgroup=section)


@pytest.mark.parametrize(("lam", "warns"), [(1.0, False), (-1.0, False), (1.2, True), (-3, True)])
def test_large_lam_warns(lam, warns, caplog):
    with caplog.at_level(logging.WARNING):
        read(subgroup={"lam": lam})
    assert ("outside [-1, 1]" in caplog.text) is warns


@pytest.mark.parametrize(
    ("estimator", "gae", "warns"), [("grpo_subgroup", 0.3, True), ("grpo_subgroup", 1.0, False), ("gae", 0.95, False)]
)
def test_gaes_lambda_is_told_apart(estimator, gae, warns, caplog):
    with caplog.at_level(logging.WARNING):
        read(adv_estimator=estimator, lam=gae)
    assert ("algorithm.subgroup.lam=0.3 was probably meant" in caplog.text) is warns


def test_every_field_is_documented():
    import inspect

    for cls in (StrategyConfig, SubgroupConfig):
        lines = inspect.getsource(cls).splitlines()
        for name in cls.__dataclass_fields__:
            at = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{name}:"))
            assert lines[at - 1].strip().startswith("#:") or name == "strategy", name

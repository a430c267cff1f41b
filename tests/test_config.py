"""Validation of ``algorithm.subgroup``: every refusal names key, value and fix."""

import logging
from dataclasses import asdict
from itertools import pairwise

import pytest
from omegaconf import OmegaConf

from subgroup_offset import config as config_module
from subgroup_offset.config import ConfigError, StrategyConfig, SubgroupConfig
from subgroup_offset.paths import config_dir


def read(**algorithm):
    return SubgroupConfig.from_algorithm(OmegaConf.create(algorithm))


@pytest.fixture(autouse=True)
def fresh_warnings():
    config_module._warn_once.forget()


def test_defaults_are_grpo_with_the_papers_strategy_stage():
    config = SubgroupConfig.from_algorithm(None)
    assert config.lam == 0 and config.std == "sample" and not config.shuffle_offsets
    assert config.strategy.slot_sizes(32) == (8, 8, 8, 8)
    assert config.strategy.num_candidates == 8 and config.strategy.max_tokens == 256


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
        ({"lambda": 0.3}, r"lambda=0\.3 .* did you mean algorithm\.subgroup\.lam\?"),
        (
            {"temperature": 0.7},
            r"subgroup\.temperature=0\.7 .* did you mean algorithm\.subgroup\.strategy\.temperature\?",
        ),
        ({"candidates": 9}, r"did you mean algorithm\.subgroup\.strategy\.num_candidates\?"),
        ({"strategy": {"lam": 0.3}}, r"strategy\.lam=0\.3 .* did you mean algorithm\.subgroup\.lam\?"),
        (
            {"clip_ratio": 0.2},
            r"clip_ratio=0\.2 is not a known setting: use one of lam, std, .*, strategy \(documented in",
        ),
        (
            {"strategy": {"gamma": 1}},
            r"strategy\.gamma=1 is not a known setting: use one of num_strategies, .*_template \(",
        ),
        ({3: 4}, r"algorithm\.subgroup\.3=4 is not a known setting: use one of"),
        ({"strategy": {"selecton": "diverse"}}, r"strategy\.selecton='diverse' .*strategy\.selection\?"),
        ({"lam": "a"}, r"algorithm\.subgroup\.lam='a' is not a finite number"),
        ({"lam": True}, r"algorithm\.subgroup\.lam=True is not a finite number"),
        ({"lam": float("nan")}, r"lam=nan is not a finite number"),
        (
            {"std": "smaple"},
            r"std='smaple' is unknown: use one of sample, population, none \(did you mean sample\?\)\.",
        ),
        ({"std": "variance"}, r"std='variance' is unknown: use one of sample, population, none\.$"),
        ({"checks": "warm"}, r"checks='warm' is unknown: use one of error, warn, off \(did you mean warn\?\)"),
        ({"shuffle_offsets": "yes"}, r"shuffle_offsets='yes' is neither"),
        ({"seed": 0.5}, r"seed=0\.5 is not a whole number"),
        ({"strategy": {"num_strategies": 0}}, r"num_strategies=0 is too small"),
        ({"strategy": {"num_candidates": 3}}, r"num_candidates=3 is less than .*num_strategies=4"),
        ({"strategy": {"temperature": -1}}, r"temperature=-1 is negative"),
        ({"strategy": {"top_p": 0}}, r"top_p=0 is outside"),
        ({"strategy": {"sampling": "pared"}}, r"sampling='pared' is unknown: .* \(did you mean paired\?\)"),
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


def test_off_is_off_in_yaml_too():
    assert SubgroupConfig.from_algorithm(OmegaConf.create("subgroup: {checks: off}")).checks == "off"


def test_the_composed_config_has_every_setting_with_its_default_and_a_comment():
    """``--cfg job`` shows them, and a command line sets them without a plus."""
    lines = (config_dir() / "hydra/env/subgroup_offset.yaml").read_text().splitlines()
    assert OmegaConf.to_container(OmegaConf.create("\n".join(lines))) == asdict(SubgroupConfig())
    uncommented = {"strategy", "top_p", "paired_template", "execution_template"}  # the line above speaks for them, too
    for before, line in pairwise(lines):
        name = line.split(":")[0].strip()
        assert line.strip()[:1] in ("#", "") or before.strip().startswith("#") or name in uncommented, line


@pytest.mark.parametrize("method", ["grpo", "contrast"])
def test_a_default_yields_to_whatever_else_is_set(compose, method):
    word = f"+subgroup_offset={method}"
    assert asdict(SubgroupConfig.from_algorithm(compose("ppo_trainer", word).algorithm)) == asdict(SubgroupConfig()) | {
        "name": method,
        "lam": -0.3 if method == "contrast" else 0.0,
    }
    section = "algorithm.subgroup"
    one_line = [f"{section}.strategy.data_dir=DIR", f"{section}.strategy.sampling=paired", f"{section}.std=none"]
    read_config = SubgroupConfig.from_algorithm(compose("ppo_trainer", *one_line, word).algorithm)
    assert (read_config.strategy.data_dir, read_config.strategy.sampling, read_config.std) == ("DIR", "paired", "none")
    for order in ([word, "+recipe=olmo3_7b"], ["+recipe=olmo3_7b", word]):
        assert compose("ppo_trainer", *order).algorithm.subgroup.strategy.sampling == "paired"
    for order in ([word, "+experiment=toy"], ["+experiment=toy", word]):
        strategy = compose("ppo_trainer", *order, "toy_dir=x").algorithm.subgroup.strategy
        assert (strategy.max_tokens, strategy.rollouts_per_strategy) == (64, 4)


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

"""The word for a method is enough on a command line that trains GRPO and has never heard of this package."""

import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from stock_gsm8k import GSM8K, as_overrides
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.paths import config_dir
from subgroup_offset.preflight import MANAGER_NAME

#: What a method cannot do without.
NEEDED = {"verigate": ["algorithm.subgroup.method.verigate.url=http://prm:8000"]}
METHODS = sorted(path.stem for path in (config_dir() / "subgroup_offset").glob("*.yaml"))

ACTOR, ROLLOUT, DATA = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "data"
GRPO = ["algorithm.adv_estimator=grpo", f"{ROLLOUT}.name=vllm"]
FIXED_BATCHES = [f"{ACTOR}.ppo_micro_batch_size_per_gpu=4", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=8"]
# Command lines as people write them for GRPO, and how many rollouts each of their strategies then has.
LINES = {
    "gsm8k": ([*as_overrides(GSM8K)], (3, 2)),
    "math, no KL, asymmetric clip": (
        [
            *GRPO,
            *(
                f"{DATA}.{files}=math/{split}.parquet"
                for files, split in (("train_files", "train"), ("val_files", "test"))
            ),
            f"{DATA}.train_batch_size=256",
            f"{DATA}.max_response_length=8192",
            f"{ACTOR}.use_kl_loss=False",
            f"{ACTOR}.clip_ratio_high=0.28",
            f"{ACTOR}.loss_agg_mode=token-mean",
            f"{ACTOR}.use_dynamic_bsz=True",
            f"{ROLLOUT}.n=8",
            "reward.reward_manager.name=dapo",
            "algorithm.filter_groups.enable=True",
        ],
        (2, 2, 2, 2),
    ),
    "code, Dr.GRPO": (
        [
            *GRPO,
            *FIXED_BATCHES,
            f"{DATA}.train_files=code.parquet",
            "algorithm.norm_adv_by_std_in_grpo=False",
            f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm",
            f"{ACTOR}.use_kl_loss=False",
            f"{ROLLOUT}.n=16",
        ],
        (4, 4, 4, 4),
    ),
    "tools, several turns": (
        [
            *GRPO,
            f"{ACTOR}.use_dynamic_bsz=True",
            f"{ROLLOUT}.n=4",
            f"{ROLLOUT}.multi_turn.enable=True",
            f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
            f"{DATA}.return_raw_chat=True",
        ],
        (2, 2),
    ),
    "a pair, for a laptop": ([*GRPO, *FIXED_BATCHES, f"{ROLLOUT}.n=2", "trainer.n_gpus_per_node=1"], (1, 1)),
    "several data sets, KL in the reward": (
        [
            *GRPO,
            f"{ACTOR}.use_dynamic_bsz=True",
            f"{DATA}.train_files=[gsm8k/train.parquet,math/train.parquet]",
            "algorithm.use_kl_in_reward=True",
            "algorithm.kl_ctrl.kl_coef=0.001",
            f"{ROLLOUT}.n=6",
        ],
        (2, 2, 2),
    ),
}


def validate(config):
    """As ``main_ppo`` does at its start."""
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_for_grpo_takes_the_word(compose, capsys, line):
    command, sizes = LINES[line]
    without = compose("ppo_trainer", *command)
    config = compose("ppo_trainer", *command, "+subgroup_offset=contrast")
    validate(config)
    printed = [text for text in capsys.readouterr().out.splitlines() if text.startswith("subgroup_offset: ")]
    taken_over = "algorithm.adv_estimator=grpo is now grpo_subgroup, for algorithm.subgroup.name=contrast."
    assert printed[0] == f"subgroup_offset: {taken_over}"
    n = without.actor_rollout_ref.rollout.n
    spread = f"rollout.n={n} over {len(sizes)} strategies: {' + '.join(map(str, sizes))} rollouts ("
    assert len(printed) == 1 if sizes == (n // 4,) * 4 else len(printed) == 2 and spread in printed[1]
    subgroup = SubgroupConfig.from_algorithm(config.algorithm)
    assert (subgroup.lam, subgroup.strategy.slot_sizes(n)) == (-0.3, sizes)
    assert subgroup.std == ("none" if "Dr.GRPO" in line else "sample")
    # All else is as it was.
    OmegaConf.set_struct(config, False)
    del config.algorithm["subgroup"], config.actor_rollout_ref.rollout.agent["agent_loop_manager_class"]
    assert config.algorithm.adv_estimator == "grpo_subgroup"
    config.algorithm.adv_estimator = "grpo"
    assert config == without


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_word(compose, method):
    config = compose("ppo_trainer", *as_overrides(GSM8K), f"+subgroup_offset={method}", *NEEDED.get(method, ()))
    validate(config)
    assert (config.algorithm.adv_estimator, config.algorithm.subgroup.name) == ("grpo_subgroup", method)
    manager = config.actor_rollout_ref.rollout.agent.get("agent_loop_manager_class")
    subgroup = SubgroupConfig.from_algorithm(config.algorithm)
    if any(found.needs_labels or found.sees_groups for found in subgroup.methods().values()) or subgroup.lam != 0:
        assert manager == MANAGER_NAME
    else:
        assert manager in (None, MANAGER_NAME)
        assert manager == MANAGER_NAME or method not in ("strategy_grpo", "grpo_labelled")


def test_the_word_stands_anywhere_and_beside_settings_of_its_own(compose):
    own = ["algorithm.subgroup.lam=0.5", "algorithm.subgroup.strategy.num_strategies=2"]
    config = compose("ppo_trainer", "+subgroup_offset=contrast", *own, *as_overrides(GSM8K))
    validate(config)
    assert config.algorithm.adv_estimator == "grpo_subgroup"
    assert SubgroupConfig.from_algorithm(config.algorithm).strategy.slot_sizes(5) == (3, 2)


@pytest.mark.parametrize("estimator", ["gae", "rloo", "grpo_vectorized", "reinforce_plus_plus"])
@pytest.mark.parametrize("method", ["contrast", "grpo"])
def test_another_estimator_is_not_taken_over(compose, estimator, method):
    line = [
        *as_overrides(GSM8K),
        f"algorithm.adv_estimator={estimator}",
        "critic.enable=False",
        f"+subgroup_offset={method}",
    ]
    with pytest.raises(
        ConfigError, match=f"adv_estimator={estimator} cannot follow algorithm.subgroup.name={method}: set"
    ):
        validate(compose("ppo_trainer", *line))


def test_numbers_that_contradict_each_other_are_refused(compose):
    line = [*as_overrides(GSM8K), "+subgroup_offset=contrast", "algorithm.subgroup.strategy.rollouts_per_strategy=8"]
    with pytest.raises(ConfigError, match=r"rollout\.n=5 is not num_strategies \* rollouts_per_strategy = 4 \* 8"):
        validate(compose("ppo_trainer", *line))
    with pytest.raises(ConfigError, match=r"rollout\.n=5 is not num_strategies \* rollouts_per_strategy = 4 \* 8"):
        validate(compose("contrast", "+recipe=qwen3_8b", f"{ROLLOUT}.n=5"))


def test_a_run_without_the_word_keeps_its_estimator(compose, capsys):
    for line in ([], ["+recipe=olmo3_7b"]):  # a recipe alone names no method
        config = compose("ppo_trainer", *line, *as_overrides(GSM8K))
        validate(config)
        assert config.algorithm.adv_estimator == "grpo"
    assert "subgroup_offset:" not in capsys.readouterr().out


def test_a_config_that_is_read_only_is_taken_over_too(compose):
    config = compose("ppo_trainer", *as_overrides(GSM8K), "+subgroup_offset=contrast")
    OmegaConf.set_readonly(config, True)
    validate(config)
    assert config.algorithm.adv_estimator == "grpo_subgroup"
    assert OmegaConf.is_readonly(config.algorithm)


def test_verls_own_main_hands_the_changed_config_to_the_run(tmp_path):
    """All of ``python -m verl.trainer.main_ppo`` but the run itself."""
    code = (
        "from verl.trainer import main_ppo\n"
        "main_ppo.run_ppo = lambda config, task_runner_class: print('RUN', config.algorithm.adv_estimator)\n"
        "main_ppo.main()"
    )
    line = [*as_overrides(GSM8K), "+subgroup_offset=contrast", f"hydra.run.dir={tmp_path}"]
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "\nRUN grpo_subgroup\n" in done.stdout
    assert done.stdout.count("is now grpo_subgroup") == done.stdout.count("3 + 2 rollouts") == 1

"""The paper's recipe, row by row of its Table 5, as verl's own dataclasses and functions read the composed config."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import PPOTrainer
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.torch_functional import get_constant_schedule_with_warmup
from verl.workers.config import FSDPActorConfig, RolloutConfig
from verl.workers.config.optimizer import build_optimizer

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.paths import config_dir

METHODS = sorted(path.stem for path in (config_dir() / "subgroup_offset").glob("*.yaml"))
RECIPES = ("qwen3_8b", "olmo3_7b")


@dataclass(frozen=True)
class Run:
    """A composed run with what verl's processes make of it."""

    config: DictConfig
    actor: FSDPActorConfig
    rollout: RolloutConfig
    subgroup: SubgroupConfig


@cache
def composed(*overrides: str, name: str = "ppo_trainer") -> DictConfig:
    """The config of a command line; each is composed once."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(name, list(overrides))


def read(config: DictConfig) -> Run:
    return Run(
        config,
        omega_conf_to_dataclass(config.actor_rollout_ref.actor),
        omega_conf_to_dataclass(config.actor_rollout_ref.rollout),
        SubgroupConfig.from_algorithm(config.algorithm),
    )


def optimizer(run: Run) -> torch.optim.Optimizer:
    return build_optimizer([torch.nn.Parameter(torch.zeros(1))], run.actor.optim)


def learning_rates(run: Run) -> list[float]:
    """Of the first 300 training steps, as verl's FSDP engine schedules them: it advances once a step."""
    assert run.actor.optim.lr_scheduler_type == "constant"
    schedule = get_constant_schedule_with_warmup(optimizer(run), run.actor.optim.lr_warmup_steps)
    rates = []
    for _ in range(300):
        rates.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    return rates


def warmup(run: Run) -> int:
    """Steps until the learning rate is what it stays."""
    rates = learning_rates(run)
    return next(step for step, rate in enumerate(rates) if rate == rates[-1])


def mini_batch(run: Run) -> float:
    """Prompts of an update, from the number of rows that verl's trainer fills a batch up to a multiple of."""
    trainer = SimpleNamespace(use_critic=False, config=run.config, global_steps=1)
    return PPOTrainer._get_required_batch_multiple(trainer, dp_size=1) / run.rollout.n


# Row of the paper's Table 5, its values for Qwen3 and Olmo3, where the run has it.
TABLE_5: list[tuple[str, Any, Any, Callable[[Run], Any]]] = [
    (
        "Base models",
        "Qwen/Qwen3-8B-Base",
        "allenai/Olmo-3-1025-7B",
        lambda run: run.config.actor_rollout_ref.model.path,
    ),
    ("Training data", *["data/dapo.parquet"] * 2, lambda run: run.config.data.train_files),
    ("Advantage estimator", *["grpo_subgroup"] * 2, lambda run: run.config.algorithm.adv_estimator),
    (
        "Clip low / high / dual",
        *[(0.2, 0.28, 10.0)] * 2,
        lambda run: (run.actor.clip_ratio_low, run.actor.clip_ratio_high, run.actor.clip_ratio_c),
    ),
    ("KL penalty", *[(False, False)] * 2, lambda run: (need_reference_policy(run.config), run.actor.use_kl_loss)),
    ("Entropy bonus", *[0] * 2, lambda run: run.actor.entropy_coeff),
    ("Loss aggregation", *["token-mean"] * 2, lambda run: run.actor.loss_agg_mode),
    ("Policy loss", *["vanilla"] * 2, lambda run: run.actor.policy_loss.loss_mode),
    ("Dynamic sampling", *[False] * 2, lambda run: run.config.algorithm.filter_groups.enable),
    ("Optimizer", *[torch.optim.AdamW] * 2, lambda run: type(optimizer(run))),
    ("Learning rate (constant)", *[{1e-6}] * 2, lambda run: set(learning_rates(run)[warmup(run) :])),
    ("Warmup steps", *[10] * 2, warmup),
    ("Weight decay", *[0.1] * 2, lambda run: optimizer(run).param_groups[0]["weight_decay"]),
    ("Gradient clip", *[1.0] * 2, lambda run: run.actor.optim.clip_grad),
    ("Global batch size (prompts)", *[256] * 2, lambda run: run.config.data.train_batch_size),
    ("Mini-batch size (prompts)", *[32] * 2, mini_batch),
    ("Strategies per prompt K", *[4] * 2, lambda run: run.subgroup.strategy.num_strategies),
    ("Rollouts per strategy Z", *[8] * 2, lambda run: run.subgroup.strategy.rollouts_per_strategy),
    ("Rollouts per prompt N", *[32] * 2, lambda run: run.rollout.n),
    ("Strategy temperature", *[1.0] * 2, lambda run: run.subgroup.strategy.temperature),
    (
        "Rollout temperature, top-p, top-k",
        *[(1.0, 1.0, -1)] * 2,
        lambda run: (run.rollout.temperature, run.rollout.top_p, run.rollout.top_k),
    ),
    ("Strategy max tokens", *[256] * 2, lambda run: run.subgroup.strategy.max_tokens),
    (
        "Max prompt / response len",
        *[(2048, 20480)] * 2,
        lambda run: (run.rollout.prompt_length, run.rollout.response_length),
    ),
    (
        "Overlong buffer len / penalty",
        *[(4096, 1.0)] * 2,
        lambda run: (
            run.config.reward.reward_kwargs.overlong_buffer_cfg.len,
            run.config.reward.reward_kwargs.overlong_buffer_cfg.penalty_factor,
        ),
    ),
    ("Training steps", 130, 260, lambda run: run.config.trainer.total_training_steps),
    ("Checkpoint interval", *[10] * 2, lambda run: run.config.trainer.save_freq),
    # Not in the table: the appendix on strategies, the evaluation, the hardware.
    ("Strategy sampling", "independent", "paired", lambda run: run.subgroup.strategy.sampling),
    ("Strategy-stage calls per prompt", *[8] * 2, lambda run: run.subgroup.strategy.num_candidates),
    ("Strategy selection", *["diverse"] * 2, lambda run: run.subgroup.strategy.selection),
    (
        "Validation do_sample, temperature, top-p, samples",
        *[(True, 0.7, 1.0, 16)] * 2,
        lambda run: tuple(run.rollout.val_kwargs[key] for key in ("do_sample", "temperature", "top_p", "n")),
    ),
    ("Nodes x GPUs", *[(2, 8)] * 2, lambda run: (run.config.trainer.nnodes, run.config.trainer.n_gpus_per_node)),
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_table_5(recipe):
    run = read(composed(f"+recipe={recipe}", "+subgroup_offset=contrast"))
    column = 1 + RECIPES.index(recipe)
    assert {row[0]: row[3](run) for row in TABLE_5} == {row[0]: row[column] for row in TABLE_5}


def leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by their dotted keys."""
    if not isinstance(node, dict):
        return {prefix: node}
    return {k: v for key, value in node.items() for k, v in leaves(value, f"{prefix}.{key}".lstrip(".")).items()}


def flat(config: DictConfig) -> dict[str, Any]:
    """All leaves of a config, interpolations resolved."""
    return leaves(OmegaConf.to_container(config, resolve=True))


@pytest.mark.parametrize("recipe", RECIPES)
def test_truncated_importance_sampling_is_one_word(recipe):
    """In either order; off without it, and then nothing else differs."""
    without, with_it = (
        composed(f"+recipe={recipe}", name="contrast"),
        composed(f"+recipe=[{recipe},tis]", name="contrast"),
    )
    assert with_it == composed(f"+recipe=[tis,{recipe}]", name="contrast")
    validate_config(with_it.copy(), need_reference_policy(with_it), need_critic(with_it))
    before, after = flat(without), flat(with_it)
    differing = {key: value for key, value in after.items() if before.get(key) != value}
    named = {key for key in differing if key.endswith(("experiment_name", "default_local_dir"))} | {"name_suffix"}
    assert {key: differing[key] for key in differing.keys() - named} == {
        "algorithm.rollout_correction.rollout_is": "token"
    }
    assert before["algorithm.rollout_correction.rollout_is"] is None
    assert after["algorithm.rollout_correction.rollout_is_threshold"] == 2.0
    # A token whose ratio is over the bound counts twice, as verl weighs it.
    settings = with_it.algorithm.rollout_correction
    rollout, old = torch.log(torch.tensor([[0.1, 0.5, 0.4]])), torch.log(torch.tensor([[0.9, 0.5, 0.2]]))
    weights, _, _ = compute_rollout_correction_and_rejection_mask(
        old_log_prob=old,
        rollout_log_prob=rollout,
        response_mask=torch.ones(1, 3),
        rollout_is=settings.rollout_is,
        rollout_is_threshold=settings.rollout_is_threshold,
    )
    torch.testing.assert_close(weights.batch["rollout_is_weights"], torch.tensor([[2.0, 1.0, 0.5]]))


def test_data_from_one_directory():
    data = composed("+recipe=qwen3_8b", "data_dir=/somewhere").data
    assert data.train_files == "/somewhere/dapo.parquet"
    assert list(data.val_files) == [f"/somewhere/{name}.parquet" for name in ("aime24", "aime25", "aime26", "hmmt25")]


def test_every_key_of_a_recipe_is_in_verls_schema():
    """A key that verl does not know would be carried along and do nothing."""
    schema = flat(composed())
    # Read by verl's dapo reward manager, by this package, by vLLM, and by the recipe's own paths.
    added = ("reward.reward_kwargs.", "algorithm.subgroup.", "data_dir", "name_suffix")
    added += ("actor_rollout_ref.rollout.engine_kwargs.vllm.watermark",)
    for path in sorted((config_dir() / "recipe").glob("*.yaml")):
        keys = leaves(OmegaConf.to_container(_recipe(path.stem)))
        assert [key for key in keys if key not in schema and not key.startswith(added)] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_smoke_run_is_short_and_otherwise_the_recipe(recipe, caplog):
    smoke = composed(f"+recipe=[{recipe},smoke]", name="contrast")
    with caplog.at_level(logging.WARNING, logger="subgroup_offset"):
        validate_config(smoke, need_reference_policy(smoke), need_critic(smoke))
    assert not [record for record in caplog.records if record.name.startswith("subgroup_offset")]
    run = read(smoke)
    assert run.config.trainer.total_training_steps == run.config.trainer.save_freq == 2
    assert run.rollout.prompt_length + run.rollout.response_length == run.rollout.max_model_len == 4096
    assert run.config.data.train_batch_size == 4 * mini_batch(run) == 32
    # Of the recipe's own keys it changes no other.
    full, changed = flat(composed(f"+recipe={recipe}", name="contrast")), flat(smoke)
    differing = {key for key, value in changed.items() if full.get(key) != value}
    smokes = OmegaConf.load(config_dir() / "recipe" / "smoke.yaml")
    recipes = {key for name in ("dapo", recipe) for key in leaves(OmegaConf.to_container(_recipe(name)))}
    assert differing & recipes <= leaves(OmegaConf.to_container(smokes)).keys() | {
        "reward.reward_kwargs.max_resp_len",
        "trainer.experiment_name",
    }


def _recipe(name: str) -> DictConfig:
    recipe = OmegaConf.load(config_dir() / "recipe" / f"{name}.yaml")
    recipe.pop("defaults", None)
    return recipe


@pytest.mark.parametrize("recipe", RECIPES)
def test_sizes_fit_each_other(recipe):
    run = read(composed(f"+recipe={recipe}", "+subgroup_offset=contrast"))
    trainer, rollout, engine = run.config.trainer, run.rollout, run.actor.engine
    gpus, sequence_parallel = trainer.nnodes * trainer.n_gpus_per_node, engine.ulysses_sequence_parallel_size
    longest = rollout.prompt_length + rollout.response_length
    # verl stops where a sequence exceeds the tokens of a micro-batch (seqlen_balancing.py), in whichever step it comes.
    assert run.actor.use_dynamic_bsz and run.actor.ppo_max_token_len_per_gpu * sequence_parallel >= longest
    assert rollout.log_prob_use_dynamic_bsz and rollout.log_prob_max_token_len_per_gpu * sequence_parallel >= longest
    assert rollout.max_model_len == longest == 22528
    assert run.subgroup.strategy.max_tokens + rollout.prompt_length <= rollout.max_model_len
    assert run.config.reward.reward_kwargs.max_resp_len == rollout.response_length
    # Mini-batches split over the data-parallel ranks; groups of GPUs inside a node.
    assert run.actor.ppo_mini_batch_size * rollout.n % (gpus // sequence_parallel) == 0
    assert (
        trainer.n_gpus_per_node % sequence_parallel == trainer.n_gpus_per_node % rollout.tensor_model_parallel_size == 0
    )
    # What the engine reads, through verl's interpolations.
    assert engine.strategy == "fsdp2" and engine.entropy_from_logits_with_chunking and engine.forward_prefetch
    assert run.config.actor_rollout_ref.model.use_remove_padding and run.actor.use_remove_padding

"""Real questions, a real model, a foreign tokenizer and chat template: GSM8K with SmolLM2-135M.

Nearly none of its previews extract, so this is the run of the fall-back path.
"""

from __future__ import annotations

import pytest
from smollm2 import write_model
from stock_gsm8k import GSM8K, as_overrides

from subgroup_offset.cluster.launch import TrainingRun
from subgroup_offset.data.prepare import prepare
from subgroup_offset.strategy.dump import read_rollouts

PROMPTS = 1
#: The stock settings' five rollouts a prompt, over as many strategies as get two at least.
N, K, SIZES = 5, 2, (2, 3)


#: Of the stock settings, those that are for machines with GPUs, or for a larger model.
HERE = [
    "+platform=cpu",
    "data.max_prompt_length=768",
    "data.max_response_length=64",
    f"data.train_batch_size={PROMPTS}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
    "actor_rollout_ref.model.use_remove_padding=False",
    "actor_rollout_ref.model.enable_gradient_checkpointing=False",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=512",
    "actor_rollout_ref.ref.fsdp_config.param_offload=False",
    "trainer.total_training_steps=1",
    "trainer.val_before_train=False",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
]


@pytest.mark.slow
def test_stock_gsm8k_settings_with_one_override(shared_data, tmp_path):
    """verl's own GRPO settings, single-stage until ``+subgroup_offset=contrast`` is added, KL loss and all."""
    model, rollouts = tmp_path / "model", tmp_path / "run" / "rollouts"
    write_model(model)
    report = prepare(
        "gsm8k",
        source=str(shared_data / "gsm8k_train.jsonl"),
        split="train",
        instruction="gsm8k",
        limit=8,
        output=tmp_path / "gsm8k.parquet",
    )
    overrides = [
        *as_overrides(GSM8K),
        f"data.train_files={report.path}",
        f"data.val_files={report.path}",
        f"actor_rollout_ref.model.path={model}",
        "+subgroup_offset=contrast",
        "algorithm.subgroup.strategy.num_candidates=4",
        "algorithm.subgroup.strategy.max_tokens=64",
        *HERE,
        "trainer.logger=[file]",
        f"trainer.rollout_data_dir={rollouts}",
    ]
    steps = TrainingRun(tmp_path / "run", overrides).wait(timeout=850)
    assert [s.step for s in steps] == [1]
    for step in steps:
        m = step.metrics
        assert m["subgroup/groups"] == PROMPTS and m["subgroup/rows_total"] == PROMPTS * N
        # Where both slots are empty they are one subgroup.
        if m["strategy/empty_slots"] < 1:
            assert m["subgroup/subgroups_per_group_max"] == K
            assert (m["subgroup/rollouts_per_subgroup_min"], m["subgroup/rollouts_per_subgroup_max"]) == SIZES
        assert "actor/kl_loss" in m
        assert m["strategy/failed_requests"] == m["strategy/skipped_prompts"] == 0
        # Slots without a usable preview ran the plain prompt, and are counted.
        rows = read_rollouts(rollouts / f"{step.step}.jsonl")
        slots = {row.session >= max(SIZES) for row in rows if "[KEY CONDITIONS]" in row.input}
        assert m["strategy/empty_slots"] == pytest.approx(1 - len(slots) / K)
        assert all('after "####"' in row.input for row in rows)
    log = (tmp_path / "run" / "log.txt").read_text(errors="replace")
    assert "algorithm.adv_estimator=grpo is now grpo_subgroup" in log and "over 2 strategies: 3 + 2 rollouts" in log

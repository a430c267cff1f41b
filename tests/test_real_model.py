"""Real questions, a real model, a foreign tokenizer and chat template: GSM8K with SmolLM2-135M.

Nearly none of its previews extract, so this is the run of the fall-back path.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from smollm2 import write_model

from subgroup_offset.launch import TrainingRun
from subgroup_offset.reports.prompt_table import read_rollouts

PROMPTS = K = Z = 2


def write_gsm8k(source: Path, target: Path, count: int) -> None:
    """The first questions of a JSONL file in the columns verl reads, with verl's own GSM8K instruction and reward."""
    instruction = 'Let\'s think step by step and output the final answer after "####".'
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()[:count]]
    pd.DataFrame(
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"{row['problem']} {instruction}"}],
            "reward_model": {"style": "rule", "ground_truth": row["answer"]},
            "extra_info": {"index": i, "split": "train"},
        }
        for i, row in enumerate(rows)
    ).to_parquet(target)


@pytest.mark.slow
def test_gsm8k_with_smollm2(shared_data, tmp_path):
    model, questions, rollouts = tmp_path / "model", tmp_path / "gsm8k.parquet", tmp_path / "run" / "rollouts"
    write_model(model)
    write_gsm8k(shared_data / "gsm8k_train.jsonl", questions, count=8)
    overrides = [
        "--config-name=contrast",
        "+platform=cpu",
        f"data.train_files={questions}",
        f"data.val_files={questions}",
        f"actor_rollout_ref.model.path={model}",
        "data.max_prompt_length=768",
        "data.max_response_length=128",
        f"data.train_batch_size={PROMPTS}",
        f"algorithm.subgroup.strategy.num_strategies={K}",
        f"algorithm.subgroup.strategy.rollouts_per_strategy={Z}",
        "algorithm.subgroup.strategy.num_candidates=4",
        "+algorithm.subgroup.strategy.max_tokens=96",
        f"actor_rollout_ref.rollout.n={K * Z}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048",
        "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=512",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.logger=[file]",
        f"trainer.rollout_data_dir={rollouts}",
    ]
    steps = TrainingRun(tmp_path / "run", overrides).wait(timeout=850)
    assert [s.step for s in steps] == [1, 2]
    for step in steps:
        m = step.metrics
        assert m["subgroup/groups"] == PROMPTS and m["subgroup/rows_total"] == PROMPTS * K * Z
        assert m["subgroup/subgroups_per_group_min"] == m["subgroup/subgroups_per_group_max"] == K
        assert m["strategy/failed_requests"] == m["strategy/skipped_prompts"] == 0
        # Slots without a usable preview ran the plain prompt, and are counted.
        rows = read_rollouts(rollouts / f"{step.step}.jsonl")
        plain = sum("[KEY CONDITIONS]" not in row.input for row in rows)
        assert m["strategy/empty_slots"] == pytest.approx(plain / len(rows))
        assert all('after "####"' in row.input for row in rows)

"""Methods together in a real run: Contrast with GAPO's clipping and OC-GRPO's weights, and a stranger's method.

The stranger's writes down what TransferQueue has of the rows; what verl logged is computed again from that.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import pytest
import strange_method
from toy_run import toy_overrides

from subgroup_offset.cluster.launch import TrainingRun
from subgroup_offset.labels import RolloutLabel

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parent
PROMPTS, ROLLOUTS, STEPS = 8, 16, 2


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """Two steps of four mini-batches: metrics of each step, and the stranger's notes on it."""
    directory = tmp_path_factory.mktemp("methods")
    strange_method.install(directory / "site")
    notes = directory / "notes.jsonl"
    path = f"{directory / 'site'}:{TESTS}:{TESTS.parent}"
    overrides = [
        *toy_overrides(toy, PROMPTS),
        "+subgroup_method=[gapo,oc_grpo]",
        f"+algorithm.subgroup.method.notebook.file={notes}",
        "algorithm.subgroup.offset_shrinkage=batch",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH='{path}'",
        "trainer.val_before_train=False",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.rollout_data_dir={directory}/rollouts",
    ]
    overrides = [o for o in overrides if not o.startswith("actor_rollout_ref.actor.ppo_mini_batch_size")]
    overrides += [f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS // 4}"]
    run = TrainingRun(directory / "run", overrides, env={"PYTHONPATH": path})
    steps = [step.metrics for step in run.wait(timeout=600)]
    return steps, [json.loads(line) for line in notes.read_text().splitlines()]


def test_every_step_has_notes_on_all_rows(run):
    steps, notes = run
    assert len(steps) == len(notes) == STEPS
    for note in notes:
        assert len(note["uid"]) == PROMPTS * ROLLOUTS
        assert len({RolloutLabel.decode(uid).prompt for uid in note["uid"]}) == PROMPTS


def test_rows_are_trained_under_the_plain_prompt(run):
    for metrics, note in zip(*run, strict=True):
        prompts = defaultdict(set)
        for uid, ids in zip(note["uid"], note["prompts"], strict=True):
            prompts[RolloutLabel.decode(uid).prompt].add(tuple(ids))
        assert all(len(of_prompt) == 1 for of_prompt in prompts.values())
        assert metrics["oc/rows_swapped_count"] == sum(note["sgo_guided"]) > PROMPTS
        assert metrics["oc/rows_not_swapped_count"] == 0


def test_the_logged_weights_follow_from_the_rows(run):
    for metrics, note in zip(*run, strict=True):
        weights, gaps = [], []
        for guided, mask, old, sampled in zip(
            note["sgo_guided"], note["response_mask"], note["old_log_probs"], note["rollout_log_probs"], strict=True
        ):
            for token, there in enumerate(mask):
                if there and guided:
                    weights.append(min(1.0, max(0.01, math.exp(old[token] - sampled[token]))))
                elif there:
                    gaps.append(abs(old[token] - sampled[token]))
        assert metrics["oc/weight_mean"] == pytest.approx(sum(weights) / len(weights), rel=1e-4)
        assert metrics["oc/weight_mean"] < 1 and all(gap < 1e-3 for gap in gaps)
        if gaps:
            assert metrics["oc/engine_gap"] < 1e-3


def test_the_logged_bounds_follow_from_the_groups(run):
    for metrics, note in zip(*run, strict=True):
        successes = defaultdict(float)
        for uid, success in zip(note["uid"], note["success"], strict=True):
            successes[RolloutLabel.decode(uid).prompt] += success
        bounds = [0.2 + 0.08 * (ROLLOUTS - max(1, c)) / (ROLLOUTS - 1) for c in successes.values() if c < ROLLOUTS]
        assert metrics["actor/gapo_eps_max"] == pytest.approx(max(bounds), abs=1e-6)
        assert metrics["actor/gapo_eps_min"] >= 0.2


def test_offsets_are_shrunk_to_their_reliability(run):
    for metrics, note in zip(*run, strict=True):
        rewards = defaultdict(lambda: defaultdict(list))
        for uid, reward in zip(note["uid"], note["reward"], strict=True):
            label = RolloutLabel.decode(uid)
            rewards[label.prompt][label.subgroup].append(reward)
        assert 0 <= metrics["subgroup/offset_reliability"] <= 1
        raw = []
        for subgroups in rewards.values():
            flat = [reward for subgroup in subgroups.values() for reward in subgroup]
            mean = sum(flat) / len(flat)
            raw += [abs(sum(subgroup) / len(subgroup) - mean) for subgroup in subgroups.values() for _ in subgroup]
        raw_mean = sum(raw) / len(raw)
        if len({len(s) for subgroups in rewards.values() for s in subgroups.values()}) == 1:
            assert metrics["subgroup/abs_offset"] == pytest.approx(
                raw_mean * metrics["subgroup/offset_reliability"], rel=1e-4
            )
        assert metrics["subgroup/abs_offset"] <= raw_mean + 1e-6

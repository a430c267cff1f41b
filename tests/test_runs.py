"""Real runs of ``python -m verl.trainer.main_ppo`` on the CPU: verl, FSDP, vLLM, Ray and the weight sync between them.

Each run takes minutes, so one run answers many questions.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from subgroup_offset.cluster.launch import read_run_steps
from subgroup_offset.evaluation.samples import read_samples
from subgroup_offset.reports.prompt_table import Rollout, read_rollouts
from subgroup_offset.strategy import extract_preview

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
K = Z = 4
PROMPTS = 8
STEPS = 3

STEP_METRICS = {
    *(f"subgroup/{k}" for k in ("informative_share", "term_ratio", "abs_offset", "constant_groups", "success_rate")),
    *(f"subgroup/{k}" for k in ("rows_total", "rows_masked", "rows_nonfinite", "groups")),
    *(f"strategy/{k}" for k in ("usable_per_candidate", "empty_slots", "jaccard_distance", "token_share")),
    *(f"strategy/{k}" for k in ("seconds_mean", "seconds_max", "failed_requests", "overlong_prompts")),
}


class Finished:
    """A run that has ended: its directory, its logged training steps and its rollouts."""

    def __init__(self, directory: Path, rollouts: Path) -> None:
        logged = read_run_steps(directory)
        self.directory, self._rollouts = directory, rollouts
        self.validation = [s for s in logged if s.step == 0]
        self.training = [s for s in logged if s.step > 0]

    def rollouts(self, step: int) -> dict[str, list[Rollout]]:
        groups: dict[str, list[Rollout]] = defaultdict(list)
        for rollout in read_rollouts(self._rollouts / f"{step}.jsonl"):
            groups[rollout.prompt].append(rollout)
        return groups


@pytest.fixture(scope="module")
def study(toy, tmp_path_factory) -> Path:
    """The directory of a study of one run of Contrast."""
    directory = tmp_path_factory.mktemp("study")
    overrides = [
        f"data.train_batch_size={PROMPTS}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
        f"trainer.validation_data_dir={directory}/validation",
        "actor_rollout_ref.rollout.val_kwargs.n=2",
    ]
    env = {**os.environ, "METHODS": "contrast", "SEEDS": "1", "STEPS": str(STEPS)}
    command = [SCRIPTS / "toy_study", directory, *overrides]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def contrast(study) -> Finished:
    return Finished(study / "runs" / "job", study / "rollouts" / "job")


def test_the_study_is_evaluated_and_reported(study):
    evaluation = study / "runs" / "job" / "evaluation"
    graded = read_samples(evaluation / "graded.jsonl")
    assert len(graded) == 64 * 2 * 16 and not graded["correct"].isna().any()
    assert set(graded["benchmark"]) == {"toy-val"}
    report = (study / "report" / "report.md").read_text()
    row = next(line for line in report.splitlines() if line.startswith("| contrast (lam=-0.3) |"))
    assert f" {100 * graded['correct'].mean():.1f} " in row
    html = (study / "report" / "report.html").read_text()
    assert "toy-val" in html and "recall the times table" in html  # a preview, in the browser of subgroups


def test_every_prompt_reaches_the_estimator_with_k_subgroups_of_z(contrast):
    assert [s.step for s in contrast.training] == list(range(1, STEPS + 1))
    for step in contrast.training:
        m = step.metrics
        assert m["subgroup/groups"] == PROMPTS
        assert m["subgroup/rows_total"] == m["subgroup/rows_counted"] == PROMPTS * K * Z
        assert m["subgroup/subgroups_per_group_min"] == m["subgroup/subgroups_per_group_max"] == K
        assert m["subgroup/rollouts_per_subgroup_min"] == m["subgroup/rollouts_per_subgroup_max"] == Z


def test_every_step_metric_is_in_verls_log(contrast):
    for step in contrast.training:
        assert set(step.metrics) >= STEP_METRICS
        assert step.metrics["strategy/prompts"] == PROMPTS
        assert step.metrics["strategy/usable_per_candidate"] > 0.85
        assert 0 < step.metrics["strategy/token_share"] < 1
        assert 0 < step.metrics["strategy/seconds_mean"] <= step.metrics["strategy/seconds_max"]
        assert step.metrics["strategy/failed_requests"] == 0


def test_rollouts_of_a_slot_share_its_preview(contrast):
    for step in contrast.training:
        groups = contrast.rollouts(step.step)
        assert len(groups) == PROMPTS
        for group in groups.values():
            assert sorted(r.session for r in group) == list(range(K * Z))
            inputs = defaultdict(set)
            for rollout in group:
                inputs[rollout.session // Z].add(rollout.input)
            assert all(len(of_slot) == 1 for of_slot in inputs.values())
            previews = {extract_preview(of_slot.pop()) for of_slot in inputs.values()}
            assert len(previews) > 1


def test_the_logged_dynamics_follow_from_the_logged_rollouts(contrast):
    """An independent computation: informative share and mean |offset| in plain Python from verl's rollout dump."""
    for step in contrast.training:
        informative, offsets = 0, []
        for group in contrast.rollouts(step.step).values():
            mean = sum(r.score for r in group) / len(group)
            slots = [[r for r in group if r.session // Z == k] for k in range(K)]
            rates = [sum(r.score > 0 for r in slot) / Z for slot in slots]
            informative += max(rates) - min(rates) >= 0.375
            offsets += [abs(sum(r.score for r in slot) / Z - mean) for slot in slots for _ in slot]
        assert step.metrics["subgroup/informative_share"] == pytest.approx(informative / PROMPTS)
        assert step.metrics["subgroup/abs_offset"] == pytest.approx(sum(offsets) / len(offsets), abs=1e-6)


def test_the_policy_is_updated(contrast):
    assert all(s.metrics["actor/grad_norm"] > 0 for s in contrast.training)
    # The first step's rollouts come from the weights that are trained: vLLM and FSDP agree on them.
    assert all(s.metrics["training/rollout_probs_diff_mean"] < 1e-3 for s in contrast.training)


def test_validation_is_single_stage(study, contrast):
    rows = [json.loads(line) for line in (study / "validation" / "job" / "0.jsonl").read_text().splitlines()]
    assert rows and not any("[KEY" in row["input"] for row in rows)
    assert contrast.validation and not any(
        k.startswith(("subgroup/", "strategy/")) for k in contrast.validation[0].metrics
    )


def test_two_nodes(toy, tmp_path):
    """Two Ray nodes, two FSDP ranks, two vLLM replicas, two agent loop workers."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("two_nodes_cpu", SCRIPTS / "two_nodes_cpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    logged = module.train_on_two_nodes(tmp_path, toy, steps=2, timeout=850)
    training = [step for step in logged if step.step > 0]
    assert len(training) == 2
    for step in training:
        m = step.metrics
        assert m["subgroup/groups"] == 8 and m["subgroup/rows_total"] == 8 * K * Z
        assert m["subgroup/subgroups_per_group_min"] == m["subgroup/subgroups_per_group_max"] == K
        assert m["subgroup/rollouts_per_subgroup_min"] == m["subgroup/rollouts_per_subgroup_max"] == Z
        assert m["strategy/prompts"] == 8

"""Faults in a real run on two Ray nodes: two FSDP ranks, two vLLM replicas, two agent loop workers.

Strategy requests and rollouts fail, workers die in mid-step. The run has to go on, or to end with an error; never to
hang.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_loop import DEADLY_STEP, MARKS, SPEECHLESS
from toy_run import toy_overrides
from two_nodes_cpu import two_node_cluster

from subgroup_offset.cluster.launch import RunFailed, TrainingRun

TESTS = Path(__file__).resolve().parent
PROMPTS, K, Z = 8, 4, 4
#: So many steps without previews end the run.
LOW_STEPS = 2
STEPS = DEADLY_STEP + LOW_STEPS


@pytest.mark.slow
def test_failed_requests_failed_rollouts_workers_that_die_and_no_previews(toy, tmp_path):
    loops = tmp_path / "loops.yaml"
    loops.write_text("- name: faulty\n  _target_: faulty_loop.FaultyAgentLoop\n")
    overrides = [
        *toy_overrides(toy, PROMPTS),
        "actor_rollout_ref.rollout.agent.num_workers=2",
        "actor_rollout_ref.rollout.agent.agent_loop_manager_class=faulty_loop.FaultyManager",
        "actor_rollout_ref.rollout.agent.default_agent_loop=faulty",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
        "actor_rollout_ref.rollout.val_kwargs.n=2",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH='{TESTS}'",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.{MARKS}='{tmp_path}'",
        f"algorithm.subgroup.strategy.max_low_preview_steps={LOW_STEPS}",
        f"trainer.total_training_steps={STEPS + 2}",
        f"trainer.rollout_data_dir={tmp_path}/rollouts",
    ]
    logged = []
    with two_node_cluster() as cluster:
        run = TrainingRun(tmp_path / "run", [*overrides, *cluster], env={"PYTHONPATH": str(TESTS)})
        with pytest.raises(RunFailed):
            for step in run.follow(timeout=850):
                logged.append(step)
    validation, *steps = logged
    assert (tmp_path / "validation").exists() and (tmp_path / "training").exists()
    assert validation.step == 0 and any(key.startswith("val-core/") for key in validation.metrics)
    assert [s.step for s in steps] == list(range(1, STEPS + 1))
    first, last = steps[0].metrics, steps[-1].metrics
    # Nothing dies in the first step: every prompt has its K subgroups, of Z but for the rollout that fails.
    assert first["subgroup/groups"] == first["strategy/prompts"] == PROMPTS
    assert first["subgroup/subgroups_per_group_min"] == first["subgroup/subgroups_per_group_max"] == K
    assert Z - 1 <= first["subgroup/rollouts_per_subgroup_min"] <= first["subgroup/rollouts_per_subgroup_max"] == Z
    # Candidates 0 and 4 of every prompt fail; the others are enough.
    assert first["strategy/failed_requests"] == 2 * PROMPTS
    assert first["rollout/worker_restarts"] == 1 and last["rollout/worker_restarts"] == 2
    assert steps[DEADLY_STEP - 1].metrics["subgroup/groups"] < PROMPTS == last["subgroup/groups"]
    for step in steps[DEADLY_STEP:]:
        # The plain prompt's rollouts are one population.
        assert step.metrics["strategy/empty_slots"] == step.metrics["subgroup/subgroups_per_group_max"] == 1
        assert step.metrics["subgroup/abs_offset"] == 0
    for step in steps[:DEADLY_STEP]:
        m = step.metrics
        # Whatever was lost, what is trained on is labelled throughout: lam != 0 refuses anything else.
        assert m["subgroup/rows_counted"] <= PROMPTS * K * Z
        assert m["subgroup/rollouts_per_subgroup_max"] == Z
        assert m["subgroup/subgroups_per_group_max"] == K
    assert any(s.metrics["subgroup/rollouts_per_subgroup_min"] == Z - 1 for s in steps)
    log = run.log.read_text(errors="replace")
    assert "a rollout of this test fails" in log and "a strategy request of this test fails" in log
    slots = f"0 of {PROMPTS * K} strategy slots"
    assert log.count(f"Only {slots}") == LOW_STEPS and SPEECHLESS in log
    assert "RunStopped: 2 steps in a row had fewer previews" in log and "did nothing in this step" in log

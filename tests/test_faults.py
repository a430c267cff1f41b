"""Faults in a real run: strategy requests that fail, rollouts that fail, and an agent loop worker killed in mid-step.

The run has to go on, or to end with an error; never to hang.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from toy_run import toy_overrides

from subgroup_offset.launch import TrainingRun

TESTS = Path(__file__).resolve().parent
PROMPTS, K, Z = 8, 4, 4


def workers_of(run: TrainingRun) -> list[psutil.Process]:
    """The agent loop workers among the processes of a run."""
    family = psutil.Process(run.pid).children(recursive=True)
    return [p for p in family if p.is_running() and "FaultyWorker" in " ".join(p.cmdline())]


@pytest.mark.slow
def test_failed_requests_failed_rollouts_and_a_killed_worker(toy, tmp_path):
    loops = tmp_path / "loops.yaml"
    loops.write_text("- name: faulty\n  _target_: faulty_loop.FaultyAgentLoop\n")
    overrides = [
        *toy_overrides(toy, PROMPTS),
        "actor_rollout_ref.rollout.agent.num_workers=2",
        "actor_rollout_ref.rollout.agent.agent_loop_manager_class=faulty_loop.FaultyManager",
        "actor_rollout_ref.rollout.agent.default_agent_loop=faulty",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH='{TESTS}'",
        "trainer.total_training_steps=5",
        "trainer.val_before_train=False",
        f"trainer.rollout_data_dir={tmp_path}/rollouts",
    ]
    run = TrainingRun(tmp_path / "run", overrides)
    steps, killed = [], 0
    for step in run.follow(timeout=850):
        steps.append(step)
        if step.step == 1:
            victim = workers_of(run)[0]
            victim.kill()
            killed += 1
    assert killed == 1
    assert [s.step for s in steps] == [1, 2, 3, 4, 5]
    first = steps[0].metrics
    # Candidates 0 and 4 of every prompt fail; the others are enough.
    assert first["strategy/failed_requests"] == 2 * PROMPTS
    assert first["strategy/worker_restarts"] == 0 and steps[-1].metrics["strategy/worker_restarts"] == 1
    for step in steps:
        m = step.metrics
        # Whatever was lost, what is trained on is labelled throughout: lam != 0 refuses anything else.
        assert m["subgroup/rows_counted"] <= PROMPTS * K * Z
        assert m["subgroup/rollouts_per_subgroup_max"] == Z
        assert m["subgroup/subgroups_per_group_max"] == K
    assert any(s.metrics["subgroup/rollouts_per_subgroup_min"] == Z - 1 for s in steps)
    log = run.log.read_text(errors="replace")
    assert "a rollout of this test fails" in log and "a strategy request of this test fails" in log

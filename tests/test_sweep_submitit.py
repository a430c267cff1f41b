"""hydra-submitit-launcher in place of this one: its jobs are processes too, and share nothing with one override."""

from __future__ import annotations

import os

import pytest
from sweep_tools import Workplace

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="hydra-submitit-launcher is not installed")


def test_jobs_have_processes_and_checkpoints_of_their_own(tmp_path):
    place = Workplace(tmp_path)
    done = place.run(
        "hydra/launcher=submitit_local",
        "hydra.sweep.dir=sweep",
        "algorithm.subgroup.lam=0,0.3",
        "trainer.resume_mode=auto",
        # Not ${hydra:...}: verl hands its config to Ray's processes, which do not know Hydra's resolver.
        "trainer.experiment_name=lam${algorithm.subgroup.lam}",
        "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH=${trainer.experiment_name}.jsonl",
    )
    assert done.returncode == 0, done.stderr
    jobs = place.started()
    assert sorted((job["lam"], job["from"]) for job in jobs) == [(0, 0), (0.3, 0)]
    assert len({job["pid"] for job in jobs} | {os.getpid()}) == 3
    for name in ("lam0", "lam0.3"):
        checkpoints = tmp_path / "checkpoints" / "project" / name
        assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "3"

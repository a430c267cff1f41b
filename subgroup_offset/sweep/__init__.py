"""Sweeps: every job of a Hydra multirun as a training process of its own, one after another.

    python -m verl.trainer.main_ppo -m --config-name contrast algorithm.subgroup.lam=-0.3,0,0.3

Configs other than this package's take ``hydra/launcher=subgroup_offset``, on the command line or in their defaults.
Hydra's own launcher runs all jobs in one process: Ray stays initialised, and ``trainer.default_local_dir`` is the same
for all, so that the second job resumes the first one's checkpoint and trains nothing.

``hydra.sweep.dir`` (by default ``outputs/sweeps/<config>/<recipe, experiment or trainer.experiment_name>``) gets a
directory for each job, named by the overrides that are swept (``lam=-0.3,seed=1``), with

- ``job.json``: its state (``record.py``),
- ``config.yaml``: the config of its last start, so that a change of a config file is noticed,
- ``log.txt`` and ``metrics.jsonl``: of all its starts,
- ``checkpoints/`` and ``hydra/``.

Starting the same command again skips the jobs that have finished and resumes the others from their checkpoints
(``trainer.save_freq``). A job that fails does not end the sweep; the exit code is 1 if any did.
"""

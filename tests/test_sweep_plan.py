"""What a sweep makes of real verl configs: jobs that share nothing, and what is refused before the first job."""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import initialize_config_module
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext, RunMode
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from subgroup_offset.cluster.job_record import SweepError
from subgroup_offset.cluster.jobs import MAX_NAME, Job, job_name, plan_jobs, swept_keys
from subgroup_offset.cluster.sweep import Display, open_entry, run_sweep

LAUNCHER = "hydra/launcher=subgroup_offset"
TOY = ["+experiment=toy", "+platform=cpu", "toy_dir=/toy"]
LAM = "algorithm.subgroup.lam"
MAIN_PPO = ["-m", "verl.trainer.main_ppo"]


class Sweep:
    """A sweep of ``contrast`` as its command line would compose it."""

    def __init__(self, hydra, overrides: list[str]) -> None:
        self._hydra, self._fixed = hydra, [o for o in overrides if "," not in o or "[" in o]
        self.config = hydra.compose_config("contrast", [LAUNCHER, *TOY, *overrides], RunMode.MULTIRUN)

    def plan(self, *swept: list[str]) -> list[Job]:
        jobs = [[*TOY, *(o for o in self._fixed if not o.startswith("hydra.")), *job] for job in swept]
        return plan_jobs(self._hydra.config_loader, self.config, jobs, MAIN_PPO)

    def run(self, *swept: list[str]) -> None:
        run_sweep(HydraContext(self._hydra.config_loader, Callbacks()), self.config, swept)

    def compose(self, job: Job) -> DictConfig:
        """The config that the job's own process composes."""
        overrides = [part for part in job.command_line() if not part.startswith("--")]
        config = self._hydra.compose_config("contrast", overrides, RunMode.RUN)
        config.hydra.runtime.output_dir = str(job.directory / "hydra")
        HydraConfig.instance().set_config(config)
        return config


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Iterator[Callable[..., Sweep]]:
    monkeypatch.chdir(tmp_path)
    with initialize_config_module("verl.trainer.config", version_base=None):
        yield lambda *overrides: Sweep(GlobalHydra.instance().hydra, list(overrides))


def test_each_job_has_its_own_directory_checkpoints_and_name_and_all_else_as_without_a_sweep(sweep, tmp_path):
    this = sweep(f"{LAM}=-0.3,0.3")
    jobs = this.plan([f"{LAM}=-0.3"], [f"{LAM}=0.3"])
    root = tmp_path / "outputs" / "sweeps" / "contrast" / "toy"
    assert [job.directory for job in jobs] == [root / "lam=-0.3", root / "lam=0.3"]
    job = jobs[1]
    config = this.compose(job)
    own = {
        "default_local_dir": str(job.directory / "checkpoints"),
        "experiment_name": "toy-lam=0.3",
        "resume_mode": "auto",
        "logger": ["console", "file"],
    }
    assert job.program == [*MAIN_PPO, "--config-name=contrast"] and str(job.checkpoints) == own["default_local_dir"]
    assert config.hydra.sweep.subdir == "lam=0.3" and config.hydra.mode == RunMode.RUN
    assert (job.total_steps, job.saves) == (8, False)
    alone = GlobalHydra.instance().hydra.compose_config("contrast", [*TOY, f"{LAM}=0.3"], RunMode.RUN)
    expected = OmegaConf.to_container(alone)
    expected["trainer"].update(own)
    assert {**OmegaConf.to_container(config), "hydra": 0} == {**expected, "hydra": 0}


def test_shared_paths_become_parents_and_a_checkpoint_given_by_path_holds_at_first(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_DIR", "/data/tb")
    this = sweep(
        "trainer.default_local_dir=ckpt",
        "trainer.rollout_data_dir=/data/rollouts/",
        "trainer.validation_data_dir=${hydra:runtime.output_dir}/val",
        "algorithm.subgroup.strategy.data_dir=strategies",
        "trainer.default_hdfs_dir=hdfs://host/ckpt",
        "trainer.logger=[tensorboard,file]",
        "trainer.resume_mode=resume_path",
        "trainer.resume_from_path=/warm/global_step_7",
        f"{LAM}=-0.3,0.3",
    )
    (job,) = this.plan([f"{LAM}=0.3"])
    config = this.compose(job)
    trainer = config.trainer
    assert trainer.default_local_dir == str(tmp_path / "ckpt" / "lam=0.3") == str(job.checkpoints)
    assert trainer.rollout_data_dir == "/data/rollouts/lam=0.3"
    assert trainer.validation_data_dir == f"{job.directory}/hydra/val"  # in the job's directory already
    assert config.algorithm.subgroup.strategy.data_dir == "strategies/lam=0.3"
    assert trainer.default_hdfs_dir == "hdfs://host/ckpt/lam=0.3"
    assert trainer.logger == ["tensorboard", "file"]
    assert config.ray_kwargs.ray_init.runtime_env.env_vars.TENSORBOARD_DIR == "/data/tb/lam=0.3"
    assert trainer.resume_mode == "resume_path"
    job.checkpoints.mkdir(parents=True)
    (job.checkpoints / "latest_checkpointed_iteration.txt").write_text("8")
    assert job.command_line()[-1] == "++trainer.resume_mode=auto"


@pytest.mark.parametrize(
    ("swept", "name"),
    [
        (["trainer.experiment_name=b"], "b"),
        (["trainer.experiment_name=b", f"{LAM}=0.3"], "b-lam=0.3"),
        ([], "toy"),
    ],
)
def test_the_experiment_is_named_by_what_is_swept_besides_it(sweep, swept, name):
    this = sweep(*(override + "," + override.partition("=")[2] + "1" for override in swept))
    (job,) = this.plan(swept)
    assert this.compose(job).trainer.experiment_name == name


def test_every_bad_value_is_refused_before_the_first_job(sweep):
    this = sweep(f"{LAM}=0,x,0.3", "actor_rollout_ref.rollout.n=12,16")
    with pytest.raises(SweepError) as refused:
        this.plan([f"{LAM}=0"], [f"{LAM}=x"], [f"{LAM}=0.3"], ["actor_rollout_ref.rollout.n=12", f"{LAM}=1"])
    message = str(refused.value)
    assert message.startswith("No job was started:\nJob lam=x: ConfigError: algorithm.subgroup.lam='x'")
    assert "Job n=12,lam=1: ConfigError: actor_rollout_ref.rollout.n=12" in message
    assert message.count("\nJob ") == 2


@pytest.mark.parametrize(
    ("overrides", "jobs", "message"),
    [
        (["hydra.sweep.subdir=x"], [[f"{LAM}=0.3"]], "hydra.sweep.subdir is set"),
        ([], [[f"{LAM}=0.3"], [f"{LAM}=0.3"]], "Two jobs would share the directory lam=0.3"),
        (["trainer.logger=[wandb]"], [[f"{LAM}=0.3"]], "WANDB_RUN_ID=abc would put all jobs .* into one wandb run"),
    ],
)
def test_what_would_bring_jobs_together_is_refused(sweep, monkeypatch, overrides, jobs, message):
    monkeypatch.setenv("WANDB_RUN_ID", "abc")
    with pytest.raises(SweepError, match=message):
        sweep(*overrides, f"{LAM}=-0.3,0.3").plan(*jobs)


@pytest.mark.parametrize("override", ["hydra.sweeper.max_batch_size=1", "hydra.sweeper._target_=another.Sweeper"])
def test_only_whole_sweeps_of_hydras_own_sweeper_are_run(sweep, override):
    with pytest.raises(SweepError, match="give another sweeper another launcher"):
        sweep(override, f"{LAM}=-0.3,0.3").run([f"{LAM}=0.3"])


def test_configs_of_other_programs_are_refused(sweep):
    from hydra.core.config_store import ConfigStore

    sweep()
    ConfigStore.instance().store(name="no_training", node={"lam": 0})
    hydra = GlobalHydra.instance().hydra
    config = hydra.compose_config("no_training", [LAUNCHER, "lam=1,2"], RunMode.MULTIRUN)
    with pytest.raises(SweepError, match=r"no section `trainer`.*hydra/launcher=basic"):
        plan_jobs(hydra.config_loader, config, [["lam=1"]], MAIN_PPO)


def test_checkpoints_of_another_run_are_not_resumed(sweep):
    (job,) = sweep(f"{LAM}=-0.3,0.3").plan([f"{LAM}=0.3"])
    job.checkpoints.mkdir(parents=True)
    (job.checkpoints / "latest_checkpointed_iteration.txt").write_text("2")
    with pytest.raises(SweepError, match=f"{job.checkpoints} holds checkpoints of a run that is not part of this"):
        open_entry(job, Display())


def test_a_job_is_resumed_with_the_config_that_it_was_started_with_only(sweep):
    (job,) = sweep(f"{LAM}=-0.3,0.3").plan([f"{LAM}=0.3"])
    entry = open_entry(job, Display())  # nothing was started yet
    entry.record.start()
    entry.record.end("failed", 1)
    entry.save()
    (job.directory / "config.yaml").write_text(job.config)
    assert open_entry(job, Display()).record.attempts == 1

    def refusal(**changes: str) -> str:
        with pytest.raises(SweepError) as refused:
            open_entry(replace(job, **changes), Display())
        return str(refused.value)

    assert "Now checkpoints=/elsewhere (was /" in refusal(checkpoints=Path("/elsewhere"))
    config = OmegaConf.create(job.config)
    config.data.seed = 7
    found = refusal(config=OmegaConf.to_yaml(config))
    assert f"Now data.seed=7 (was 1). Give this sweep another hydra.sweep.dir, or remove {job.directory}." in found
    config.trainer.logger.append("wandb")
    config.trainer.test_freq = 5
    found = refusal(config=OmegaConf.to_yaml(config))
    assert (
        "data.seed=7 (was 1), trainer.logger=['console', 'file', 'wandb'] (was ['console', 'file']) and 1 more."
        in found
    )


def test_the_methods_are_swept_by_this_launcher():
    method, this = "contrast", "hydra_plugins.subgroup_offset_launcher.SubgroupOffsetLauncher"
    with initialize_config_module("verl.trainer.config", version_base=None):
        hydra = GlobalHydra.instance().hydra
        named = hydra.compose_config(method, [], RunMode.MULTIRUN)
        added = hydra.compose_config("ppo_trainer", [f"+subgroup_offset={method}"], RunMode.MULTIRUN)
        other = hydra.compose_config(method, ["hydra/launcher=basic"], RunMode.MULTIRUN)
        swept = [LAUNCHER, f"+subgroup_offset={method},alignment", "data.seed=1,2", "data.shuffle=false"]
        keys = swept_keys(hydra.compose_config("ppo_trainer", swept, RunMode.MULTIRUN))
    assert keys == {"+subgroup_offset", "data.seed"}
    assert named.hydra.launcher._target_ == added.hydra.launcher._target_ == this != other.hydra.launcher._target_
    assert named.hydra.sweep.dir == f"outputs/sweeps/{method}/gsm8k"
    assert added.hydra.sweep.dir == "outputs/sweeps/ppo_trainer/gsm8k"


KEYS = st.lists(st.sampled_from(["lam", "seed", "a", "b"]), min_size=1, max_size=3).map(".".join)
VALUES = st.text(string.ascii_letters + string.digits + " /\\'\"[]{},.=:$äß", max_size=120)
OVERRIDES = st.dictionaries(KEYS, VALUES, max_size=4).map(lambda pairs: [f"{k}={v}" for k, v in pairs.items()])


@pytest.mark.parametrize(
    ("swept", "name"),
    [
        (["algorithm.subgroup.lam=-0.3"], "lam=-0.3"),
        (["algorithm.subgroup.lam=-0.3", "data.seed=1"], "lam=-0.3,seed=1"),
        (["actor.optim.lr=1e-6", "critic.optim.lr=1e-5"], "actor.optim.lr=1e-6,critic.optim.lr=1e-5"),
        (["+algorithm.subgroup.std=none"], "std=none"),
        ([], "job"),
    ],
)
def test_a_job_is_named_by_what_is_swept(swept, name):
    assert job_name(swept) == name


@given(OVERRIDES, OVERRIDES)
def test_any_name_is_one_directory_and_no_other_jobs(one, other):
    # The jobs of a sweep sweep the same keys.
    other = [f"{a.partition('=')[0]}={b.partition('=')[2]}" for a, b in zip(one, other, strict=False)]
    one = one[: len(other)]
    name = job_name(one)
    assert 0 < len(name) <= MAX_NAME and name not in (".", "..") and os.sep not in name
    assert set(name) <= set(string.ascii_letters + string.digits + "_.+=,@-")
    assert (name == job_name(other)) is (one == other)

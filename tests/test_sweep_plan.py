"""What a sweep makes of real verl configs: jobs that are kept apart, and bad values refused before the first job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from subgroup_offset.sweep.changes import changed_settings, save_config
from subgroup_offset.sweep.plan import Job, Planner
from subgroup_offset.sweep.settings import SweepError, SweepSettings

LAUNCHER = "hydra/launcher=subgroup_offset"
TOY = ["+experiment=toy", "+platform=cpu", "toy_dir=/toy"]
LAM = "algorithm.subgroup.lam"


class Sweep:
    """A sweep of ``contrast`` as its command line would compose it."""

    def __init__(self, hydra, overrides: list[str], env: dict[str, str]) -> None:
        self._hydra = hydra
        config = hydra.compose_config(
            config_name="contrast", overrides=[LAUNCHER, *TOY, *overrides], run_mode=RunMode.MULTIRUN
        )
        settings = SweepSettings(module="verl.trainer.main_ppo", env=env)
        self.planner = Planner(hydra.config_loader, config, settings)

    def plan(self, *swept: list[str], fixed: tuple[str, ...] = ()) -> list[Job]:
        return self.planner.plan([[*TOY, *fixed, *job] for job in swept], 0)

    def compose(self, job: Job) -> DictConfig:
        """The config that the job's own process composes."""
        overrides = [part for part in job.command_line() if not part.startswith("--")]
        config = self._hydra.compose_config(config_name="contrast", overrides=overrides, run_mode=RunMode.RUN)
        config.hydra.runtime.output_dir = str(job.directory / "hydra")
        HydraConfig.instance().set_config(config)
        return config


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Iterator[Callable[..., Sweep]]:
    monkeypatch.chdir(tmp_path)
    with initialize_config_module("verl.trainer.config", version_base=None):
        yield lambda *overrides, **env: Sweep(GlobalHydra.instance().hydra, list(overrides), env)


def test_each_job_has_its_own_directory_checkpoints_and_name(sweep, tmp_path):
    this = sweep(f"{LAM}=-0.3,0.3")
    jobs = this.plan([f"{LAM}=-0.3"], [f"{LAM}=0.3"])
    root = tmp_path / "outputs" / "sweeps" / "contrast" / "toy"
    assert [job.directory for job in jobs] == [root / "lam=-0.3", root / "lam=0.3"]
    for job, lam in zip(jobs, (-0.3, 0.3), strict=True):
        config = this.compose(job)
        assert config.algorithm.subgroup.lam == lam
        assert config.trainer.default_local_dir == str(job.directory / "checkpoints") == str(job.checkpoints)
        assert config.trainer.experiment_name == f"toy-lam={lam}"
        assert config.trainer.resume_mode == "auto"
        assert config.trainer.logger == ["console", "file"]
        assert config.hydra.sweep.subdir == f"lam={lam}" and config.hydra.mode == RunMode.RUN
        assert (job.total_steps, job.save_freq) == (8, -1)
        assert job.program == ["-m", "verl.trainer.main_ppo"] and "--config-name=contrast" in job.command_line()


def test_nothing_else_differs_from_a_run_without_the_sweep(sweep):
    this = sweep(f"{LAM}=-0.3,0.3")
    (job,) = this.plan([f"{LAM}=0.3"])
    alone = GlobalHydra.instance().hydra.compose_config("contrast", [*TOY, f"{LAM}=0.3"], RunMode.RUN)
    mine, theirs = (OmegaConf.to_container(c) for c in (this.compose(job), alone))
    for config in (mine, theirs):
        del config["hydra"]
        for key in ("default_local_dir", "experiment_name", "resume_mode", "logger"):
            del config["trainer"][key]
    assert mine == theirs


def test_paths_that_all_jobs_would_share_become_parents(sweep, tmp_path):
    fixed = (
        "trainer.default_local_dir=ckpt",
        "trainer.rollout_data_dir=/data/rollouts/",
        "trainer.validation_data_dir=${hydra:runtime.output_dir}/val",
        "algorithm.subgroup.strategy.data_dir=strategies",
        "trainer.default_hdfs_dir=hdfs://host/ckpt",
        "global_profiler.tool=torch",
        "ray_kwargs.timeline_json_file=timeline.json",
    )
    this = sweep(*fixed, f"{LAM}=-0.3,0.3", TENSORBOARD_DIR="/data/tb")
    (job,) = this.plan([f"{LAM}=0.3"], fixed=fixed)
    config = this.compose(job)
    trainer = config.trainer
    assert trainer.default_local_dir == str(tmp_path / "ckpt" / "lam=0.3") == str(job.checkpoints)
    assert trainer.rollout_data_dir == "/data/rollouts/lam=0.3"
    assert trainer.validation_data_dir == f"{job.directory}/hydra/val"  # in the job's directory already
    assert config.algorithm.subgroup.strategy.data_dir == "strategies/lam=0.3"
    assert trainer.default_hdfs_dir == "hdfs://host/ckpt/lam=0.3"
    assert config.global_profiler.save_path == "outputs/profile/lam=0.3"
    assert config.ray_kwargs.timeline_json_file == f"{job.directory}/timeline.json"
    assert config.ray_kwargs.ray_init.runtime_env.env_vars.TENSORBOARD_DIR == "/data/tb/lam=0.3"


def test_the_users_loggers_stay(sweep):
    fixed = ("trainer.logger=[tensorboard,file]",)
    this = sweep(*fixed, f"{LAM}=-0.3,0.3")
    (job,) = this.plan([f"{LAM}=0.3"], fixed=fixed)
    assert this.compose(job).trainer.logger == ["tensorboard", "file"]


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


def test_a_checkpoint_given_by_path_holds_until_the_job_has_its_own(sweep):
    fixed = ("trainer.resume_mode=resume_path", "trainer.resume_from_path=/warm/global_step_7")
    this = sweep(*fixed, f"{LAM}=-0.3,0.3")
    (job,) = this.plan([f"{LAM}=0.3"], fixed=fixed)
    assert this.compose(job).trainer.resume_mode == "resume_path"
    job.checkpoints.mkdir(parents=True)
    (job.checkpoints / "latest_checkpointed_iteration.txt").write_text("8")
    assert this.compose(job).trainer.resume_mode == "auto"


def test_every_bad_value_is_refused_before_the_first_job(sweep):
    this = sweep(f"{LAM}=0,x,0.3")
    with pytest.raises(SweepError) as refused:
        this.plan([f"{LAM}=0"], [f"{LAM}=x"], [f"{LAM}=0.3"], ["actor_rollout_ref.rollout.n=12", f"{LAM}=1"])
    message = str(refused.value)
    assert message.startswith("No job was started:\nJob lam=x: ConfigError: algorithm.subgroup.lam='x'")
    assert "Job n=12,lam=1: ConfigError: actor_rollout_ref.rollout.n=12" in message
    assert message.count("\nJob ") == 2


def test_a_changed_config_file_is_noticed_by_its_settings(sweep, tmp_path):
    (job,) = sweep(f"{LAM}=-0.3,0.3").plan([f"{LAM}=0.3"])
    assert changed_settings(tmp_path, job.config) == ""  # nothing was started yet
    save_config(tmp_path, job.config)
    assert changed_settings(tmp_path, job.config) == ""
    job.config.trainer.logger.append("wandb")
    job.config.data.seed = 7
    assert changed_settings(tmp_path, job.config) == "data.seed, trainer.logger"
    job.config.trainer.nnodes, job.config.trainer.test_freq = 2, 9
    assert changed_settings(tmp_path, job.config) == "data.seed, trainer.logger, trainer.nnodes and 1 more"


def test_a_tracker_that_would_take_all_jobs_for_one_run_is_refused(sweep):
    fixed = ("trainer.logger=[wandb]",)
    with pytest.raises(SweepError, match="WANDB_RUN_ID=abc would put all jobs of the sweep into one wandb run: unset"):
        sweep(*fixed, f"{LAM}=-0.3,0.3", WANDB_RUN_ID="abc").plan([f"{LAM}=0.3"], fixed=fixed)


def test_the_users_own_names_of_directories_hold(sweep, tmp_path):
    this = sweep("hydra.sweep.dir=mine", "hydra.sweep.subdir=number-${hydra.job.num}", f"{LAM}=-0.3,0.3")
    jobs = this.plan([f"{LAM}=-0.3"], [f"{LAM}=0.3"])
    assert [job.directory for job in jobs] == [tmp_path / "mine" / "number-0", tmp_path / "mine" / "number-1"]


def test_configs_of_other_programs_are_refused(tmp_path, monkeypatch):
    from hydra.core.config_store import ConfigStore

    monkeypatch.chdir(tmp_path)
    ConfigStore.instance().store(name="no_training", node={"lam": 0})
    with initialize_config_module("verl.trainer.config", version_base=None):
        hydra = GlobalHydra.instance().hydra
        config = hydra.compose_config("no_training", [LAUNCHER], RunMode.MULTIRUN)
        with pytest.raises(SweepError, match=r"no section `trainer`.*hydra/launcher=basic"):
            Planner(hydra.config_loader, config, SweepSettings(module="verl")).plan([["lam=1"]], 0)


@pytest.mark.parametrize("method", ["grpo", "strategy_grpo", "alignment", "contrast"])
def test_the_methods_are_swept_by_this_launcher(method):
    ours = "hydra_plugins.subgroup_offset_launcher.SubgroupOffsetLauncher"
    with initialize_config_module("verl.trainer.config", version_base=None):
        hydra = GlobalHydra.instance().hydra
        named = hydra.compose_config(method, [], RunMode.MULTIRUN)
        added = hydra.compose_config("ppo_trainer", [f"+subgroup_offset={method}"], RunMode.MULTIRUN)
        other = hydra.compose_config(method, ["hydra/launcher=basic"], RunMode.MULTIRUN)
    assert named.hydra.launcher._target_ == added.hydra.launcher._target_ == ours != other.hydra.launcher._target_
    assert named.hydra.sweep.dir == f"outputs/sweeps/{method}/gsm8k"
    assert added.hydra.sweep.dir == "outputs/sweeps/ppo_trainer/gsm8k"

"""What the doctor takes from the config of a run, composed as the run would compose it."""

import pytest

from subgroup_offset.cluster.doctor import of_run
from subgroup_offset.cluster.needs import Data, Directory, Model, Needs, compose_run, of_config, with_options

TOY = ["+experiment=toy", "+platform=cpu", "toy_dir=/toy"]
GPU = [
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
]


def test_a_run_on_the_cpu_and_a_dataset_class_of_ones_own():
    needs, findings = of_run("contrast", None, [*TOY, "data.custom_cls.path=/code/dataset.py"])
    assert findings == []
    assert (needs.device, needs.nodes, needs.gpus_per_node, needs.total_gpus) == ("cpu", 1, 1, 1)
    assert needs.models == (Model("/toy/model", "/toy/model", "/toy/model"),)
    assert [data.path for data in needs.data] == ["/toy/toy-train.parquet", "/toy/toy-val.parquet"]
    assert needs.files == ("/code/dataset.py",) and {data.columns for data in needs.data} == {()}
    assert needs.directories == ()  # save_freq is -1: nothing is written
    assert needs.ray_init["num_cpus"] == 16 and "py_executable" not in needs.ray_init["runtime_env"]
    assert needs.runtime_env["env_vars"]["VERL_PLATFORM"] == "cpu"


def test_a_run_on_a_cluster_with_a_separate_rollout():
    overrides = [
        *GPU,
        "trainer.nnodes=2",
        "trainer.n_gpus_per_node=8",
        "trainer.v1.trainer_mode=separate_async",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=4",
        "trainer.save_freq=20",
        "trainer.default_local_dir=/shared/ckpt",
        "trainer.rollout_data_dir=/data/rollouts",
        "algorithm.subgroup.strategy.data_dir=/data/strategies",
        "data.train_files=[/d/a.parquet,/d/b.parquet]",
        "data.val_files=/d/a.parquet",
        "data.prompt_key=messages",
        "reward.custom_reward_function.path=/code/reward.py",
        "actor_rollout_ref.model.path=Qwen/Qwen3-8B-Base",
        "actor_rollout_ref.model.tokenizer_path=/tok",
        "+ray_kwargs.ray_init.address=auto",
    ]
    needs = of_config(compose_run("contrast", None, overrides))
    assert (needs.device, needs.nodes, needs.gpus_per_node, needs.total_gpus) == ("cuda", 2, 8, 20)
    assert needs.models == (Model("Qwen/Qwen3-8B-Base", "/tok", "Qwen/Qwen3-8B-Base"),)
    columns = ("messages", "data_source", "reward_model")
    assert needs.data == (Data("/d/a.parquet", columns, "messages"), Data("/d/b.parquet", columns, "messages"))
    assert needs.files == ("/code/reward.py",)
    assert needs.directories == (
        Directory("/shared/ckpt", "trainer.default_local_dir", may_be_made=True, checkpoints=True),
        Directory("/data/rollouts", "trainer.rollout_data_dir", shared=False, may_be_made=True),
        Directory("/data/strategies", "algorithm.subgroup.strategy.data_dir", shared=False, may_be_made=True),
    )
    assert needs.ray_init["address"] == "auto"


def test_configs_of_ones_own_directory(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [contrast, _self_]\ntrainer: {nnodes: 7}\n")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "more.yaml").write_text("# @package _global_\ntrainer: {nnodes: 5}\n")
    assert compose_run("mine", tmp_path, GPU).trainer.nnodes == 7
    assert compose_run("contrast", tmp_path, [*GPU, "+experiment=more"]).trainer.nnodes == 5


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["actor_rollout_ref.rollout.n=15"], "rollout.n=15 is not num_strategies"),  # stated by this package
        (["actor_rollout_ref.actor.use_dynamic_bsz=false"], "micro_batch_size"),  # verl's
        (["no.such.key=1"], "no.such.key"),  # Hydra's
    ],
)
def test_refused_configs(overrides, words):
    _, (finding,) = of_run("contrast", None, [*TOY, *overrides])
    assert finding.level == "error" and "the run's config is refused" in finding.problem
    assert words in finding.problem.replace("'", "") and "\n" not in finding.problem


def test_options_come_on_top(monkeypatch):
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    needs = with_options(Needs(), ["/shared"], ["/model"], ["/data.jsonl"], 3)
    assert (needs.device, needs.nodes, needs.runtime_env) == ("cuda", 3, {})
    assert needs.directories == (Directory("/shared", "--path"),)
    assert needs.models == (Model("/model", "/model", "/model"),) and needs.data == (Data("/data.jsonl"),)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    on_cpu = with_options(Needs(), (), (), (), None)
    assert on_cpu.device == "cpu" and on_cpu.runtime_env == {"env_vars": {"VERL_PLATFORM": "cpu"}}

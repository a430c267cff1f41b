"""The ``verl.plugins`` entry point, in fresh processes with the installed verl."""

import json
import os
import subprocess
import sys

import pytest
import torch


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=variables, capture_output=True, text=True, timeout=300
    )


REGISTRY = """
import json, verl
from verl.trainer.ppo import core_algos
print(json.dumps(sorted(core_algos.ADV_ESTIMATOR_REGISTRY)))
"""


def test_the_registry_differs_by_one_name():
    with_plugin = set(json.loads(python(REGISTRY).stdout.splitlines()[-1]))
    without = set(json.loads(python(REGISTRY, VERL_USE_EXTERNAL_PLUGINS="none").stdout.splitlines()[-1]))
    assert with_plugin - without == {"grpo_subgroup"} and without <= with_plugin


def test_import_verl_stays_light():
    code = """
import sys, verl
heavy = {"verl.trainer.ppo.core_algos", "vllm", "hydra", "subgroup_offset.estimators", "subgroup_offset.rollout"}
print(sorted(heavy & set(sys.modules)))
"""
    assert python(code).stdout.splitlines()[-1] == "[]"


def test_a_failure_is_logged_at_warning_with_its_cause(tmp_path):
    # A broken dependency of the plugin: wrapt cannot be imported.
    (tmp_path / "wrapt.py").write_text("raise RuntimeError('wrapt is broken')")
    done = python("import verl; print('verl', verl.__version__)", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and done.stdout.startswith("verl")
    assert "subgroup_offset: loading the plugin failed (RuntimeError: wrapt is broken)" in done.stderr


def test_warnings_are_seen_once_whatever_the_root_logger_is_set_to():
    code = """
import logging, verl
logger = logging.getLogger("subgroup_offset.strategy.stage")
logger.warning("first")
root = logging.getLogger()
root.setLevel(logging.ERROR)
for handler in root.handlers:
    handler.setLevel(logging.ERROR)
logger.warning("second")
"""
    shown = python(code).stderr
    assert shown.count("first") == 1 and shown.count("second") == 1


@pytest.mark.parametrize("platform", ["", "nvidia"])
def test_the_cpu_platform_is_inert_unless_asked_for(platform):
    code = """
import sys, verl
import verl.utils.distributed as d
from verl.plugin.platform import PlatformRegistry
print(PlatformRegistry.get("cpu"), "subgroup_offset.cpu.hooks" in sys.modules,
      hasattr(d.initialize_global_process_group_ray, "__wrapped__"))
"""
    assert python(code, VERL_PLATFORM=platform).stdout.splitlines()[-1] == "None False False"


def test_the_cpu_platform_is_there_when_asked_for():
    code = """
import importlib.metadata, verl
from verl.utils.device import get_device_name, get_nccl_backend, get_torch_device
print(get_device_name(), get_nccl_backend(), get_torch_device().mem_get_info()[1] > 0)
print(importlib.metadata.version("vllm").endswith("+cpu"))
import verl.utils.distributed as d
print(hasattr(d.initialize_global_process_group_ray, "__wrapped__"))
"""
    assert python(code, VERL_PLATFORM="cpu").stdout.splitlines()[-3:] == ["cpu gloo True", "True", "True"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="verl finds an accelerator here and says nothing")
def test_a_run_that_asks_for_the_cpu_is_not_told_that_there_is_nothing_else():
    """verl looks for an accelerator while it is imported, before Hydra reads ``+platform=cpu``."""
    code = "import verl; from verl.plugin.platform import get_platform; get_platform()"
    for asked in ("", "+platform=cuda"):
        assert "No supported accelerator detected" in python(code, asked).stderr
    for asked, environment in (("+platform=cpu", ""), ("", "cpu")):
        shown = python(code, asked, VERL_PLATFORM=environment)
        assert shown.returncode == 0 and "WARNING" not in shown.stderr


STOCK_RUN = """
import json, sys, torch, verl
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", overrides=["algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.name=vllm"])
import numpy as np
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage
generator = torch.Generator().manual_seed(0)
reward = torch.randn(32, 7, generator=generator)
mask = (torch.rand(32, 7, generator=generator) > 0.3).long()
uid = np.array([f"u{i % 4}" for i in range(32)], dtype=object)
data = DataProto.from_dict({"token_level_rewards": reward, "response_mask": mask}, {"uid": uid})
out = compute_advantage(data, "grpo", config=config.algorithm).batch["advantages"]
from verl.utils.tracking import Tracking
tracking = Tracking("p", "e", default_backend=[])
seen = []
tracking.logger["probe"] = type("Probe", (), {"log": lambda self, data, step: seen.append(data)})()
tracking.log({"training/global_step": 1, "x": 2.0}, step=1)
print(json.dumps([OmegaConf.to_yaml(config), [b for b in out.numpy().tobytes()], seen]))
"""


def test_a_stock_run_is_bit_for_bit_as_without_the_plugin():
    """Same composed config, same GRPO advantages, same logged metrics."""
    with_plugin, without = python(STOCK_RUN), python(STOCK_RUN, VERL_USE_EXTERNAL_PLUGINS="none")
    assert with_plugin.returncode == 0, with_plugin.stderr
    assert json.loads(with_plugin.stdout.splitlines()[-1]) == json.loads(without.stdout.splitlines()[-1])

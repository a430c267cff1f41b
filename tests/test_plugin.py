"""The ``verl.plugins`` entry point, in fresh processes with the installed verl.

Most of such a process's time goes into importing verl, so that each is asked all there is to know, and started once.
"""

import json
import os
import subprocess
import sys
from functools import cache

import pytest
import torch


@cache
def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=variables, capture_output=True, text=True, timeout=300
    )


START = """
import json, logging, sys, verl
heavy = {"verl.trainer.ppo.core_algos", "vllm", "hydra", "subgroup_offset.estimators", "subgroup_offset.rollout"}
seen = {"heavy": sorted(heavy & set(sys.modules))}

from verl.plugin.platform import PlatformRegistry, get_platform
get_platform()
seen["cpu is known"] = PlatformRegistry.get("cpu") is not None
seen["hooks"] = "subgroup_offset.cpu.hooks" in sys.modules
import verl.utils.distributed as distributed
seen["process groups are wrapped"] = hasattr(distributed.initialize_global_process_group_ray, "__wrapped__")
if "DEVICE" in sys.argv:
    import importlib.metadata
    from verl.utils.device import get_device_name, get_nccl_backend, get_torch_device
    seen["device"] = [get_device_name(), get_nccl_backend(), get_torch_device().mem_get_info()[1] > 0]
    seen["vllm for cpu"] = importlib.metadata.version("vllm").endswith("+cpu")

logger, root = logging.getLogger("subgroup_offset.strategy.stage"), logging.getLogger()
logger.warning("first")
root.setLevel(logging.ERROR)
for handler in root.handlers:
    handler.setLevel(logging.ERROR)
logger.warning("second")
print(json.dumps(seen))
"""


def start(argument: str = "+platform=cuda", platform: str = "") -> tuple[dict, str]:
    """What a process that has imported verl saw, and what it said."""
    done = python(START, argument, VERL_PLATFORM=platform)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def warnings(said: str) -> list[str]:
    """All but the two of the process itself."""
    return [line for line in said.splitlines() if "WARNING" in line and not line.endswith(("first", "second"))]


def test_import_verl_stays_light():
    assert start()[0]["heavy"] == []


def test_warnings_are_seen_once_whatever_the_root_logger_is_set_to():
    assert [start()[1].count(text) for text in ("first", "second")] == [1, 1]


def test_a_failure_is_logged_at_warning_with_its_cause(tmp_path):
    # A broken dependency of the plugin: wrapt cannot be imported.
    (tmp_path / "wrapt.py").write_text("raise RuntimeError('wrapt is broken')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = python("import verl; print('verl', verl.__version__)", PYTHONPATH=path)
    assert done.returncode == 0 and done.stdout.startswith("verl")
    assert "subgroup_offset: loading the plugin failed (RuntimeError: wrapt is broken)" in done.stderr


@pytest.mark.parametrize("platform", ["", "nvidia"])
def test_the_cpu_platform_is_inert_unless_asked_for(platform):
    seen, _ = start(platform=platform)
    assert (seen["cpu is known"], seen["hooks"], seen["process groups are wrapped"]) == (False, False, False)


def test_the_cpu_platform_is_there_when_asked_for():
    seen, said = start("DEVICE", platform="cpu")
    assert seen["device"] == ["cpu", "gloo", True] and warnings(said) == []
    assert (seen["vllm for cpu"], seen["process groups are wrapped"]) == (True, True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="verl finds an accelerator here and says nothing")
def test_a_run_that_asks_for_the_cpu_is_not_told_that_there_is_nothing_else():
    """verl looks for an accelerator while it is imported, before Hydra reads ``+platform=cpu``."""
    assert "No supported accelerator detected" in start("+platform=cuda")[1]
    assert warnings(start("+platform=cpu")[1]) == []


STOCK_RUN = """
import json, sys, torch, verl
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", overrides=["algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.name=vllm"])
import numpy as np
from verl import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
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
print(json.dumps([sorted(ADV_ESTIMATOR_REGISTRY), OmegaConf.to_yaml(config), [b for b in out.numpy().tobytes()], seen]))
"""


def test_a_stock_run_is_bit_for_bit_as_without_the_plugin():
    """Same composed config, same GRPO advantages, same logged metrics; the registry differs by one name."""
    runs = [python(STOCK_RUN), python(STOCK_RUN, VERL_USE_EXTERNAL_PLUGINS="none")]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    (registry, *results), (without, *expected) = (json.loads(run.stdout.splitlines()[-1]) for run in runs)
    assert results == expected
    assert set(registry) - set(without) == {"grpo_subgroup"} and set(without) <= set(registry)

"""What verl's server asks of vLLM for a run, and vLLM's own config of it: ``python engine_arguments.py OVERRIDE...``.

The server's method that starts the engine is called on a server without its Ray parts, up to the engine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any


def engine_arguments(*overrides: str) -> dict[str, Any]:
    """Run this program: verl's platform and vLLM's are settled where a process imports them."""
    command = [sys.executable, __file__, *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(*overrides: str) -> None:
    """Print the values that vLLM ends up with."""
    os.environ |= {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    from hydra import compose, initialize_config_module
    from verl.utils.config import omega_conf_to_dataclass

    with initialize_config_module("verl.trainer.config", version_base=None):
        # Sleep mode alone is not for a CPU.
        run = compose("contrast", ["+actor_rollout_ref.rollout.enable_sleep_mode=False", *overrides])
    from verl.workers.config import HFModelConfig
    from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer
    from vllm.engine.arg_utils import AsyncEngineArgs

    class Server(vLLMHttpServer):
        async def run_server(self, args: Any) -> None:
            self.arguments = args

    server = Server.__new__(Server)
    server.config = omega_conf_to_dataclass(run.actor_rollout_ref.rollout)
    server.model_config = omega_conf_to_dataclass(run.actor_rollout_ref.model, dataclass_type=HFModelConfig)
    server._validate_configs()
    vars(server).update(node_rank=0, nnodes=1, replica_rank=0, gpus_per_node=8, workers=[], _disaggregation_role="null")
    server.profiler_controller = SimpleNamespace(check_enable=lambda: False, config=None, tool_config=None)
    server._should_profile = lambda: False
    asyncio.run(server.launch_server())
    config = AsyncEngineArgs.from_cli_args(server.arguments).create_engine_config()
    values = {
        "watermark": config.scheduler_config.watermark,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "chunked_prefill": config.scheduler_config.enable_chunked_prefill,
        "max_model_len": config.model_config.max_model_len,
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "gpu_memory_utilization": config.cache_config.gpu_memory_utilization,
        "dtype": str(config.model_config.dtype),
        "load_format": str(config.load_config.load_format),
        "logprobs_mode": str(config.model_config.logprobs_mode),
        "sampling": config.model_config.get_diff_sampling_param(),
        "rope_parameters": config.model_config.hf_config.rope_parameters,
    }
    print(json.dumps(values))


if __name__ == "__main__":
    main(*sys.argv[1:])

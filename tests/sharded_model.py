"""A recipe's model on the meta device, sharded as verl does over 16 made-up ranks: ``python sharded_model.py RECIPE``.

Prints what one rank holds, as JSON. Nothing is allocated, and nobody is on the other ranks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

RANKS = 16


def sharded(recipe: str) -> dict[str, Any]:
    """Run this program: a process has one group of ranks."""
    done = subprocess.run([sys.executable, __file__, recipe], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(recipe: str) -> None:
    """Build and shard."""
    import torch
    from hydra import compose, initialize_config_module
    from recipe_models import CONFIGS
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from transformers import AutoConfig, AutoModelForCausalLM
    from verl.utils.config import omega_conf_to_dataclass
    from verl.utils.fsdp_utils import apply_fsdp2
    from verl.utils.import_utils import import_external_libs

    with initialize_config_module("verl.trainer.config", version_base=None):
        run = compose("contrast", [f"+recipe={recipe}"]).actor_rollout_ref
    import_external_libs(run.model.external_lib)
    engine = omega_conf_to_dataclass(run.actor).engine
    torch.distributed.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",))
    config = AutoConfig.for_model(**CONFIGS[recipe])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    whole = sum(parameter.numel() for parameter in model.parameters())
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=True)
    reshard = engine.reshard_after_forward
    apply_fsdp2(
        model, {"mesh": mesh, "mp_policy": policy, "offload_policy": None, "reshard_after_forward": reshard}, engine
    )
    units = [module for module in model.modules() if isinstance(module, FSDPModule)]
    values = {
        "parameters": whole,
        "of_a_rank": sum(parameter.to_local().numel() for parameter in model.parameters()),
        "dtypes": sorted({str(parameter.dtype) for parameter in model.parameters()}),
        "units": len(units),
        "largest_unit": max(parameter.numel() for parameter in model.parameters()),
        "prefetching": sum(bool(unit._get_fsdp_state()._states_to_forward_prefetch) for unit in units),
    }
    print(json.dumps(values))


if __name__ == "__main__":
    main(*sys.argv[1:])

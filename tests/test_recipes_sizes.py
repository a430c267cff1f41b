"""The recipes at the models' real sizes, without a GPU: what a rank holds, what vLLM is asked for, how batches fill."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_arguments import engine_arguments
from hydra import compose, initialize_config_module
from recipe_models import CONFIGS, OLMO3_7B, write_model
from sharded_model import RANKS, sharded
from tensordict import TensorDict
from torch._dynamo.testing import CompileCounter
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.seqlen_balancing import (
    calculate_workload,
    get_seqlen_balanced_partitions,
    rearrange_micro_batches,
)
from verl.utils.torch_functional import entropy_from_logits_with_chunking

from subgroup_offset.preflight.olmo3 import Engine, vllm_reads

# Layers, and beside them the embedding, the head and the rest of the model.
SIZES = {"qwen3_8b": (8_190_735_360, 36 + 3), "olmo3_7b": (7_298_011_136, 32 + 3)}


@pytest.mark.parametrize("recipe", CONFIGS)
def test_a_rank_holds_a_sixteenth_of_the_model(recipe):
    """In float32 with the optimizer's two moments and gradients: the 8 GB that the recipe says."""
    held = sharded(recipe)
    parameters, units = SIZES[recipe]
    assert held["parameters"] == parameters
    # Rows of the vocabulary that do not divide by 16 are more on the first ranks.
    assert 0 <= held["of_a_rank"] - parameters / RANKS < 2 * 4096
    assert held["dtypes"] == ["torch.float32"] and 7.2e9 < held["of_a_rank"] * 16 < 8.2e9
    assert held["units"] == units and held["prefetching"] == units - 2  # all but the last and the whole
    # What travels to vLLM at once fits its bucket.
    bucket = actor_rollout_ref(recipe).rollout.checkpoint_engine.update_weights_bucket_megabytes
    assert held["largest_unit"] * 4 < bucket * 2**20


@pytest.fixture(scope="module", params=CONFIGS)
def model(request, tmp_path_factory) -> list[str]:
    """Overrides of a run with a recipe's model on this machine."""
    directory = write_model(request.param, tmp_path_factory.mktemp(request.param))
    return [f"+recipe={request.param}", f"actor_rollout_ref.model.path={directory}"]


def test_vllm_takes_what_verl_asks_for(model):
    """Through verl's server and vLLM's command line into vLLM's config, real sizes included."""
    engine = engine_arguments(*model)
    rope_parameters = engine.pop("rope_parameters")
    assert rope_parameters["rope_type"] == ("yarn" if "olmo3" in model[0] else "default")
    assert engine == {
        "watermark": 0.05,
        "max_num_seqs": 96,
        "max_num_batched_tokens": 8192,
        "chunked_prefill": True,
        "max_model_len": 22528,
        "tensor_parallel_size": 1,
        "prefix_caching": True,
        "gpu_memory_utilization": 0.8,
        "dtype": "torch.bfloat16",
        "load_format": "dummy",
        "logprobs_mode": "processed_logprobs",
        # Over the model's own generation config, which ends after 2048 tokens.
        "sampling": {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "repetition_penalty": 1.0, "max_tokens": 20480},
    }


def actor_rollout_ref(recipe: str):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("contrast", [f"+recipe={recipe}"]).actor_rollout_ref


def lengths(mean: float, seed: int) -> np.ndarray:
    """Tokens of 256 x 32 sequences: log-normal, half of the spread between problems, cut at 20,480, 400 of prompt."""
    random = np.random.default_rng(seed)
    spread = 0.5 * random.standard_normal((256, 1)) + 0.6 * random.standard_normal((256, 32))
    responses = np.clip(mean * np.exp(spread - (0.5**2 + 0.6**2) / 2), 32, 20480)
    return responses.astype(int).reshape(-1) + 400


@pytest.mark.parametrize("mean", [1500, 6000, 9000])
def test_micro_batches_are_well_filled_and_never_over_the_budget(mean):
    """verl's own partition of a step's rows over the ranks, and of an update's over micro-batches."""
    actor = omega_conf_to_dataclass(actor_rollout_ref("qwen3_8b").actor)
    group = actor.engine.ulysses_sequence_parallel_size
    budget, data_ranks = actor.ppo_max_token_len_per_gpu * group, RANKS // group
    tokens = lengths(mean, seed=0)
    tokens[:4] = 22528  # the longest there can be
    parts = get_seqlen_balanced_partitions(calculate_workload(torch.tensor(tokens)), data_ranks, equal_size=True)
    shares = [tokens[part].sum() for part in parts]
    assert min(shares) > 0.95 * max(shares)
    fullness = []
    for part in parts[:2]:
        for rows in np.split(tokens[part], 8):  # the step's updates
            ids = torch.nested.nested_tensor([torch.zeros(n, dtype=torch.int8) for n in rows], layout=torch.jagged)
            batch = TensorDict({"input_ids": ids}, batch_size=len(rows))
            micro_batches, order = rearrange_micro_batches(batch, max_token_len=budget)
            sizes = [int(micro["input_ids"].offsets()[-1]) for micro in micro_batches]
            assert max(sizes) <= budget and sorted(i for part in order for i in part) == list(range(len(rows)))
            fullness += [size / budget for size in sizes]
    assert np.mean(fullness) > 0.8


def test_a_budget_below_the_longest_sequence_stops_verl():
    """Why the recipe's is above it; at the paper's lengths such a sequence comes in some later step."""
    ids = torch.nested.nested_tensor([torch.zeros(n, dtype=torch.int8) for n in (22528, 100)], layout=torch.jagged)
    with pytest.raises(AssertionError, match="max_token_len must be greater"):
        rearrange_micro_batches(TensorDict({"input_ids": ids}, batch_size=2), max_token_len=16384)


def test_a_compiled_entropy_is_compiled_for_every_length_until_it_is_given_up():
    """Why the recipe switches it off: as verl compiles it, with counts of tokens as micro-batches have them."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(entropy_from_logits_with_chunking, dynamic=True, backend=counter)
    graphs = []
    for tokens in (2500, 3000, 5000, 6100, 7000, 8200, 9000, 10300, 11000, 12500, 13000, 14400, 16384):
        compiled(torch.randn(tokens, 8), chunk_size=2048)
        graphs.append(counter.frame_count)
    torch._dynamo.reset()
    limit = torch._dynamo.config.recompile_limit
    assert graphs[: limit - 1] == list(range(1, limit)) and graphs[-1] <= limit + 1
    for recipe in CONFIGS:
        engine = omega_conf_to_dataclass(actor_rollout_ref(recipe).actor).engine
        assert engine.entropy_from_logits_with_chunking and not engine.use_torch_compile


@pytest.mark.skipif(vllm_reads() is not Engine.BY_TYPE, reason="this vLLM takes one set of parameters")
def test_the_override_that_the_checks_print_reaches_vllm(tmp_path):
    from subgroup_offset.preflight.olmo3 import overriding

    directory = write_model("olmo3_7b", tmp_path)
    yarn = OLMO3_7B["rope_scaling"] | {"rope_theta": 500000}
    run = ["+recipe=olmo3_7b", f"actor_rollout_ref.model.path={directory}", overriding(yarn)]
    assert engine_arguments(*run)["rope_parameters"] == {
        "full_attention": yarn,
        "sliding_attention": {"rope_type": "default", "rope_theta": 500000},
    }

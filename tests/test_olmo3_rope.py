"""Olmo 3 after the correction: against vLLM's rotary classes, vLLM's engine, and the model's definition written out."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from olmo3_engine import engine_log_probs
from olmo3_models import ALL_POSITIONS, BY_TYPE, IDS, YARN, log_probs, random_model, tiny
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoModelForCausalLM, Olmo3Config
from transformers.models.olmo3 import modeling_olmo3
from verl.utils.fsdp_utils import apply_fsdp2
from verl.workers.config import FSDPEngineConfig
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope

from subgroup_offset.models.rotary import FULL, SLIDING, layer_parameters, scales
from subgroup_offset.preflight.olmo3 import Engine, vllm_reads


def test_without_it_this_transformers_scales_every_layer(uncorrected_olmo3):
    """Where this fails, transformers has mended it, as 5.13 does: the correction then does nothing."""
    assert scales(FULL) and scales(SLIDING)


def test_it_corrects_once(correction):
    assert scales(FULL) and not scales(SLIDING)
    patched = modeling_olmo3.Olmo3RotaryEmbedding
    assert not correction.correct() and modeling_olmo3.Olmo3RotaryEmbedding is patched


@pytest.mark.parametrize("rope_parameters", [YARN, BY_TYPE], ids=["one set", "by layer type"])
def test_rotations_are_those_of_vllms_classes(correction, rope_parameters):
    """Plain on sliding layers, YaRN on full ones, at positions over the whole context."""
    config = tiny(rope_parameters)
    rotary = modeling_olmo3.Olmo3RotaryEmbedding(config=config)
    positions = torch.cat([torch.arange(512), torch.randint(0, ALL_POSITIONS, (512,)), torch.tensor([65535])])
    rotations = rotary(torch.zeros(1, dtype=torch.float32), positions[None])
    query, key = torch.randn(2, len(positions), 2 * 128).unbind()
    for layer_type, parameters in BY_TYPE.items():
        with set_current_vllm_config(VllmConfig()):
            engine = get_rope(128, ALL_POSITIONS, rope_parameters=parameters, dtype=torch.float32)
        expected = engine.forward_native(positions, query.clone(), key.clone())
        heads = [x.view(1, len(positions), 2, 128) for x in (query, key)]
        got = modeling_olmo3.apply_rotary_pos_emb(*heads, *rotations[layer_type], unsqueeze_dim=2)
        for ours, theirs in zip(got, expected, strict=True):
            torch.testing.assert_close(ours.flatten(2)[0], theirs, atol=2e-3, rtol=1e-3)
    assert not torch.allclose(rotations[FULL][0], rotations[SLIDING][0], atol=0.1)


def slow_logits(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Logits (tokens, vocabulary) of Olmo 3 by its definition, token by token and head by head, in float64."""
    config, weights = model.config, {name: value.double() for name, value in model.state_dict().items()}
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + config.rms_norm_eps) * weights[name]

    def frequencies(layer_type: str) -> tuple[torch.Tensor, float]:
        plain = 1 / 500000.0 ** (torch.arange(0, width, 2).double() / width)
        if layer_type == SLIDING:
            return plain, 1.0
        # YaRN: a dimension that turns more than beta_fast times in 8192 tokens stays, one under beta_slow is divided.
        turns = 8192 * plain / (2 * torch.pi)

        def dimension(count: float) -> float:
            return width * torch.log(torch.tensor(8192 / (count * 2 * torch.pi))).item() / (2 * 13.122363377404328)

        low, high = int(dimension(32)), -int(-dimension(1) // 1)
        kept = 1 - ((torch.arange(width // 2).double() - low) / (high - low)).clamp(0, 1)
        assert kept[turns > 40].min() == 1 and kept[turns < 0.8].max() == 0
        return plain * kept + plain / 8 * (1 - kept), 1.2079441541679836

    def rotate(x: torch.Tensor, position: int, layer_type: str) -> torch.Tensor:
        angles, factor = frequencies(layer_type)
        first, second = x[: width // 2], x[width // 2 :]
        cos, sin = torch.cos(position * angles) * factor, torch.sin(position * angles) * factor
        return torch.cat([first * cos - second * sin, second * cos + first * sin])

    hidden = weights["model.embed_tokens.weight"][ids]
    for i, layer_type in enumerate(config.layer_types):
        at = f"model.layers.{i}"
        q, k, v = (hidden @ weights[f"{at}.self_attn.{name}_proj.weight"].T for name in "qkv")
        q, k = norm(q, f"{at}.self_attn.q_norm.weight"), norm(k, f"{at}.self_attn.k_norm.weight")
        mixed = torch.zeros_like(q)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            keys = [rotate(k[t, part], t, layer_type) for t in range(len(ids))]
            for t in range(len(ids)):
                first = max(0, t - config.sliding_window + 1) if layer_type == SLIDING else 0
                query = rotate(q[t, part], t, layer_type)
                scores = torch.stack([query @ keys[s] for s in range(first, t + 1)]) / width**0.5
                mixed[t, part] = torch.softmax(scores, 0) @ v[first : t + 1, part]
        attended = mixed @ weights[f"{at}.self_attn.o_proj.weight"].T
        hidden = hidden + norm(attended, f"{at}.post_attention_layernorm.weight")
        gate, up = (hidden @ weights[f"{at}.mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        down = (torch.nn.functional.silu(gate) * up) @ weights[f"{at}.mlp.down_proj.weight"].T
        hidden = hidden + norm(down, f"{at}.post_feedforward_layernorm.weight")
    return norm(hidden, "model.norm.weight") @ weights["lm_head.weight"].T


def test_logits_are_those_of_the_definition(correction):
    model = random_model(tiny(num_hidden_layers=4))
    with torch.no_grad():
        logits = model(input_ids=IDS[None]).logits[0]
    torch.testing.assert_close(logits.double(), slow_logits(model, IDS), atol=2e-3, rtol=1e-3)


def test_logits_of_the_uncorrected_model_are_not(uncorrected_olmo3):
    model = random_model(tiny(num_hidden_layers=4))
    with torch.no_grad():
        logits = model(input_ids=IDS[None]).logits[0]
    assert (logits.double() - slow_logits(model, IDS)).abs().max() > 0.1


def test_log_probs_are_those_of_vllms_engine(uncorrected_olmo3, tmp_path):
    """vLLM's own Olmo 3 with weights from disk: without parameters by layer type it is the uncorrected model."""
    if vllm_reads() is not Engine.BY_TYPE:
        pytest.skip("this vLLM takes one set of parameters")
    model = random_model(tiny(num_hidden_layers=4))
    model.save_pretrained(tmp_path)
    uncorrected = log_probs(model)
    from subgroup_offset.models import olmo3

    olmo3.correct()
    corrected = log_probs(AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval())
    by_type, flat = engine_log_probs(str(tmp_path), {"rope_parameters": BY_TYPE}, {})
    torch.testing.assert_close(torch.tensor(by_type), corrected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(torch.tensor(flat), uncorrected, atol=1e-3, rtol=1e-3)
    assert (corrected - uncorrected).abs().max() > 0.1


@pytest.fixture
def one_rank():
    """A group of this process alone."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
    torch.distributed.destroy_process_group()


def test_it_runs_and_learns_in_verls_fsdp2(correction, one_rank):
    """Rotations pass through wrapped, recomputed and prefetched layers; in bfloat16, as it trains."""
    model = random_model(tiny(num_hidden_layers=4)).train()
    with torch.no_grad():
        expected = model(input_ids=IDS[None], use_cache=False).logits
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=True)
    kwargs = {"mesh": one_rank, "mp_policy": policy, "offload_policy": None, "reshard_after_forward": True}
    apply_fsdp2(model, kwargs, FSDPEngineConfig(strategy="fsdp2", forward_prefetch=True))
    logits = model(input_ids=IDS[None], use_cache=False).logits
    assert torch.nn.functional.cosine_similarity(logits.float(), expected, dim=-1).min() > 0.98
    logits.float().logsumexp(-1).mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_frequencies_survive_loading_as_verl_loads(correction, tmp_path):
    """transformers fills buffers that are in no checkpoint again, from the config that each embedding has."""
    config = tiny()
    model = random_model(config)
    model.save_pretrained(tmp_path)
    assert '"yarn"' in (tmp_path / "config.json").read_text("utf-8")  # the checkpoint's config stays as it was
    read = Olmo3Config.from_pretrained(tmp_path, attn_implementation="eager")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, config=read).eval()
    buffers = dict(loaded.named_buffers())
    assert {name: tuple(b.shape) for name, b in buffers.items() if name.endswith(".inv_freq")} == {
        f"model.rotary_emb.of_type.{layer_type}.inv_freq": (64,) for layer_type in (FULL, SLIDING)
    }
    assert all(torch.equal(buffer, dict(model.named_buffers())[name]) for name, buffer in buffers.items())
    with torch.no_grad():
        torch.testing.assert_close(loaded(input_ids=IDS[None]).logits, model(input_ids=IDS[None]).logits)


def test_gradients_with_checkpointing_are_those_without(correction):
    gradients = []
    for checkpointing in (False, True):
        model = random_model(tiny(num_hidden_layers=4)).train()
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model(input_ids=IDS[None], use_cache=False).logits.logsumexp(-1).mean().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_the_probe_leaves_the_generators_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    scales(FULL)
    assert torch.equal(torch.rand(2), expected)


@given(st.sampled_from([FULL, SLIDING]), st.floats(1e3, 1e6), st.floats(1.0, 64.0))
@settings(max_examples=20)
def test_one_set_of_parameters_and_its_parts_say_the_same(layer_type, theta, factor):
    one = YARN | {"rope_theta": theta, "factor": factor}
    parts = {kind: layer_parameters(one, kind) for kind in (FULL, SLIDING)}
    assert layer_parameters(parts, layer_type) == layer_parameters(one, layer_type)
    assert parts == {FULL: one, SLIDING: {"rope_type": "default", "rope_theta": theta}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("modeling.Olmo3Attention = None", "it has no class Olmo3Attention"),
        # A model that does not look up what the correction replaces.
        ("modeling.Olmo3Model.__init__.__globals__", "its sliding layers are scaled all the same"),
    ],
)
def test_classes_it_does_not_know_are_refused(change, message):
    """In a process of its own, as verl imports it."""
    if change.endswith("__globals__"):
        change = (
            "import types; own = dict(vars(modeling)); init = modeling.Olmo3Model.__init__\n"
            "fixed = types.FunctionType(init.__code__, own, init.__name__, init.__defaults__, init.__closure__)\n"
            "modeling.Olmo3Model.__init__ = fixed"
        )
    else:
        change = f"from subgroup_offset.models import rotary; rotary.scales = lambda layer_type: True\n{change}"
    code = f"from transformers.models.olmo3 import modeling_olmo3 as modeling\n{change}\n"
    code += "import subgroup_offset.models.olmo3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: Olmo 3 of transformers" in done.stderr and message in done.stderr
    assert "Install transformers 5.9 or 5.10" in done.stderr

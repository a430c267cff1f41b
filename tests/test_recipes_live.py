"""What verl's own classes do with the recipes: the reward it computes, the model config, the prompt it tokenizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from transformers import Olmo3Config, PreTrainedTokenizerFast, Qwen3Config
from verl.protocol import DataProto
from verl.trainer.ppo.reward import load_reward_manager
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.skip import SkipManager
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from subgroup_offset.config import StrategyConfig
from subgroup_offset.strategy import load_templates
from subgroup_offset.toy.tokenizer import build_tokenizer

PROBLEM = "What is 7 times 8?\n\nPut your answer on its own line after Answer:"
SIZES = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
MODELS = {
    "qwen3_8b": Qwen3Config(**SIZES, head_dim=16, architectures=["Qwen3ForCausalLM"]),
    "olmo3_7b": Olmo3Config(**SIZES, architectures=["Olmo3ForCausalLM"], bos_token_id=None),
}


def composed(recipe: str, *overrides: str) -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("contrast", [f"+recipe={recipe}", *overrides])


@pytest.fixture(scope="module", params=MODELS)
def run(request, tmp_path_factory) -> DictConfig:
    """A recipe with a model of its architecture, small and without weights; the tokenizer's template is ChatML."""
    directory = tmp_path_factory.mktemp("model")
    MODELS[request.param].save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
    return composed(request.param, f"actor_rollout_ref.model.path={directory}")


def test_every_dataclass_of_verl_takes_its_section(run):
    rollout = run.actor_rollout_ref.rollout
    for section in (rollout, rollout.checkpoint_engine, rollout.val_kwargs, rollout.profiler):
        omega_conf_to_dataclass(section)
    actor = omega_conf_to_dataclass(run.actor_rollout_ref.actor)
    assert actor.engine.ulysses_sequence_parallel_size == 2 and actor.engine.param_offload
    model = omega_conf_to_dataclass(run.actor_rollout_ref.model)
    assert model.use_remove_padding and model.enable_gradient_checkpointing
    SkipManager.init(run)


def test_prompts_are_rendered_by_the_recipes_template(run):
    """Problem, strategies and execution, by the builder that every agent loop and the strategy stage use."""
    model = omega_conf_to_dataclass(run.actor_rollout_ref.model)
    builder = create_continuous_token_builder(model.tokenizer, hf_model_type=model.hf_config.model_type)
    templates, chat = load_templates(StrategyConfig()), [{"role": "user", "content": PROBLEM}]
    chats = [chat, templates.strategy_messages(chat), templates.strategy_messages(chat, paired=True)]
    chats.append(templates.execution_messages(chat, "[KEY CONDITIONS]\n- a\n[KEY IDEA]\n- b"))
    chats.append([{"role": "system", "content": "Be brief."}, *chat])
    for messages in chats:
        text = model.tokenizer.decode(builder.build_initial_tokens(messages))
        if model.hf_config.model_type == "olmo3":
            # A base model goes on with what the text ends in: nothing but the templates' own last line cues it.
            if messages in chats[1:3]:
                _, _, cue = text.rpartition("olution preview")
                assert cue.removeprefix("s") == f' for the problem at the top ("{PROBLEM}"):\n\n'
            assert text == "".join(f"{turn['content']}\n\n" for turn in messages)
        else:
            turns = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in messages)
            assert text == f"{turns}<|im_start|>assistant\n"
    assert PROBLEM in chats[3][0]["content"]  # the dataset's wrapper stays for the rollouts


def response(tokenizer: PreTrainedTokenizerFast, text: str, length: int) -> DataProto:
    """A finished rollout of ``length`` tokens that ends with ``text``."""
    tail = tokenizer.encode(text)
    ids = torch.tensor([[tokenizer.encode("a")[0]] * (length - len(tail)) + tail])
    return DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": torch.ones(1, 4 + length, dtype=torch.int64)},
        non_tensors={"data_source": ["math_dapo"], "reward_model": [{"ground_truth": "56"}], "extra_info": [{}]},
    )


def test_verl_pays_the_overlong_penalty_of_the_paper(tmp_path: Path):
    """Full reward up to 16384 tokens, then down by 1.0 over the last 4096 of 20480."""
    tokenizer = build_tokenizer()
    manager = load_reward_manager(composed("qwen3_8b"), tokenizer)
    paid = {}
    for length in (100, 16384, 16385, 18432, 20480):
        for text in ("\nAnswer: 56", "\nAnswer: 57"):
            result = manager.loop.run_until_complete(manager.run_single(response(tokenizer, text, length)))
            paid[length, text[-2:]] = float(result["reward_score"])
            assert result["reward_extra_info"]["acc"] == (text[-2:] == "56")  # the verdict stays as it is
    right = {100: 1.0, 16384: 1.0, 16385: 1.0 - 1 / 4096, 18432: 0.5, 20480: 0.0}
    assert paid == {(n, "56"): value for n, value in right.items()} | {(n, "57"): v - 2 for n, v in right.items()}

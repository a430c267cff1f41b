"""A process reward model from code: Qwen2 with a head of two labels, random weights, and a byte-level tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2Model

TAG = "<extra_0>"
_CHAT = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"


class TinyPRM(nn.Module):
    """The names of its weights are those of Qwen2.5-Math-PRM."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__()
        self.model = Qwen2Model(config)
        size = config.hidden_size
        self.score = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 2))

    def forward(self, ids: Tensor) -> Tensor:
        """(T,) ids -> (T, 2) probabilities of a wrong and a right step."""
        hidden = self.model(input_ids=ids[None]).last_hidden_state
        return self.score(hidden)[0].softmax(dim=-1)


def make(directory: Path) -> tuple[TinyPRM, PreTrainedTokenizerFast]:
    """Write model and tokenizer to the directory, as a server loads them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, TAG, "<pad>"])}
    raw = Tokenizer(models.BPE(vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, additional_special_tokens=[TAG], pad_token="<pad>", eos_token="<pad>"
    )
    tokenizer.chat_template = _CHAT
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = TinyPRM(config).eval()
    with torch.no_grad():
        for parameter in model.score.parameters():
            parameter.mul_(4)  # scores that differ visibly
    tokenizer.save_pretrained(directory)
    config.architectures = ["Qwen2ForProcessRewardModel"]
    settings = config.to_dict() | {"torch_dtype": "float32", "dtype": "float32"}
    (directory / "config.json").write_text(json.dumps(settings))
    save_file(
        {name: tensor.contiguous() for name, tensor in model.state_dict().items()}, directory / "model.safetensors"
    )
    return model, tokenizer


def expected(model: TinyPRM, tokenizer: PreTrainedTokenizerFast, chat: list[dict[str, str]]) -> list[float]:
    """What the model itself gives each step of a chat."""
    ids = torch.tensor(tokenizer.encode(tokenizer.apply_chat_template(chat, tokenize=False), add_special_tokens=False))
    with torch.no_grad():
        probabilities = model(ids)
    return probabilities[ids == tokenizer.convert_tokens_to_ids(TAG), 1].tolist()

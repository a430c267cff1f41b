"""The warm start: a small Qwen3 model, and its supervised training on examples drawn from code."""

import math
from collections.abc import Callable

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from .examples import IGNORE, Batch, steps_of

STEPS = 600
PEAK_RATE = 3e-3
WARMUP_STEPS = 40
FLOOR = 0.02  # The learning rate ends at this share of its peak.
# Two are about 1.5 times as fast as one on a free machine; more gain nothing on a model of this size.
THREADS = 2

Progress = Callable[[int, int, float], None]  # step (from 1), steps, loss in nats per token


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A freshly initialised model of about 0.86 million float32 parameters that fits `tokenizer`."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # The smallest size that vLLM's CPU attention takes.
        intermediate_size=384,
        max_position_embeddings=2048,  # The longest problem of the real benchmarks is 1,656 of this tokenizer's tokens.
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def learning_rate(step: int, steps: int) -> float:
    """The rate of `step` (from 0): linear warm-up, then a cosine down to FLOOR of the peak at the last step."""
    if step < WARMUP_STEPS:
        return PEAK_RATE * (step + 1) / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, steps - 1 - WARMUP_STEPS)
    return PEAK_RATE * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def loss_of(model: Qwen3ForCausalLM, batches: list[Batch]) -> torch.Tensor:
    """Mean cross-entropy over the labelled tokens of one step, in nats; logits only where there is a label."""
    losses = []
    for batch in batches:
        # The padding is on the right, so causal attention needs no mask to keep it out.
        hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state.flatten(0, 1)
        labels = batch.labels.flatten().clone()
        labels[batch.spots] = IGNORE
        (labelled,) = torch.where(labels != IGNORE)
        losses.append(functional.cross_entropy(model.lm_head(hidden[labelled]), labels[labelled], reduction="none"))
        # The exact odds of a result carry far less noise than one draw: this is what makes the warm start short.
        losses.append(functional.cross_entropy(model.lm_head(hidden[batch.spots]), batch.odds, reduction="none"))
    return torch.cat(losses).mean()


def train(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> None:
    """Trains `model` in place for `steps` batches; the same seed on the same machine gives the same weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98))
    model.train()
    try:
        for step, batches in zip(range(steps), steps_of(tokenizer, seed), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps)
            loss = loss_of(model, batches)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if progress is not None:
                progress(step + 1, steps, loss.item())
    finally:
        torch.set_num_threads(threads)
    model.eval()

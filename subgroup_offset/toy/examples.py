"""Supervised examples of the warm start, drawn from code: chats of one user and one assistant message."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast

from .previews import paired_response, preview, strategy_response
from .problems import Pair, all_pairs, sample_problem
from .prompts import execution_prompt, messages, paired_prompt, strategy_prompt
from .responses import execution_response, plain_response
from .strategies import STRATEGIES

IGNORE = -100  # Label of positions outside the loss.

# Examples of each kind in one step. Plain responses are the shortest and teach the times table as well as the
# others, so they are the most. Pairs are mostly copies of what single previews teach, and long: a few are enough.
STEP_SIZES = {"plain": 40, "execution": 16, "strategy": 8, "paired": 4}


@dataclass(frozen=True)
class Example:
    """A user message and the assistant's answer; `spot` is where in the answer the drawn result starts, and `odds`
    the probability of each result that could have stood there. Both are empty for answers that are previews."""

    user: str
    answer: str
    spot: int | None = None
    odds: dict[str, float] | None = None


@dataclass(frozen=True)
class Batch:
    """Token ids and labels, both (examples, tokens), right-padded; labels are shifted by one and IGNORE elsewhere.

    Where a result was drawn, at the flat indices `spots` (draws,) of labels, `odds` (draws, vocabulary) is the
    target in place of the label.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    spots: torch.Tensor
    odds: torch.Tensor


def sample_example(rng: random.Random, kind: str, pairs: list[Pair]) -> Example:
    """One example of `kind`, a key of STEP_SIZES."""
    problem = sample_problem(rng, pairs)
    if kind == "strategy":
        return Example(strategy_prompt(problem.text), strategy_response(rng, problem))
    if kind == "paired":
        return Example(paired_prompt(problem.text), paired_response(rng))
    if kind == "plain":
        return Example(problem.text, *plain_response(rng, problem))
    strategy = rng.choice(STRATEGIES)
    prompt = execution_prompt(problem.text, preview(rng, strategy))
    return Example(prompt, *execution_response(rng, problem, strategy))


def collate(tokenizer: PreTrainedTokenizerFast, examples: list[Example]) -> Batch:
    """Pads the examples to one length; only the assistant's tokens and its end of message are labelled."""
    prompts = [
        tokenizer.apply_chat_template(messages(e.user), add_generation_prompt=True, tokenize=False) for e in examples
    ]
    prompt_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    answers = tokenizer([e.answer + tokenizer.eos_token for e in examples], add_special_tokens=False)
    answer_ids = answers["input_ids"]
    length = max(len(p) + len(a) for p, a in zip(prompt_ids, answer_ids, strict=True))
    ids = torch.full((len(examples), length), tokenizer.pad_token_id)
    labels = torch.full((len(examples), length), IGNORE)
    spots: list[int] = []
    odds = torch.zeros(sum(e.odds is not None for e in examples), len(tokenizer))
    for row, (example, prompt, answer) in enumerate(zip(examples, prompt_ids, answer_ids, strict=True)):
        start, end = len(prompt), len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        labels[row, start - 1 : end - 1] = torch.tensor(answer)
        if example.odds is not None:
            for text, probability in example.odds.items():
                odds[len(spots), tokenizer.convert_tokens_to_ids(text)] = probability
            spots.append(row * length + start - 1 + answers.char_to_token(row, example.spot))
    return Batch(ids, labels, torch.tensor(spots, dtype=torch.long), odds)


def steps_of(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[list[Batch]]:
    """An endless stream of steps, each one batch per kind so that little is padded; the same for the same seed."""
    rng = random.Random(seed)
    pairs = all_pairs()
    while True:
        yield [
            collate(tokenizer, [sample_example(rng, kind, pairs) for _ in range(size)])
            for kind, size in STEP_SIZES.items()
        ]

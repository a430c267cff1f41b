"""Measures a toy model by sampling: `python -m subgroup_offset.toy.check MODEL_DIR`."""

import argparse
import json
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from subgroup_offset.strategy import extract_pair, extract_preview

from .previews import preview
from .problems import ToyProblem, all_pairs, sample_problem
from .prompts import execution_prompt, messages, paired_prompt, strategy_prompt
from .strategies import STRATEGIES

BATCH_SIZE = 512
MAX_NEW_TOKENS = 64
SHORT = 24  # A regular response has at most 15 tokens with its end.


@dataclass(frozen=True)
class Measurement:
    """What sampling showed; shares are in 0..1, lengths in tokens, dictionaries are by strategy."""

    well_formed: float  # Previews that can be extracted.
    strategy_shares: dict[str, float]  # Among these; previews that mix strategies count for none.
    pairs_well_formed: float  # Pairs that can be extracted.
    pairs_different: float  # Among these; each half holds to a strategy of its own.
    pairs_ended: float  # Pairs, of whatever form, that ended by themselves within MAX_NEW_TOKENS.
    pair_shares: dict[str, float]  # Among the halves of the extracted ones.
    followed: dict[str, float]  # Responses that name the preview's strategy.
    success: dict[str, float]  # Under a preview of the strategy.
    plain: float  # Success of plain prompts at temperature 1.
    plain_cool: float  # The same at temperature 0.7.
    plain_strategies: dict[str, float]  # Named in plain responses at temperature 1.
    longest_preview: int
    short_responses: float  # Responses of at most SHORT tokens; a rare one rambles.


@torch.no_grad()
def sample(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, users: list[str], temperature: float
) -> list[str]:
    """One sampled answer, without special tokens, for each user message; draws from torch's global generator."""
    answers: list[str] = []
    for start in range(0, len(users), BATCH_SIZE):
        texts = [
            tokenizer.apply_chat_template(messages(user), add_generation_prompt=True, tokenize=False)
            for user in users[start : start + BATCH_SIZE]
        ]
        inputs = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        output = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=True,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=MAX_NEW_TOKENS,
        )
        answers += tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return answers


def is_right(problem: ToyProblem, answer: str) -> bool:
    """Whether the answer's last Answer line holds the right result."""
    found = re.findall(r"Answer: ([^\n]+)", answer)
    return bool(found) and found[-1] == str(problem.answer)


def named(answer: str) -> str | None:
    """The strategy in the answer's Method line."""
    found = re.match(r"Method: (\w+)\n", answer)
    return found[1] if found else None


def _share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


def strategy_of(text: str) -> str | None:
    """The strategy whose bullets hold all words of the preview `text`, in any wording; None if no strategy's do."""
    for strategy in STRATEGIES:
        bullets = (*strategy.conditions, *strategy.idea)
        known = {word for bullet in bullets for variant in bullet for word in variant.split()}
        said = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
        if said and all(word in known for line in said for word in line.split()):
            return strategy.name
    return None


def measure(model_dir: Path | str, n: int = 1000, seed: int = 0) -> Measurement:
    """Samples `n` answers for each prompt kind (and strategy) over all pairs; seeded, leaves the global RNG alone."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    rng = random.Random(seed)
    pairs = all_pairs()
    names = [s.name for s in STRATEGIES]
    problems = [sample_problem(rng, pairs) for _ in range(n)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        raw = sample(model, tokenizer, [strategy_prompt(p.text) for p in problems], 1.0)
        plain = sample(model, tokenizer, [p.text for p in problems], 1.0)
        cool = sample(model, tokenizer, [p.text for p in problems], 0.7)
        executed = {
            s.name: sample(model, tokenizer, [execution_prompt(p.text, preview(rng, s)) for p in problems], 1.0)
            for s in STRATEGIES
        }
        raw_pairs = sample(model, tokenizer, [paired_prompt(p.text) for p in problems], 1.0)
    extracted = [text for text in map(extract_preview, raw) if text is not None]
    seen = [strategy_of(text) for text in extracted]
    whole_pairs = [pair for pair in map(extract_pair, raw_pairs) if pair is not None]
    halves = [(strategy_of(first), strategy_of(second)) for first, second in whole_pairs]
    half_names = [name for pair in halves for name in pair]
    methods = [named(text) for text in plain]
    responses = [*plain, *(text for texts in executed.values() for text in texts)]
    return Measurement(
        well_formed=len(extracted) / n,
        strategy_shares={name: seen.count(name) / max(1, len(seen)) for name in names},
        pairs_well_formed=len(whole_pairs) / n,
        pairs_different=sum(None not in pair and pair[0] != pair[1] for pair in halves) / max(1, len(halves)),
        pairs_ended=_share([len(tokenizer.encode(text)) < MAX_NEW_TOKENS for text in raw_pairs]),
        pair_shares={name: half_names.count(name) / max(1, len(half_names)) for name in names},
        followed={name: _share([named(t) == name for t in executed[name]]) for name in names},
        success={name: _share(list(map(is_right, problems, executed[name]))) for name in names},
        plain=_share(list(map(is_right, problems, plain))),
        plain_cool=_share(list(map(is_right, problems, cool))),
        plain_strategies={name: methods.count(name) / n for name in names},
        longest_preview=max(len(tokenizer.encode(text)) for text in raw),
        short_responses=_share([len(tokenizer.encode(text)) <= SHORT for text in responses]),
    )


def main() -> None:
    """Prints the measurement as JSON."""
    parser = argparse.ArgumentParser(prog="python -m subgroup_offset.toy.check", description=__doc__)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--n", type=int, default=1000, help="answers per prompt kind (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps(asdict(measure(options.model_dir, options.n, options.seed)), indent=2))


if __name__ == "__main__":
    main()

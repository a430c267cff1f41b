"""The strategy stage and the baseline in a loop of one's own: one process, PyTorch, no Ray, no trainer of verl's.

    python examples/plain_torch.py [--lam -0.3] [--context plain] [--steps 20] [--seed 1]

Trains the toy world's model on a CPU and prints, for every step, the reward of the rollouts, and before and after the
accuracy of plain prompts. What is the package's: `StrategyStage`, `subgroup_advantages`, the toy world.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from subgroup_offset.advantage import subgroup_advantages
from subgroup_offset.config import StrategyConfig, SubgroupConfig
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.stage import Candidate, StrategyStage
from subgroup_offset.toy import EXECUTION_TEMPLATE, STRATEGY_TEMPLATE, build_toy

MAX_PROMPT, MAX_PREVIEW, MAX_RESPONSE = 96, 64, 32
Chat = list[dict[str, Any]]


class Policy:
    """A model and its tokenizer: samples, scores, and is trained."""

    def __init__(self, directory: Path, learning_rate: float) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), learning_rate, betas=(0.9, 0.999), weight_decay=0.1)
        self._waiting: list[tuple[list[int], asyncio.Future[list[int]]]] = []

    def ids(self, chat: Chat) -> list[int]:
        """Token ids of a chat, generation prompt included."""
        return self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)

    @torch.no_grad()
    def sample(self, prompts: Sequence[list[int]], length: int, temperature: float = 1.0) -> list[list[int]]:
        """One response for each prompt, its end-of-turn token included."""
        flipped = [torch.tensor(ids[::-1]) for ids in prompts]  # padded on the left
        batch = pad_sequence(flipped, batch_first=True, padding_value=-1).flip(1)
        options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0, "max_new_tokens": length}
        out = self.model.generate(input_ids=batch.clamp(min=0), attention_mask=(batch >= 0).long(), **options)
        end = self.tokenizer.eos_token_id
        rows = out[:, batch.shape[1] :].tolist()
        return [row[: row.index(end) + 1] if end in row else row for row in rows]

    async def candidate(self, prompt: list[int], index: int, media: Any) -> Candidate:
        """A preview; the requests of all prompts that are made together run as one batch."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[int]] = loop.create_future()
        self._waiting.append((prompt, future))
        loop.call_soon(self._answer)
        ids = await future
        return Candidate(self.tokenizer.decode(ids, skip_special_tokens=True), len(ids))

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            for (_, future), ids in zip(waiting, self.sample([p for p, _ in waiting], MAX_PREVIEW), strict=True):
                future.set_result(ids)

    def update(self, prompts: Sequence[list[int]], responses: Sequence[list[int]], advantages: Tensor) -> None:
        """One step of the policy gradient, a mean over all tokens; the ratio is 1, so nothing is clipped."""
        tokens = pad_sequence(
            [torch.tensor(p + r) for p, r in zip(prompts, responses, strict=True)], batch_first=True, padding_value=-1
        )
        logits = self.model(input_ids=tokens.clamp(min=0), attention_mask=(tokens >= 0).long()).logits[:, :-1]
        place = torch.arange(1, tokens.shape[1])
        starts = torch.tensor([len(p) for p in prompts])[:, None]
        mask = (place >= starts) & (tokens[:, 1:] >= 0)
        chosen = logits.log_softmax(-1).gather(-1, tokens[:, 1:].clamp(min=0)[..., None])[..., 0]
        loss = -(advantages[:, None] * chosen * mask).sum() / mask.sum()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


@dataclass(frozen=True)
class Problem:
    """A row of the toy world's data."""

    chat: Chat
    answer: str

    def reward(self, response: str) -> float:
        """1 or -1, as verl's reward for such data gives it."""
        _, marker, answer = response.rpartition("Answer: ")
        return 1.0 if marker and answer.strip() == self.answer else -1.0


def read_problems(path: Path) -> list[Problem]:
    """The problems of a Parquet file."""
    frame = pd.read_parquet(path)
    return [
        Problem(list(chat), reward["ground_truth"])
        for chat, reward in zip(frame.prompt, frame.reward_model, strict=True)
    ]


async def step(
    policy: Policy, stage: StrategyStage, problems: Sequence[Problem], z: int, lam: float, plain: bool
) -> float:
    """Strategies, Z rollouts on each, advantages, one update; the mean reward of the rollouts."""
    plans = await asyncio.gather(*(stage.run(problem.chat, 0, i) for i, problem in enumerate(problems)))
    rows = [(g, slot) for g, plan in enumerate(plans) for slot in range(len(plan.messages)) for _ in range(z)]
    sampled = [policy.ids(plans[g].messages[slot]) for g, slot in rows]
    responses = policy.sample(sampled, MAX_RESPONSE)
    texts = policy.tokenizer.batch_decode(responses, skip_special_tokens=True)
    rewards = torch.tensor([problems[g].reward(text) for (g, _), text in zip(rows, texts, strict=True)])
    subgroups = [plans[g].subgroups[slot] for g, slot in rows]
    result = subgroup_advantages(rewards, [g for g, _ in rows], subgroups, lam)
    trained = [policy.ids(problems[g].chat) for g, _ in rows] if plain else sampled
    policy.update(trained, responses, result.advantages)
    return float(rewards.mean())


def accuracy(policy: Policy, problems: Sequence[Problem]) -> float:
    """Share of plain prompts that are solved, one sample each at temperature 0.7."""
    responses = policy.sample([policy.ids(problem.chat) for problem in problems], MAX_RESPONSE, 0.7)
    texts = policy.tokenizer.batch_decode(responses, skip_special_tokens=True)
    return sum(p.reward(text) > 0 for p, text in zip(problems, texts, strict=True)) / len(problems)


def main(
    lam: Annotated[float, typer.Option(help="Above 0 Alignment, below 0 Contrast.")] = -0.3,
    context: Annotated[str, typer.Option(help="What is trained: sampled or plain prompts.")] = "sampled",
    steps: int = 20,
    prompts: Annotated[int, typer.Option(help="Problems a step.")] = 16,
    z: Annotated[int, typer.Option(help="Rollouts on each of 4 strategies.")] = 4,
    learning_rate: float = 1e-4,
    seed: int = 1,
    warm_start: Annotated[int | None, typer.Option(help="Steps of the toy model's warm start.")] = None,
) -> float:
    """Train, and print what happens; the accuracy at the end."""
    if context not in ("sampled", "plain"):
        raise typer.BadParameter(f"{context}: use sampled or plain", param_hint="--context")
    torch.manual_seed(seed)
    toy = build_toy(**({} if warm_start is None else {"steps": warm_start}))
    policy = Policy(toy.model, learning_rate)
    templates = {"strategy_template": STRATEGY_TEMPLATE, "execution_template": EXECUTION_TEMPLATE}
    config = SubgroupConfig(lam=lam, seed=seed, strategy=StrategyConfig(max_tokens=MAX_PREVIEW, **templates))

    async def tokenize(chat: Chat, media: Any) -> list[int]:
        return policy.ids(chat)

    stage = StrategyStage(
        config, load_templates(config.strategy), policy.candidate, tokenize, MAX_PROMPT, MAX_PROMPT + MAX_RESPONSE
    )
    train, held_out = read_problems(toy.train), read_problems(toy.val)
    order = random.Random(seed)
    print(f"plain prompts before: {accuracy(policy, held_out):.3f}")
    for number in range(1, steps + 1):
        batch = order.sample(train, prompts)
        reward = asyncio.run(step(policy, stage, batch, z, lam, context == "plain"))
        print(f"step {number}/{steps}  reward {reward:+.3f}")
    final = accuracy(policy, held_out)
    print(f"plain prompts after: {final:.3f}")
    return final


if __name__ == "__main__":
    typer.run(main)

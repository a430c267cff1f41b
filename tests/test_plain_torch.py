"""The example of a training loop of one's own: it trains, in the direction that the advantages say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import plain_torch
from plain_torch import Policy, Problem, accuracy, read_problems


@pytest.fixture(scope="module")
def world(untrained_world) -> Path:
    return untrained_world


def log_probability(policy: Policy, prompt: list[int], response: list[int]) -> float:
    ids = torch.tensor([prompt + response])
    with torch.no_grad():
        logs = policy.model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logs[torch.arange(len(prompt) - 1, ids.shape[1] - 1), ids[0, len(prompt) :]].sum().item()


def test_an_update_moves_each_response_the_way_of_its_advantage(world):
    policy = Policy(world / "model", learning_rate=1e-3)
    chat = [{"role": "user", "content": "What is 3 times 4?"}]
    prompts = [policy.ids(chat), policy.ids(chat)[:5]]  # of different lengths, so that one is padded
    responses = [[10, 11, 12, 13], [20, 21]]
    before = [log_probability(policy, p, r) for p, r in zip(prompts, responses, strict=True)]
    policy.update(prompts, responses, torch.tensor([1.0, -1.0]))
    after = [log_probability(policy, p, r) for p, r in zip(prompts, responses, strict=True)]
    assert after[0] > before[0] and after[1] < before[1]


def test_padding_changes_nothing_that_is_sampled(world):
    policy = Policy(world / "model", learning_rate=1e-3)
    short, long = [5, 6, 7], list(range(5, 25))
    alone = policy.sample([short], 8, temperature=1e-6)
    assert policy.sample([long, short], 8, temperature=1e-6)[1] == alone[0]


def test_rewards_are_those_of_the_answer_line():
    problem = Problem([], "12")
    texts = {"Answer: 12": 1, "so\nAnswer: 12 ": 1, "Answer: 1": -1, "12": -1, "Answer: 12\nno": -1}
    assert {text: problem.reward(text) for text in texts} == texts


@pytest.mark.parametrize("context", ["sampled", "plain"])
def test_it_runs_from_the_warm_start_to_the_end(context, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SUBGROUP_OFFSET_CACHE", str(tmp_path))
    final = plain_torch.main(context=context, steps=1, prompts=2, z=2, warm_start=1)
    printed = capsys.readouterr().out
    assert "step 1/1  reward" in printed and f"plain prompts after: {final:.3f}" in printed


def test_problems_are_those_of_the_toy_world(world):
    problems = read_problems(world / "toy-val.parquet")
    assert problems and problems[0].chat[0]["role"] == "user" and problems[0].answer.isdigit()
    assert 0 <= accuracy(Policy(world / "model", 1e-3), problems[:4]) <= 1


def test_an_unknown_context_is_refused():
    import typer

    with pytest.raises(typer.BadParameter, match="use sampled or plain"):
        plain_torch.main(context="both")

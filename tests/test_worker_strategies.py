"""The agent loop worker and its strategy stage: slots, routes, and what a candidate's tokens say."""

from __future__ import annotations

import asyncio

import pytest
from fake_rollout import WORDS, K, N, labels_of, preview, solved

from subgroup_offset.rollout.prompt_tokens import Chat


@pytest.mark.parametrize(("merge", "subgroups"), [(True, {0}), (False, set(range(K)))])
def test_empty_slots_are_one_population(rollout, merge, subgroups):
    it = rollout(*([] if merge else ["algorithm.subgroup.strategy.merge_empty=false"]))
    it.engine.candidate = lambda number: "no preview at all"
    it.roll_out({"a": solved})
    assert {label.subgroup for label in labels_of(it, "a").values()} == subgroups
    stats = it.ask(it.worker.drain()).stats
    assert stats.empty_slots == stats.slots == K
    assert "no preview at all" in stats.sample


def test_a_failed_strategy_request_costs_a_candidate(rollout):
    def candidate(number):
        if number % 2:
            raise ConnectionError("down")
        return preview(WORDS[number])

    it = rollout()
    it.engine.candidate = candidate
    it.roll_out({"a": solved})
    assert len({label.subgroup for label in labels_of(it, "a").values()}) == K
    assert it.ask(it.worker.drain()).stats.failed_requests == 4


# Routes.


@pytest.mark.parametrize(
    ("affinity", "routes"), [("prompt", {"a"}), ("subgroup", {"a", "a/0", "a/1", "a/2", "a/3"}), ("none", None)]
)
def test_requests_of_a_prompt_share_a_route(rollout, affinity, routes):
    it = rollout(f"algorithm.subgroup.strategy.affinity={affinity}")
    it.roll_out({"a": solved})
    used = [call["route"] for call in it.engine.asked]
    assert len(used) == 8 + N
    assert set(used) == routes if routes else len(set(used)) == len(used)


# What a candidate's tokens say.


def test_special_tokens_at_the_very_start_are_skipped_and_later_ones_end_the_turn(rollout):
    it = rollout()
    special = it.worker.tokenizer.all_special_tokens
    assert special
    it.engine.candidate = lambda number: (
        f"{''.join(special[: number % 3])}{preview(WORDS[number])}\n{special[-1]}\n{preview('late')}"
    )
    it.roll_out({"a": solved})
    stats = it.ask(it.worker.drain()).stats
    assert stats.usable == stats.candidates == 8 and stats.duplicates == 0


def test_think_tags_that_are_special_tokens_end_no_turn(rollout):
    it = rollout()
    end = it.worker.tokenizer.eos_token
    it.worker.tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>", end]})
    it.worker._chat = Chat(it.worker)
    it.engine.candidate = lambda number: f"<think>hm</think>\n{preview(WORDS[number])}\n{end}{preview('late')}"
    it.roll_out({"a": solved})
    stats = it.ask(it.worker.drain()).stats
    assert stats.usable == 8 and stats.duplicates == 0


def test_images_of_a_chat_go_along_with_its_strategy_requests(rollout, monkeypatch):
    it = rollout()
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is seen?"}]}]
    loop = it.worker._chat._loop

    async def load(messages):
        return {"images": ["picture"]}

    built = []

    def build(messages, tools=None, **media):
        built.append(media)
        return [1, 2, 3]

    monkeypatch.setattr(loop, "process_multi_modal_info", load)
    monkeypatch.setattr(loop, "_assert_mm_supported", lambda there: None)
    monkeypatch.setattr(loop.continuous_token_builder, "build_initial_tokens", build)
    plan = asyncio.run(it.worker._plan(chat, 1, 0, K))
    strategies = [call for call in it.engine.asked if call["strategy"]]
    assert len(strategies) == 8 and all(call["image_data"] == ["picture"] for call in strategies)
    assert all(media["images"] == ["picture"] for media in built)
    assert all(chat[0]["content"][0] == {"type": "image"} for chat in plan.messages)


def test_a_chat_with_images_is_refused_where_the_model_takes_none(rollout):
    it = rollout()
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is seen?"}]}]
    it.roll_out({"a": solved}, raw_prompt=[chat])
    assert it.queue.status("a") == "failure"
    (text,) = it.ask(it.worker.drain()).outcomes.said.values()
    assert "Multimodal inputs require" in text

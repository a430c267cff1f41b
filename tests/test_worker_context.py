"""Rollouts with a preview, trained under the plain prompt: what the worker stores."""

from __future__ import annotations

import numpy as np
import pytest
from fake_rollout import WORDS, N, labels_of, preview, solved

from subgroup_offset.rollout.context import GUIDED, ROWS_NOT_SWAPPED, ROWS_SWAPPED, exchange_prompt

PLAIN = "algorithm.subgroup.context=plain"


def prompt_ids(it, uid="a") -> set[tuple[int, ...]]:
    return {tuple(np.asarray(row["prompts"]).tolist()) for row in it.queue.rows(uid).values()}


@pytest.mark.parametrize("override", [PLAIN, "+algorithm.subgroup.method.oc_grpo.gamma=1.0"])
def test_rows_are_stored_under_the_plain_prompt_and_marked(rollout, override):
    def rolled_out(*overrides):
        it = rollout(*overrides)
        it.engine.candidate = lambda number: preview(WORDS[number]) if number < 2 else "none"
        it.roll_out({"a": solved})
        return it

    plain, sampled = rolled_out(override), rolled_out()
    chat = [{"role": "user", "content": "What is 0 plus 2?"}]
    alone = tuple(plain.worker._chat.build(chat))
    assert prompt_ids(plain) == {alone}
    assert len(prompt_ids(sampled)) == 3 and alone in prompt_ids(sampled)
    # What was sampled is the same: only what is trained on differs.
    asked = [
        sorted(tuple(call["prompt_ids"]) for call in it.engine.asked if not call["strategy"]) for it in (plain, sampled)
    ]
    assert asked[0] == asked[1]
    rows = plain.queue.rows("a")
    assert sum(row[GUIDED] for row in rows.values()) == N // 2
    empty = {label.subgroup for key, label in labels_of(plain, "a").items() if not rows[key][GUIDED]}
    assert empty == {2}
    for row in rows.values():
        ids, prompts, responses = (np.asarray(row[name]).tolist() for name in ("input_ids", "prompts", "responses"))
        assert ids == prompts + responses
    assert all(GUIDED not in row for row in sampled.queue.rows("a").values())
    assert plain.ask(plain.worker.drain()).counts == {ROWS_SWAPPED: N // 2, ROWS_NOT_SWAPPED: 0}


def test_every_output_of_a_session_is_exchanged(rollout):
    it = rollout(PLAIN)
    it.roll_out({"a": lambda session: [{"text": "1"}, {"text": "2", "reward": 1.0}]})
    assert len(it.queue.rows("a")) == 2 * N and len(prompt_ids(it)) == 1
    assert it.ask(it.worker.drain()).counts[ROWS_SWAPPED] == 2 * N


def test_validation_is_as_it_was(rollout):
    it = rollout(PLAIN)
    it.roll_out({"a": solved}, validate=True)
    assert it.ask(it.worker.drain()).counts == {}


def test_a_row_that_begins_otherwise_stays_and_counts():
    class Row:
        def __init__(self, ids):
            self.prompt_ids = ids

    rows = [Row([1, 2, 3]), Row([1, 2, 3, 9, 8]), Row([7, 2, 3])]
    assert exchange_prompt(rows, [1, 2, 3], [5]) == 1
    assert [row.prompt_ids for row in rows] == [[5], [5, 9, 8], [7, 2, 3]]


def test_media_are_refused(rollout, monkeypatch):
    it = rollout(PLAIN)

    async def media(messages):
        return object()

    monkeypatch.setattr(it.worker._chat, "media", media)
    it.roll_out({"a": solved})
    outcomes = it.ask(it.worker.drain()).outcomes
    assert outcomes.kept == 0 and "context=plain" in str(outcomes.said) and "context=sampled" in str(outcomes.said)

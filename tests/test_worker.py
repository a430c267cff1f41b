"""The agent loop worker: labels, and what becomes of them when something fails on the way."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

import numpy as np
import pytest
import torch
from fake_rollout import K, N, Z, in_order, labels_of, solved
from memory_queue import MemoryQueue

from subgroup_offset.rollout import labelling
from subgroup_offset.rollout.state import Drained
from subgroup_offset.rollout.watched import fail_prompts
from subgroup_offset.strategy.stats import StageStats


def test_every_row_of_a_prompt_is_labelled_with_its_slot(rollout):
    it = rollout()
    it.roll_out({"a": solved, "b": solved})
    for uid in ("a", "b"):
        assert it.queue.status(uid) == "finished"
        labels = labels_of(it, uid)
        assert sorted(labels) == sorted(f"{uid}_{session}_0" for session in range(N))
        for key, label in labels.items():
            assert key == f"{label.prompt}_{label.session}_{label.output}"
            assert label.subgroup == label.session // Z and label.success is True


def test_uneven_rollouts_are_spread_over_the_slots(rollout):
    it = rollout("actor_rollout_ref.rollout.n=5", "algorithm.subgroup.strategy.rollouts_per_strategy=null")
    it.roll_out({"a": solved, "b": solved}, __rollout_n__=np.array([5, 11]))
    assert [label.subgroup for label in in_order(labels_of(it, "a"))] == [0, 0, 0, 1, 1]
    assert [label.subgroup for label in in_order(labels_of(it, "b"))] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


def test_all_rows_of_a_session_are_labelled_and_its_last_one_decides(rollout):
    def outcome(session):
        return [{"reward": 0.0}] * session + [{"reward": 1.0, "info": {"acc": session % 2}}]

    it = rollout()
    it.roll_out({"a": outcome})
    labels = in_order(labels_of(it, "a"))
    assert Counter(label.session for label in labels) == {session: session + 1 for session in range(N)}
    assert all(label.success == bool(label.session % 2) for label in labels)


def test_validation_is_left_alone(rollout):
    it = rollout("actor_rollout_ref.rollout.val_kwargs.n=3")
    it.roll_out({"v": solved}, validate=True)
    rows = it.queue.rows("v", "val")
    assert len(rows) == 3 and {row["uid"] for row in rows.values()} == {"v"}
    assert not any(call["strategy"] for call in it.engine.asked)
    assert it.ask(it.worker.drain()).stats.prompts == 0


@pytest.mark.parametrize(
    ("acc", "reward", "expected"),
    [
        (1.0, 0.0, True),
        (0, 5.0, False),
        (torch.tensor(1.0), None, True),
        (np.bool_(False), 1.0, False),
        (None, 0.5, True),
        (None, None, None),
        ("correct", 1.0, None),
        (float("nan"), 1.0, None),
        ([1, 0], 1.0, None),
        (torch.tensor([1.0, 0.0]), 1.0, None),
    ],
)
def test_verdicts(acc, reward, expected):
    assert labelling.verdict(reward, acc) is expected


def test_a_verdict_in_words_is_unknown_and_counted(rollout, caplog):
    def outcome(session):
        return [{"reward": 1.0, "info": {"acc": "correct" if session == 3 else 1.0}}]

    it = rollout()
    it.roll_out({"a": outcome})
    assert [label.success for label in in_order(labels_of(it, "a"))] == [True] * 3 + [None] + [True] * 4
    drained = it.ask(it.worker.drain())
    assert drained.unknown_verdicts == 1 and drained.outcomes.kept == 1
    assert "acc='correct' is no number" in caplog.text


def test_a_reward_that_is_a_tensor_is_recorded_as_a_number(rollout, tmp_path):
    """As verl's dapo manager returns it from the overlong threshold on."""
    it = rollout(f"algorithm.subgroup.strategy.data_dir={tmp_path}")
    it.roll_out({"a": lambda session: [{"reward": torch.tensor(-1.5)}]})
    (record,) = it.ask(it.worker.drain()).records
    assert [slot["rewards"] for slot in record["slots"]] == [[-1.5] * Z] * K
    assert all(type(reward) is float for slot in record["slots"] for reward in slot["rewards"])
    assert {label.success for label in labels_of(it, "a").values()} == {False}


# What fails after the rows are published costs its prompt, and no other.


def by_field(session):
    return [{"reward": 1.0, "fields": {"kind": session % 2}}]


def missing_in_one(session):
    return [{"reward": 1.0, "fields": {} if session == 5 else {"kind": session % 2}}]


def test_a_partition_that_raises_costs_its_prompt_only(rollout, caplog):
    it = rollout("algorithm.subgroup.partition=field", "algorithm.subgroup.partition_field=kind")
    it.roll_out({"a": by_field, "b": missing_in_one, "c": by_field})
    assert [it.queue.status(uid) for uid in "abc"] == ["finished", "failure", "finished"]
    assert not it.queue.rows("b")
    for uid in "ac":
        assert [label.subgroup for label in in_order(labels_of(it, uid))] == ["0", "1"] * 4
    outcomes = it.ask(it.worker.drain()).outcomes
    assert outcomes.kept == 2
    ((cause, count),) = outcomes.lost.items()
    assert count == 1 and cause.kind == "ConfigError"
    assert "algorithm.subgroup.partition_field='kind' is no field of session 5" in outcomes.said[cause]
    assert "partition_field='kind' is no field of session 5" in caplog.text


@pytest.mark.parametrize(
    ("partition", "subgroups"),
    [
        ("length", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("turns", [0] * N),
        ("answer", ["0", "0", "1", "1", "2", "2", "3", "3"]),
        ("field", ["0", "1"] * 4),
    ],
)
def test_partitions_see_what_a_rollout_did(rollout, partition, subgroups):
    def outcome(session):
        return [{"reward": 1.0, "text": f"{'so ' * session}#### {session // 2}", "fields": {"kind": session % 2}}]

    it = rollout(f"algorithm.subgroup.partition={partition}", "algorithm.subgroup.partition_field=kind")
    it.roll_out({"a": outcome})
    assert [label.subgroup for label in in_order(labels_of(it, "a"))] == subgroups
    assert not any(call["strategy"] for call in it.engine.asked)


@pytest.mark.parametrize("failures", [1, 3])
def test_a_label_that_cannot_be_written_at_first_is_written_in_the_end(rollout, failures):
    it = rollout()
    left = {"a": failures}

    def fault(call, keys):
        uid = keys[0].rsplit("_", 2)[0] if keys else ""
        if call == "label" and left.get(uid, 0):
            left[uid] -= 1
            raise ConnectionError("the queue is busy")

    it.queue.fault = fault
    it.roll_out({"a": solved, "b": solved})
    for uid in "ab":
        assert it.queue.status(uid) == "finished" and len(labels_of(it, uid)) == N
    assert left == {"a": 0}


def test_labels_that_cannot_be_written_at_all_cost_their_prompt(rollout):
    it = rollout()

    def fault(call, keys):
        if call == "label" and keys[0].startswith("a_"):
            raise ConnectionError("the queue is busy")

    it.queue.fault = fault
    it.roll_out({"a": solved, "b": solved})
    assert it.queue.status("a") == "failure" and not it.queue.rows("a")
    assert it.queue.status("b") == "finished" and len(labels_of(it, "b")) == N
    outcomes = it.ask(it.worker.drain()).outcomes
    assert outcomes.kept == 1 and [cause.kind for cause in outcomes.lost] == ["ConnectionError"]


def failing(*sessions):
    def outcome(session):
        if session in sessions:
            raise RuntimeError(f"session {session} fails")
        return [{"reward": 1.0}]

    return outcome


@pytest.mark.parametrize(("mode", "kept"), [("sync", 1), ("colocate_async", 0)])
def test_a_prompt_with_a_failed_session_keeps_the_rest_labelled(rollout, mode, kept):
    """verl trains on the rest in its synchronous trainer, and replaces the prompt in the asynchronous ones."""
    it = rollout(f"trainer.v1.trainer_mode={mode}")
    it.roll_out({"a": failing(2, 7)})
    assert it.queue.status("a") == "failure"
    assert {label.session for label in labels_of(it, "a").values()} == set(range(N)) - {2, 7}
    outcomes = it.ask(it.worker.drain()).outcomes
    assert outcomes.kept == kept and outcomes.lost.total() == 1 - kept


def test_a_prompt_all_of_whose_sessions_fail_is_lost(rollout):
    it = rollout()
    it.roll_out({"a": failing(*range(N))})
    assert it.queue.status("a") == "failure" and not it.queue.rows("a")
    assert it.ask(it.worker.drain()).outcomes.lost.total() == 1


# Prompts that belong to nobody any more.


def test_a_worker_knows_what_it_runs(rollout):
    it = rollout("actor_rollout_ref.rollout.val_kwargs.n=2")

    async def scene():
        name = await it.send({"mine": solved})
        assert await it.send({"mine-val": solved}, validate=True) == name
        asked = ["mine", "mine-val", "never"]
        assert await it.worker.running(asked) == (name, ["mine", "mine-val"])
        await it.settle()
        assert await it.worker.running(asked) == (name, [])

    asyncio.run(scene())


def test_lost_prompts_fail_and_their_rows_go(monkeypatch):
    queue = MemoryQueue()
    queue.install(monkeypatch)

    async def scene():
        for uid, partition in (("gone", "train"), ("gone-val", "val"), ("other", "train")):
            await queue.async_kv_put(uid, partition, {"status": "running"})
            await queue.async_kv_batch_put([f"{uid}_0_0"], partition, tags=[{"status": "success"}])
        await queue.async_kv_put("over", "train", {"status": "finished"})
        await queue.async_kv_put("waiting", "train", {"status": "pending"})

    asyncio.run(scene())
    asked = ["gone", "gone-val", "over", "waiting", "never"]
    assert fail_prompts(asked) == 3 and fail_prompts(asked) == 0
    assert queue.status("gone") == queue.status("waiting") == queue.status("gone-val", "val") == "failure"
    assert queue.status("over") == "finished" and queue.status("other") == "running"
    assert set(queue.tags["train"]) == {"gone", "other", "other_0_0", "over", "waiting"}
    assert set(queue.tags["val"]) == {"gone-val"}


# What is asked of the worker, and what nobody asks for.


def test_drains_add_up_and_records_nobody_asks_for_are_bounded(rollout, tmp_path, monkeypatch):
    it = rollout(f"algorithm.subgroup.strategy.data_dir={tmp_path}")
    monkeypatch.setattr(it.worker._drained, "records", deque(maxlen=2))
    it.roll_out({"a": solved, "b": solved, "c": solved})
    drained = it.ask(it.worker.drain())
    tokens = len(it.worker.tokenizer.encode("12", add_special_tokens=False))
    assert drained.stats.prompts == 3 and drained.stats.rollout_tokens == 3 * N * tokens
    # Which prompt ends first is the event loop's affair.
    assert len({record["uid"] for record in drained.records}) == 2 and drained.dropped_records == 1
    assert Drained().records.maxlen is not None
    empty = it.ask(it.worker.drain())
    assert empty.stats == StageStats() and not empty.records and empty.outcomes.kept == 0

"""The agent loop manager: what a step's metrics and records are made of, and when it refuses to go on."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import ray

from subgroup_offset.rollout import manager as module
from subgroup_offset.rollout.guard import PromptOutcomes, RunStopped
from subgroup_offset.rollout.manager import StrategyAgentLoopManager
from subgroup_offset.rollout.state import Drained
from subgroup_offset.strategy.stats import StageStats


class Actor:
    """A worker that answers with what it is given; ``down`` raises, ``late`` never answers."""

    def __init__(self) -> None:
        self.drained, self.state = Drained(), "up"
        self.drain = SimpleNamespace(remote=lambda: (self, self._take))
        self.outcomes = SimpleNamespace(remote=lambda: (self, lambda: self.drained.outcomes))
        self.generate_sequences = SimpleNamespace(remote=lambda chunk: (self, lambda: "process"))

    def _take(self) -> Drained:
        taken, self.drained = self.drained, Drained()
        return taken


def answer(call):
    actor, take = call
    if actor.state == "down":
        raise ray.exceptions.RayError("the worker died\nand more")
    return take()


def wait(calls, num_returns, timeout):
    return [call for call in calls if call[0].state != "late"], [call for call in calls if call[0].state == "late"]


class Prompts(dict):
    """As much of a batch as is dispatched."""

    def chunk(self, count):
        return [Prompts(uid=[f"u{i}"]) for i in range(count)]


@pytest.fixture
def make(compose, monkeypatch, untrained_world):
    """Makes a manager of three workers, without Ray: ``make(*overrides)``."""
    stub = SimpleNamespace(
        wait=wait,
        get=lambda calls: [answer(c) for c in calls] if isinstance(calls, list) else answer(calls),
        remote=ray.remote,
        exceptions=ray.exceptions,
    )
    monkeypatch.setattr(module, "ray", stub)
    monkeypatch.setattr("subgroup_offset.rollout.watched.ray", stub)

    def build(*overrides):
        config = compose("contrast", "+experiment=toy", "+platform=cpu", f"toy_dir={untrained_world}", *overrides)
        made = StrategyAgentLoopManager(config, llm_client=None)
        made.agent_loop_workers = [Actor() for _ in range(3)]
        made._watchdog = SimpleNamespace(restarts=0, took=lambda *a: made.taken.append(a))
        made.taken = []
        return made

    return build


def slots(filled, of=8):
    return StageStats(prompts=2, slots=of, empty_slots=of - filled, candidates=16, usable=filled, sample="<think>")


def lost(count, text="it fails"):
    outcomes = PromptOutcomes()
    for _ in range(count):
        try:
            raise ValueError(text)
        except ValueError as error:
            outcomes.lose(error)
    return outcomes


def test_what_workers_gathered_adds_up(make):
    it = make()
    for actor, filled in zip(it.agent_loop_workers, (8, 8, 4), strict=True):
        actor.drained = Drained(slots(filled), PromptOutcomes(kept=2), unknown_verdicts=1)
    metrics = it._drain_workers()
    assert metrics["strategy/prompts"] == 6 and metrics["strategy/empty_slots"] == pytest.approx(4 / 24)
    assert metrics["rollout/unknown_verdicts"] == 3
    assert metrics["rollout/lost_prompts"] == metrics["rollout/silent_workers"] == 0


@pytest.mark.parametrize("state", ["down", "late"])
def test_a_worker_without_an_answer_costs_its_own_answer_only(make, caplog, state):
    it = make()
    for actor in it.agent_loop_workers:
        actor.drained = Drained(slots(8))
    it.agent_loop_workers[1].state = state
    for _ in range(2):
        metrics = it._drain_workers()
        assert metrics["rollout/silent_workers"] == 1
    assert caplog.text.count("not answer") == 1
    it.agent_loop_workers[1].state = "up"
    assert it._drain_workers()["strategy/prompts"] == 2


def test_records_that_cannot_be_written_cost_no_metric(make, tmp_path, caplog):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the directory should be")
    it = make(f"algorithm.subgroup.strategy.data_dir={blocked}")
    it.agent_loop_workers[0].drained = Drained(slots(8))
    it.agent_loop_workers[0].drained.records.extend([{"step": 1}, {"step": 1}])
    metrics = it._drain_workers()
    assert metrics["rollout/unwritten_records"] == 2 and metrics["strategy/prompts"] == 2
    assert "cannot be written" in caplog.text


def test_records_of_all_workers_are_written(make, tmp_path):
    it = make(f"algorithm.subgroup.strategy.data_dir={tmp_path}/log")
    for i, actor in enumerate(it.agent_loop_workers):
        actor.drained.records.append({"step": 1, "uid": str(i)})
    it._drain_workers()
    lines = (tmp_path / "log" / "1.jsonl").read_text().splitlines()
    assert [json.loads(line)["uid"] for line in lines] == ["0", "1", "2"]


def test_lost_prompts_are_counted_and_their_cause_is_told_once(make, caplog):
    it = make()
    it.agent_loop_workers[0].drained = Drained(outcomes=lost(2))
    it.agent_loop_workers[1].drained = Drained(outcomes=lost(1))
    assert it._drain_workers()["rollout/lost_prompts"] == 3
    assert it._drain_workers()["rollout/lost_prompts"] == 0
    assert caplog.text.count("ValueError: it fails") == 1


def test_prompts_are_handed_out_and_remembered(make):
    it = make()
    it.generate_sequences(Prompts())
    assert it.taken == [(i, [f"u{i}"], "process") for i in range(3)]


def test_an_error_on_every_prompt_ends_the_run_with_its_cause(make):
    it = make()
    it.agent_loop_workers[0].drained.outcomes = lost(40)
    it.generate_sequences(Prompts())
    with pytest.raises(RunStopped, match="ValueError: it fails"):
        it.generate_sequences(Prompts())  # the fake workers say it again: 80 in a row


def test_steps_without_previews_end_the_run_with_the_reason(make, caplog):
    it = make("algorithm.subgroup.strategy.max_low_preview_steps=2")
    for step in (1, 2):
        it.generate_sequences(Prompts())
        it.agent_loop_workers[0].drained = Drained(slots(1))
        it._drain_workers()
        assert caplog.text.count("1 of 8 strategy slots") == step
    with pytest.raises(RunStopped, match=r"2 steps in a row .* 1 of 8 slots"):
        it.generate_sequences(Prompts())

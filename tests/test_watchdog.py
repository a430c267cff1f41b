"""The watchdog: prompts of a process that is no more are failed, whatever goes wrong on the way, and no others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import ray

from subgroup_offset.rollout import watchdog
from subgroup_offset.rollout.watchdog import WorkerWatchdog


class Actor:
    """A worker as the watchdog sees it; ``dead`` is what asking it raises."""

    def __init__(self, name: str) -> None:
        self.name, self.runs, self.dead = name, set(), None
        self.running = SimpleNamespace(remote=self._running)

    def _running(self, uids: list[str]) -> tuple[str, list[str]]:
        if self.dead is not None:
            raise self.dead
        return self.name, [uid for uid in uids if uid in self.runs]


class Failed(list):
    """The prompts that were failed, in order; ``broken``: how often failing one fails."""

    broken = 0

    def __call__(self, uids: list[str]) -> int:
        if self.broken:
            self.broken -= 1
            raise ConnectionError("the queue is busy")
        self += uids
        return len(uids)


@pytest.fixture
def watched(monkeypatch):
    """Two workers, their watchdog without its thread, and what it fails."""
    stub = SimpleNamespace(get=lambda answer, timeout: answer, exceptions=ray.exceptions)
    monkeypatch.setattr(watchdog, "ray", stub)
    monkeypatch.setattr(WorkerWatchdog, "_watch", lambda self: None)
    actors, failed = [Actor("p0"), Actor("p1")], Failed()
    return actors, WorkerWatchdog(actors, failed), failed


def test_prompts_of_a_worker_that_lives_are_nobodys_business(watched):
    (actor, _), dog, failed = watched
    actor.runs = {"a", "b"}
    dog.took(0, ["a", "b", "c"], "p0")
    for running in ({"a", "b"}, {"b"}, set()):
        actor.runs = running
        dog.check(0)
    assert failed == [] and dog.restarts == 0


def test_a_worker_that_died_loses_what_it_ran(watched):
    (actor, _), dog, failed = watched
    dog.took(0, ["a", "b"], "p0")
    dog.took(1, ["c"], "p1")
    actor.name = "p0-again"
    dog.check(0)
    dog.check(1)
    assert sorted(failed) == ["a", "b"] and dog.restarts == 1
    dog.check(0)
    assert sorted(failed) == ["a", "b"] and dog.restarts == 1


def test_a_worker_that_died_before_the_first_look_is_noticed(watched):
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.name = "p0-again"
    dog.check(0)
    assert failed == ["a"] and dog.restarts == 1


def test_an_error_on_the_way_is_tried_again(watched):
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.name, failed.broken = "p0-again", 2
    for _ in range(2):
        with pytest.raises(ConnectionError):
            dog.check(0)
    assert failed == []
    dog.check(0)
    assert failed == ["a"]


def test_what_the_new_process_took_is_its_own(watched):
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.name, actor.runs = "p0-again", {"b"}
    dog.took(0, ["b"], "p0-again")
    dog.check(0)
    actor.runs = set()
    dog.check(0)
    assert failed == ["a"]


def test_a_prompt_that_was_sent_again_is_not_failed_for_its_first_taker(watched):
    """A resumed run sends prompts again under their old uid."""
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.name, actor.runs = "p0-again", {"a"}
    dog.took(0, ["a"], "p0-again")
    dog.check(0)
    actor.runs = set()
    dog.check(0)
    assert failed == []


def test_a_worker_that_is_dead_for_good_loses_what_it_ran(watched, caplog):
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.dead = ray.exceptions.ActorDiedError()
    for _ in range(2):
        dog.check(0)
    assert failed == ["a"] and dog.restarts == 0
    assert caplog.text.count("dead for good") == 1


def test_a_worker_that_is_being_started_again_is_waited_for(watched):
    (actor, _), dog, failed = watched
    dog.took(0, ["a"], "p0")
    actor.dead = ray.exceptions.ActorUnavailableError("restarting", None)
    with pytest.raises(ray.exceptions.RayError):
        dog.check(0)
    actor.dead, actor.name = None, "p0-again"
    dog.check(0)
    assert failed == ["a"] and dog.restarts == 1

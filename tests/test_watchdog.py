"""The watchdog: prompts of a process that is no more are failed, whatever goes wrong on the way, and no others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from subgroup_offset.rollout import watchdog
from subgroup_offset.rollout.watchdog import WorkerWatchdog


class Actor:
    """A worker as the watchdog sees it; ``running`` and ``fail_prompts`` answer at once, or raise."""

    def __init__(self, name: str) -> None:
        self.name, self.runs, self.failed, self.broken = name, set(), [], 0
        self.running = SimpleNamespace(remote=lambda uids: (self.name, [uid for uid in uids if uid in self.runs]))
        self.fail_prompts = SimpleNamespace(remote=self._fail)

    def _fail(self, uids: list[str]) -> int:
        if self.broken:
            self.broken -= 1
            raise ConnectionError("the queue is busy")
        self.failed += uids
        return len(uids)


@pytest.fixture
def watched(monkeypatch):
    """Two workers and their watchdog, without its thread."""
    monkeypatch.setattr(watchdog, "ray", SimpleNamespace(get=lambda answer, timeout: answer))
    monkeypatch.setattr(WorkerWatchdog, "_watch", lambda self: None)
    actors = [Actor("p0"), Actor("p1")]
    return actors, WorkerWatchdog(actors)


def test_prompts_of_a_worker_that_lives_are_nobodys_business(watched):
    (actor, _), dog = watched
    actor.runs = {"a", "b"}
    dog.took(0, ["a", "b", "c"], "p0")
    for running in ({"a", "b"}, {"b"}, set()):
        actor.runs = running
        dog.check(0)
    assert actor.failed == [] and dog.restarts == 0


def test_a_worker_that_died_loses_what_it_ran(watched):
    (actor, other), dog = watched
    dog.took(0, ["a", "b"], "p0")
    dog.took(1, ["c"], "p1")
    actor.name = "p0-again"
    dog.check(0)
    dog.check(1)
    assert sorted(actor.failed) == ["a", "b"] and other.failed == [] and dog.restarts == 1
    dog.check(0)
    assert sorted(actor.failed) == ["a", "b"] and dog.restarts == 1


def test_a_worker_that_died_before_the_first_look_is_noticed(watched):
    (actor, _), dog = watched
    dog.took(0, ["a"], "p0")
    actor.name = "p0-again"
    dog.check(0)
    assert actor.failed == ["a"] and dog.restarts == 1


def test_an_error_on_the_way_is_tried_again(watched):
    (actor, _), dog = watched
    dog.took(0, ["a"], "p0")
    actor.name, actor.broken = "p0-again", 2
    for _ in range(2):
        with pytest.raises(ConnectionError):
            dog.check(0)
    assert actor.failed == []
    dog.check(0)
    assert actor.failed == ["a"]


def test_what_the_new_process_took_is_its_own(watched):
    (actor, _), dog = watched
    dog.took(0, ["a"], "p0")
    actor.name, actor.runs = "p0-again", {"b"}
    dog.took(0, ["b"], "p0-again")
    dog.check(0)
    actor.runs = set()
    dog.check(0)
    assert actor.failed == ["a"]


def test_a_prompt_that_was_sent_again_is_not_failed_for_its_first_taker(watched):
    """A resumed run sends prompts again under their old uid."""
    (actor, _), dog = watched
    dog.took(0, ["a"], "p0")
    actor.name, actor.runs = "p0-again", {"a"}
    dog.took(0, ["a"], "p0-again")
    dog.check(0)
    actor.runs = set()
    dog.check(0)
    assert actor.failed == []

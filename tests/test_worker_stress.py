"""Two hundred prompts of 32 rollouts side by side, with random failures at every seam.

Whatever fails, no row is mislabelled, no unlabelled row stays, every prompt ends, and nothing is left behind.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fake_rollout import WORDS, preview

from subgroup_offset.labels import RolloutLabel

PROMPTS, N, Z = 200, 32, 8


class Faults:
    """Fails a share of all calls, and knows for every rollout what it came to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.outcomes: dict[tuple[str, int], tuple[bool, int]] = {}
        self.unwritable: set[str] = set()
        self.attempts: Counter[str] = Counter()

    def outcome(self, uid: str):
        def of_session(session: int) -> list[dict]:
            if self.rng.random() < 0.01:
                raise RuntimeError("a rollout fails")
            solved, outputs = self.rng.random() < 0.5, self.rng.choice((1, 1, 1, 2, 3))
            self.outcomes[uid, session] = solved, outputs
            acc = "yes" if self.rng.random() < 0.02 else float(solved)
            return [{"reward": 1.0 if solved else -1.0, "info": {"acc": acc}}] * outputs

        return of_session

    def candidate(self, number: int) -> str:
        chance = self.rng.random()
        if chance < 0.1:
            raise ConnectionError("a strategy request fails")
        return "no preview" if chance < 0.3 else preview(WORDS[number % len(WORDS)])

    def queue(self, call: str, keys: list[str]) -> None:
        if call == "label":
            uid = keys[0].rsplit("_", 2)[0]
            self.attempts[uid] += 1
            if self.attempts[uid] == 1 and self.rng.random() < 0.05:
                self.unwritable.add(uid)
            if uid in self.unwritable or (self.attempts[uid] < 3 and self.rng.random() < 0.2):
                raise ConnectionError("a label cannot be written")
        if call == "publish" and self.rng.random() < 0.005:
            raise ConnectionError("a row cannot be published")


@pytest.mark.slow
def test_nothing_is_mislabelled_and_nothing_is_left(rollout):
    it = rollout(f"actor_rollout_ref.rollout.n={N}", f"algorithm.subgroup.strategy.rollouts_per_strategy={Z}")
    faults = Faults(seed=1)
    it.engine.candidate, it.queue.fault = faults.candidate, faults.queue
    uids = [f"prompt-{i}" for i in range(PROMPTS)]
    it.roll_out({uid: faults.outcome(uid) for uid in uids})

    ended = Counter(it.queue.status(uid) for uid in uids)
    assert ended["finished"] + ended["failure"] == PROMPTS and min(ended.values()) > 10
    withdrawn = 0
    for uid in uids:
        rows = it.queue.rows(uid)
        withdrawn += not rows
        slots: dict[int, set] = {}
        for key, row in rows.items():
            label = RolloutLabel.decode(row["uid"])
            assert key == f"{uid}_{label.session}_{label.output}" and label.prompt == uid
            solved, outputs = faults.outcomes[uid, label.session]
            assert label.success in (solved, None) and label.output < outputs
            slots.setdefault(label.session // Z, set()).add(label.subgroup)
        # All rollouts of a slot are one subgroup: its own, or that of the first empty slot.
        assert all(len(subgroups) == 1 for subgroups in slots.values())
        if it.queue.status(uid) == "finished":
            assert len(rows) == sum(faults.outcomes[uid, session][1] for session in range(N))
    assert faults.unwritable and withdrawn == len(faults.unwritable)

    drained = it.ask(it.worker.drain())
    assert drained.outcomes.kept + drained.outcomes.lost.total() == PROMPTS
    assert drained.outcomes.lost.total() == withdrawn
    assert drained.stats.prompts == PROMPTS and drained.unknown_verdicts > 0
    assert not it.worker._prompts and not it.worker._running and not it.worker.background_tasks

"""Which rows count for the estimator: rewards that are not finite, padding, and sessions of several rows."""

import logging
import math
import random

import numpy as np
import pytest
import torch
from estimator_calls import (
    estimate,
    fresh_state,  # noqa: F401  autouse
    of,
    paper_rows,
    settings,
    tokens,
)
from hypothesis import given
from hypothesis import strategies as st
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS

# Sessions whose products with a number of prompts have no int64.
SESSIONS = st.sampled_from([0, 1, 2**61, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 2, 2**63 - 1])
ROWS = st.lists(st.tuples(st.sampled_from("pqrstu"), SESSIONS, st.integers(0, 2)), min_size=1, max_size=16, unique=True)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite(bad, caplog):
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    clean = estimate(ids, rewards, settings(-0.3))
    where = next(i for i, label in enumerate(labels) if label.prompt == "q")
    spoiled = list(rewards)
    spoiled[where] = bad
    STEP_METRICS.drain()
    with caplog.at_level(logging.WARNING):
        values = estimate(ids, spoiled, settings(-0.3))
        metrics = STEP_METRICS.drain()
        estimate(ids, spoiled, settings(-0.3))
    assert [record.getMessage() for record in caplog.records if "1 rows have a reward" in record.getMessage()]
    assert len(caplog.records) == 1
    assert metrics["subgroup/rows_nonfinite"] == 1
    assert metrics["subgroup/rows_masked"] == 0
    others = [i for i, label in enumerate(labels) if label.prompt != "q"]
    assert torch.equal(values[others], clean[others])
    rest = [i for i in range(len(labels)) if i != where]
    assert values[where] == 0
    torch.testing.assert_close(values[rest], of([labels[i] for i in rest], [rewards[i] for i in rest], -0.3))


def test_padding_and_masked_rows_count_in_nothing():
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    clean = estimate(ids, rewards, settings(-0.3))
    token_level, mask = tokens([*rewards, 7.0, 7.0, 7.0])
    ids += ["pad0", "pad0", RolloutLabel("p", 0, 99).encode()]
    mask[-3:] = 0
    STEP_METRICS.drain()
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, np.array(ids, dtype=object), settings(-0.3))
    assert torch.equal(advantages[:-3, 0], clean)
    assert (advantages[-3:] == 0).all()
    metrics = STEP_METRICS.drain()
    assert metrics["subgroup/rows_masked"] == 3
    assert metrics["subgroup/rows_total"] == 67
    assert metrics["subgroup/rows_counted"] == 64
    assert metrics["subgroup/groups"] == 2


def test_a_row_that_begins_with_a_token_of_the_environment_counts():
    token_level = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    advantages, _ = compute_grpo_subgroup_advantage(token_level, torch.tensor([[0, 1], [1, 1]]), ["p", "p"])
    assert advantages[0].tolist() == [0, -advantages[1, 0].item()]
    assert advantages[0, 1] > 0


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("width", [0, 2])
def test_batches_without_anything_to_count(rows, width):
    zeros = torch.zeros(rows, width)
    advantages, _ = compute_grpo_subgroup_advantage(zeros, zeros.long(), ["pad"] * rows, settings(-0.3))
    assert torch.equal(advantages, zeros)


class TestSessions:
    """Sessions with several output rows."""

    def test_the_last_row_speaks_and_all_rows_get_its_advantage(self):
        singles = [
            (RolloutLabel("p", k, k * 2 + z), reward) for k, z, reward in ((0, 0, 1.0), (0, 1, 0.0), (1, 0, 0.0))
        ]
        session = [(RolloutLabel("p", 1, 3, output), reward) for output, reward in ((1, 9.0), (10, 1.0), (0, -5.0))]
        rows = [session[0], singles[0], session[1], *singles[1:], session[2]]
        values = estimate([label.encode() for label, _ in rows], [reward for _, reward in rows], settings(-0.3))
        last = [*singles, session[1]]
        expected = of([label for label, _ in last], [reward for _, reward in last], -0.3)
        assert values[[1, 3, 4]].tolist() == expected[:3].tolist()
        assert values[[0, 2, 5]].tolist() == [expected[3].item()] * 3
        metrics = STEP_METRICS.drain()
        assert metrics["subgroup/rows_total"] == 6
        assert metrics["subgroup/rows_counted"] == 4

    @pytest.mark.parametrize("reason", ["mask", "reward"])
    def test_without_its_last_row_a_session_is_left_out(self, reason):
        labels = [RolloutLabel("p", 0, 0), RolloutLabel("p", 1, 1), RolloutLabel("p", 1, 2), RolloutLabel("p", 1, 2, 1)]
        token_level, mask = tokens([1.0, 0.0, 1.0, math.nan if reason == "reward" else 1.0])
        if reason == "mask":
            mask[3] = 0
        ids = [label.encode() for label in labels]
        advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ids, settings(0.5))
        expected = of(labels[:2], [1.0, 0.0], 0.5)
        assert advantages[:, 0].tolist() == [*expected.tolist(), 0, 0]

    def test_a_spoiled_row_before_the_last_gets_0_itself(self):
        labels = [RolloutLabel("p", 0, 0), RolloutLabel("p", 1, 1), RolloutLabel("p", 1, 1, 1)]
        values = estimate([label.encode() for label in labels], [1.0, math.nan, 0.0], settings(0.5))
        assert values.tolist() == [values[0].item(), 0, -values[0].item()]
        assert values[0] > 0

    def test_equal_session_numbers_of_two_prompts_are_two_sessions(self):
        labels = [RolloutLabel(p, k, k, 0) for p in ("p", "q") for k in (0, 1)] + [RolloutLabel("p", 0, 0, 1)]
        values = estimate([label.encode() for label in labels], [0.0, 1.0, 0.0, 1.0, 2.0], settings(-0.3))
        assert values[0] == values[4] > 0 > values[1]
        assert values[3] > 0 > values[2]

    @given(ROWS)
    def test_any_session_that_a_label_can_hold_is_the_session_that_it_says(self, rows):
        """The number of a session says nothing but which one it is: small ones in their place change nothing."""
        small = {session: number for number, session in enumerate(sorted({session for _, session, _ in rows}))}
        rewards = [float(i % 3) for i in range(len(rows))]

        def values(number):
            labels = [RolloutLabel(prompt, session % 2, number(session), output) for prompt, session, output in rows]
            return estimate([label.encode() for label in labels], rewards, settings(0.3))

        assert torch.equal(values(lambda session: session), values(small.__getitem__))

    def test_lam_0_equals_what_verl_does_for_grpo(self):
        """verl's own treatment, by its keys `{uid}_{session}_{output}`, on the same rows."""
        shuffle = random.Random(5)
        labels = [RolloutLabel(p, s % 2, s, o) for p in "pq" for s in range(4) for o in range(shuffle.randint(1, 3))]
        shuffle.shuffle(labels)
        rewards = [float(shuffle.randint(0, 4)) for _ in labels]
        token_level, mask = tokens(rewards)
        keys = [f"{label.prompt}_{label.session}_{label.output}" for label in labels]
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask},
            non_tensors={"uid": np.array([label.prompt for label in labels], dtype=object)},
        )
        expected = compute_advantage_for_multi_trajectories(data, keys, core_algos.AdvantageEstimator.GRPO)
        values = estimate([label.encode() for label in labels], rewards, settings(0.0))
        torch.testing.assert_close(values, expected.batch["advantages"][:, 0], rtol=3e-6, atol=3e-6)

"""Where the estimator's subgroups come from: labels, explicit ids, and what it refuses."""

import logging
import math

import numpy as np
import pytest
import torch
from estimator_calls import (
    estimate,
    fresh_state,  # noqa: F401  autouse
    of,
    paper_rows,
    settings,
)

from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS


@pytest.mark.parametrize("lam", [-0.3, 0.3, 1.0])
@pytest.mark.parametrize("std", ["sample", "population", "none"])
def test_labels_give_the_subgroups(lam, std):
    labels, rewards = paper_rows()
    values = estimate([label.encode() for label in labels], rewards, settings(lam, std=std))
    assert torch.equal(values, of(labels, rewards, lam, std=std))
    assert values.unique().numel() > 6


def test_shuffled_offsets_follow_the_seed():
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    values = [estimate(ids, rewards, settings(-0.3, shuffle_offsets=True, seed=seed)) for seed in (1, 2)]
    for seed, value in zip((1, 2), values, strict=True):
        assert torch.equal(value, of(labels, rewards, -0.3, shuffle_seed=seed))
    assert not torch.equal(*values)
    assert not torch.equal(values[0], estimate(ids, rewards, settings(-0.3)))


class TestWhereSubgroupsComeFrom:
    def test_explicit_ids_win_over_labels(self):
        labels, rewards = paper_rows()
        explicit = [label.session % 3 for label in labels]
        others = {"non_tensor_batch": {"subgroup_id": np.array(explicit, dtype=object)}, "batch": None, "unknown": 1}
        values = estimate([label.encode() for label in labels], rewards, settings(-0.3), **others)
        renamed = [RolloutLabel(label.prompt, e, label.session) for label, e in zip(labels, explicit, strict=True)]
        assert torch.equal(values, of(renamed, rewards, -0.3))
        assert not torch.equal(values, of(labels, rewards, -0.3))

    def test_explicit_ids_serve_plain_uids(self):
        labels, rewards = paper_rows()
        explicit = np.array([label.subgroup for label in labels])
        values = estimate(
            [label.prompt for label in labels],
            rewards,
            settings(-0.3, shuffle_offsets=True),
            non_tensor_batch={"subgroup_id": explicit},
        )
        assert torch.equal(values, of(labels, rewards, -0.3, shuffle_seed=0))

    def test_explicit_ids_of_another_length_are_refused(self):
        with pytest.raises(ValueError, match=r"subgroup_id'\] must have one id per row: got 1 for 2 rows"):
            estimate(["p", "p"], [0.0, 1.0], settings(0.3), non_tensor_batch={"subgroup_id": [1]})

    @pytest.mark.parametrize("missing", [None, math.nan, np.float32("nan"), np.float64("nan")])
    def test_an_explicit_id_that_is_missing_is_refused_with_counts(self, missing):
        ids, rewards = ["p"] * 4, [0.0, 1.0, 1.0, 0.0]

        def values(*subgroups, lam=0.3):
            explicit = np.empty(4, dtype=object)
            explicit[:] = subgroups
            return estimate(ids, rewards, settings(lam), non_tensor_batch={"subgroup_id": explicit})

        with pytest.raises(ValueError, match=r"2 of 4 rows have the subgroup_id None or NaN\. Give every row") as error:
            values("a", missing, "b", missing)
        assert "algorithm.subgroup.lam=0.3" in str(error.value)
        with pytest.raises(ValueError, match="none of the 4 rows has a subgroup_id other than None or NaN"):
            values(*[missing] * 4)
        assert torch.equal(values("a", missing, "b", missing, lam=0.0), estimate(ids, rewards, settings(0.0)))

    def test_a_missing_id_of_a_row_that_does_not_count_is_no_matter(self):
        rewards = [0.0, 1.0, math.nan]
        explicit = np.array(["a", "b", None], dtype=object)
        values = estimate(["p"] * 3, rewards, settings(0.3), non_tensor_batch={"subgroup_id": explicit})
        assert values[2] == 0 and values[1] == -values[0] > 0

    def test_lam_without_labels_says_how_to_supply_them(self):
        with pytest.raises(ValueError) as error:
            estimate(["p", "p"], [0.0, 1.0], settings(0.3), non_tensor_batch={})
        for part in (
            "lam=0.3",
            "none of the 2 rows",
            "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=subgroup_offset.rollout.StrategyAgentLoopManager",
            "`subgroup_id`",
            "lam=0 ",
        ):
            assert part in str(error.value)

    def test_partly_labelled_batches_are_refused_with_counts(self):
        ids = [RolloutLabel("p", 0, 0).encode(), "p", "q"]
        with pytest.raises(ValueError, match="2 of 3 rows carry no label"):
            estimate(ids, [0.0, 1.0, 1.0], settings(0.3))

    def test_partly_labelled_batches_are_grpo_at_lam_0(self):
        values = estimate([RolloutLabel("p", 0, 0).encode(), "p", "p"], [1.0, 0.0, 0.0], settings(0.0))
        expected = of([RolloutLabel("p", 0, 0)] * 3, [1.0, 0.0, 0.0], 0.0)
        assert torch.equal(values, expected)

    def test_malformed_labels_are_refused(self):
        with pytest.raises(ValueError, match="malformed rollout label"):
            estimate(["sgo1:p#0.0.-.i0", "sgo1:p"], [0.0, 1.0], settings(0.3))


class TestOneSubgroupEach:
    """Steps in which no prompt has two subgroups, so that lam does nothing."""

    def warnings(self, caplog, labels, lam):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            estimate([label.encode() for label in labels], [float(i % 2) for i in range(len(labels))], settings(lam))
        return [record.getMessage() for record in caplog.records]

    def test_it_is_said_once(self, caplog):
        labels = [RolloutLabel(prompt, 0, session) for prompt in "pq" for session in range(4)]
        (said,) = self.warnings(caplog, labels, -0.3)
        for part in ("lam=-0.3 did nothing", "With a partition", "strategy.merge_empty", "Said once"):
            assert part in said
        assert self.warnings(caplog, labels, -0.3) == []
        assert STEP_METRICS.drain()["subgroup/subgroups_per_group_max"] == 1

    @pytest.mark.parametrize(
        "labels",
        [
            [RolloutLabel("p", 0, 0), RolloutLabel("p", 0, 1), RolloutLabel("q", 0, 0), RolloutLabel("q", 1, 1)],
            [RolloutLabel("p", 0, 0), RolloutLabel("q", 0, 0)],  # one rollout each has no two subgroups to be in
        ],
    )
    def test_other_steps_are_not(self, caplog, labels):
        assert self.warnings(caplog, labels, -0.3) == []

    def test_neither_is_grpo(self, caplog):
        assert self.warnings(caplog, [RolloutLabel("p", 0, session) for session in range(4)], 0.0) == []


def test_the_estimator_says_that_it_reads_labels():
    assert compute_grpo_subgroup_advantage.reads_rollout_labels is True

"""What is generated: everything once, whenever a run is cut off."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from eval_samples import plan, problem
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation.plan import EvaluationError, SampleKey, SamplingPlan, verl_rows, write_rows

SIZES = st.integers(1, 4)
PLANS = st.builds(plan, replicas=SIZES, samples=SIZES, a=SIZES, b=st.integers(0, 3))


def pending_keys(pending) -> list[SampleKey]:
    return [SampleKey(p.problem.benchmark, p.problem.id, p.replica, sample) for p in pending for sample in p.samples]


@given(PLANS, st.data())
def test_what_is_done_and_what_remains_are_everything_once(plan, data):
    keys = list(plan.keys())
    assert len(keys) == len(set(keys)) == plan.total
    done = set(data.draw(st.lists(st.sampled_from(keys), unique=True)))
    remaining = pending_keys(plan.remaining(done))
    assert len(remaining) == len(set(remaining))
    assert done.isdisjoint(remaining) and done.union(remaining) == set(keys)


@given(PLANS)
def test_all_problems_come_before_any_comes_again(plan):
    pending = plan.remaining(())
    assert pending_keys(pending) == list(plan.keys())
    names = [(p.problem.benchmark, p.problem.id) for p in pending]
    for replica in range(plan.replicas):
        chunk = names[replica * len(plan.problems) : (replica + 1) * len(plan.problems)]
        assert sorted(chunk) == sorted({(p.benchmark, p.id) for p in plan.problems})
        assert {p.replica for p in pending[replica * len(plan.problems) :][: len(plan.problems)]} == {replica}


@given(PLANS, st.data())
def test_rows_say_which_samples_they_stand_for(plan, data):
    keys = list(plan.keys())
    pending = plan.remaining(data.draw(st.lists(st.sampled_from(keys), unique=True, max_size=len(keys) - 1)))
    rows = verl_rows(pending)
    named = []
    for row in rows:
        extra = row["extra_info"]
        for session in range(row["__rollout_n__"]):  # verl's sessions, counted from 0
            named.append(SampleKey(extra["benchmark"], extra["id"], extra["replica"], extra["samples"][session]))
        assert row["__rollout_n__"] == len(extra["samples"]) > 0
    assert named == pending_keys(pending)
    assert [row["extra_info"]["index"] for row in rows] == list(range(len(rows)))


def test_rows_come_back_from_the_file(tmp_path):
    rows = verl_rows(plan(a=2).remaining({SampleKey("a", "a-0", 0, 1)}))
    write_rows(rows, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows
    assert rows[0]["prompt"] == [{"role": "user", "content": "Which number is a-0?"}]
    assert rows[0]["reward_model"]["ground_truth"] == "56" and rows[0]["data_source"] == "aime24"
    assert rows[0]["extra_info"]["samples"] == [0, 2]


def test_samples_of_another_evaluation_are_refused():
    with pytest.raises(EvaluationError, match=r"1 samples are not of this evaluation, \('a', 'a-0', 0, 3\)"):
        plan(a=1).remaining({SampleKey("a", "a-0", 0, 3), SampleKey("a", "a-0", 0, 2)})


def test_plans_that_cannot_be():
    with pytest.raises(EvaluationError, match="--replicas 0 is too small"):
        plan(replicas=0, a=1)
    with pytest.raises(EvaluationError, match="has problem '1' twice"):
        SamplingPlan((problem("a", "1"), problem("a", "1")), 1, 1)

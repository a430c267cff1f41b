"""What is sampled: everything once, whenever a run is cut off."""

from __future__ import annotations

import pytest
from eval_samples import plan
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation.plan import EvaluationError, SampleKey, read_requests, write_requests

SIZES = st.integers(1, 4)
PLANS = st.builds(plan, replicas=SIZES, samples=SIZES, a=SIZES, b=st.integers(0, 3))


@given(PLANS, st.data())
def test_what_is_done_and_what_remains_are_everything_once(plan, data):
    keys = list(plan.keys())
    assert len(keys) == len(set(keys)) == plan.total
    done = set(data.draw(st.lists(st.sampled_from(keys), unique=True)))
    remaining = plan.remaining(done)
    assert len(remaining) == len(set(remaining))
    assert done.isdisjoint(remaining) and done.union(remaining) == set(keys)


@given(PLANS)
def test_all_problems_come_before_any_comes_again(plan):
    keys = plan.remaining(())
    size = len(plan.problems) * plan.samples
    for replica in range(plan.replicas):
        chunk = keys[replica * size :][:size]
        assert {key.replica for key in chunk} == {replica}
        assert {(key.benchmark, key.problem) for key in chunk} == {(p.benchmark, p.id) for p in plan.problems}


def test_requests_come_back_from_the_file(tmp_path):
    whole = plan(a=2, b=1)
    keys = whole.remaining({SampleKey("a", "a-0", 0, 1)})
    write_requests(tmp_path / "run" / "requests.json", whole.problems, keys)
    found = list(read_requests(tmp_path / "run" / "requests.json"))
    assert [key for key, _ in found] == keys
    assert all(problem in whole.problems and (problem.benchmark, problem.id) == key[:2] for key, problem in found)
    assert found[0][1].chat == [{"role": "user", "content": "Which number is a-0?"}]


def test_samples_of_another_evaluation_are_refused():
    with pytest.raises(EvaluationError, match=r"1 samples are not of this evaluation, \('a', 'a-0', 0, 3\)"):
        plan(a=1).remaining({SampleKey("a", "a-0", 0, 3), SampleKey("a", "a-0", 0, 2)})

"""Worker processes of grading: limits, deaths, order."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from corpus.grading_workers import act, die

from subgroup_offset.evaluation.pool import PoolError, WorkerPool

MEMORY = 2 << 30


@pytest.fixture
def pool():
    pool = WorkerPool(2, 1.0, MEMORY, act)
    yield pool
    pool.close()


def outcomes(pool, *pairs):
    found = dict(pool.compare(pairs))
    assert set(found) == set(range(len(pairs)))  # each pair has exactly one
    return [(found[i].reason, found[i].detail) for i in range(len(pairs))]


def test_every_pair_gets_its_own_outcome(pool):
    pairs = [("wait a little" if i % 3 == 0 else "echo", str(i)) for i in range(9)]
    assert outcomes(pool, *pairs) == [("equal", str(i)) for i in range(9)]


def test_no_pairs_start_no_worker(pool):
    assert outcomes(pool) == []
    assert pool._workers == []


def test_one_pair_starts_one_worker(pool):
    outcomes(pool, ("echo", "0"))
    assert len(pool._workers) == 1


def test_failures_are_told_apart_and_cost_no_other_pair(pool):
    what = ["echo", "hang", "exit", "raise", "recurse", "fill the memory", "echo", "hang", "exit", "echo"]
    found = outcomes(pool, *((each, str(i)) for i, each in enumerate(what)))
    expected = {
        "hang": ("timeout", "no result within 1 s"),
        "exit": ("error", "the worker ended with exit code 3"),
        "raise": ("error", "RuntimeError: on purpose"),
        "fill the memory": ("error", "out of memory"),
    }
    for i, (each, outcome) in enumerate(zip(what, found, strict=True)):
        if each == "recurse":
            assert outcome[0] == "error" and "RecursionError" in outcome[1]
        else:
            assert outcome == expected.get(each, ("equal", str(i)))


def test_a_killed_worker_is_gone_and_the_pool_goes_on(pool):
    outcomes(pool, ("echo", "0"))
    (worker,) = pool._workers
    assert outcomes(pool, ("hang", ""))[0][0] == "timeout"
    assert worker.process.returncode is not None
    assert outcomes(pool, ("echo", "1")) == [("equal", "1")]


def test_a_worker_that_died_while_idle_is_replaced(pool):
    outcomes(pool, ("echo", "0"))
    pool._workers[0].process.kill()
    pool._workers[0].process.wait()
    assert outcomes(pool, ("echo", "1"), ("echo", "2"))[1] == ("equal", "2")


def test_given_up_half_way_leaves_no_stale_result(pool):
    results = pool.compare([("echo", "0"), ("wait a little", "1"), ("wait a little", "2")])
    next(results)
    results.close()
    assert outcomes(pool, ("echo", "new"), ("echo", "newer")) == [("equal", "new"), ("equal", "newer")]


def test_closed_workers_are_dead_and_start_again(pool):
    outcomes(pool, ("echo", "0"), ("echo", "1"))
    workers = list(pool._workers)
    pool.close()
    assert all(worker.process.returncode is not None for worker in workers)
    assert outcomes(pool, ("echo", "2")) == [("equal", "2")]


def test_works_beside_and_inside_of_threads(pool):
    found = []
    thread = threading.Thread(target=lambda: found.extend(outcomes(pool, ("echo", "0"), ("hang", ""))))
    thread.start()
    thread.join()
    assert [reason for reason, _ in found] == ["equal", "timeout"]


@pytest.mark.parametrize("script", ["file", "standard input"])
def test_a_script_needs_no_main_guard(tmp_path, script):
    code = (
        "from corpus.grading_workers import act\n"
        "from subgroup_offset.evaluation.pool import WorkerPool\n"
        "print([outcome.reason for _, outcome in WorkerPool(1, 9, 1 << 31, act).compare([('echo', '')])])\n"
    )
    (tmp_path / "script.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-" if script == "standard input" else str(tmp_path / "script.py")]
    done = subprocess.run(command, input=code, env=environment, text=True, capture_output=True)
    assert (done.stdout, done.stderr) == ("['equal']\n", "")


def test_workers_that_cannot_start_are_no_verdict():
    pool = WorkerPool(2, 1.0, MEMORY, act, die)
    with pytest.raises(PoolError, match=r"exit code 7.*import math_verify"):
        outcomes(pool, ("echo", "0"))
    assert pool._workers == []

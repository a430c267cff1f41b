"""Worker processes of grading: limits, deaths, order."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading

import pytest
from corpus.grading_workers import act, die

from subgroup_offset.evaluation.pool import PoolError, WorkerPool

MEMORY = 2 << 30


@pytest.fixture(scope="module")
def pool():
    pool = WorkerPool(2, 2.0, MEMORY, act)
    yield pool
    pool.close()


def outcomes(pool, *pairs):
    found = list(pool.compare(pairs))
    assert len(found) == len(pairs)
    return found


def workers():
    return {process.pid for process in multiprocessing.active_children()}


def test_every_pair_gets_its_own_outcome(pool):
    pairs = [("wait a little" if i % 3 == 0 else "echo", str(i)) for i in range(9)]
    assert outcomes(pool, *pairs) == [("equal", str(i)) for i in range(9)]
    assert outcomes(pool) == []


def test_failures_are_told_apart_and_cost_no_other_pair(pool):
    what = ["echo", "hang", "exit", "raise", "recurse", "fill the memory", "echo", "hang in C", "exit", "echo"]
    found = outcomes(pool, *((each, str(i)) for i, each in enumerate(what)))
    expected = {
        "hang": ("timeout", "no result within 2 s"),
        "exit": ("error", "the worker ended with exit code 3"),
        "raise": ("error", "RuntimeError: on purpose"),
        "fill the memory": ("error", "MemoryError: "),
    }
    for i, (each, outcome) in enumerate(zip(what, found, strict=True)):
        if each == "recurse":
            assert outcome[0] == "error" and "RecursionError" in outcome[1]
        elif each == "hang in C":
            assert outcome[0] in ("timeout", "error")
        else:
            assert outcome == expected.get(each, ("equal", str(i)))


def test_a_worker_that_ran_out_of_time_or_died_is_gone_and_the_pool_goes_on():
    pool, seen = WorkerPool(1, 2.0, MEMORY, act), []
    try:
        for what in ("hang", "exit", "echo"):
            seen += outcomes(pool, ("pid", "0"), ("pid", "1"))
            outcomes(pool, (what, ""))
    finally:
        pool.close()
    assert seen[0] == seen[1] and seen[2] == seen[3] and len(set(seen)) == 3
    assert not {int(pid) for _, pid in seen} & workers()


def test_given_up_half_way_leaves_no_worker_and_no_stale_result(pool):
    results = pool.compare([("echo", "0"), ("hang", "1"), ("hang", "2")])
    next(results)
    results.close()
    assert workers() == set()
    assert outcomes(pool, ("echo", "new"), ("echo", "newer")) == [("equal", "new"), ("equal", "newer")]


def test_works_beside_and_inside_of_threads(pool):
    found = []
    thread = threading.Thread(target=lambda: found.extend(outcomes(pool, ("echo", "0"), ("hang", ""))))
    thread.start()
    thread.join()
    assert [reason for reason, _ in found] == ["equal", "timeout"]


SCRIPT = """
from corpus.grading_workers import act
from subgroup_offset.evaluation.pool import WorkerPool
pool = WorkerPool(1, 9, 1 << 31, act)
print(list(pool.compare([("modules", "torch verl sympy")])))
pool.close()
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_workers_import_what_the_main_module_does_and_nothing_heavy(tmp_path, guarded):
    lines = SCRIPT.strip().split("\n")
    script = [*lines[:2], "if __name__ == '__main__':", *(f"    {line}" for line in lines[2:])] if guarded else lines
    (tmp_path / "script.py").write_text("\n".join(script))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60)
    if guarded:
        assert (done.stdout, done.stderr) == ("[('equal', '[]')]\n", "")
    else:  # it says what to do, and does not start workers for ever
        assert done.returncode == 1 and 'needs `if __name__ == "__main__":`' in done.stderr


def test_workers_that_cannot_start_are_no_verdict():
    before = workers()
    with pytest.raises(PoolError, match="import math_verify"):
        outcomes(WorkerPool(2, 1.0, MEMORY, die), ("echo", "0"))
    assert workers() <= before

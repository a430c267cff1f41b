"""Grade responses: find the answer, compare it with the reference, and give a verdict with its reason.

A verdict is right, wrong, or neither: where a comparison ran out of time, failed or would have filled the memory, it is
undecided (``correct`` is None), counted on its own, and never a silent zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from rich.console import Console
from rich.progress import track

from subgroup_offset.evaluation.answers import MAX_ANSWER, FoundAnswer, find_answer
from subgroup_offset.evaluation.clean import NotMathematics, check, clean, number
from subgroup_offset.evaluation.pool import WorkerPool

#: How answer and reference were compared: as texts, as plain numbers, or by math-verify.
Method = Literal["exact", "numeric", "symbolic"]
# fmt: off
Reason = Literal["equal", "different", "more than one answer", "no answer found", "answer not understood",
                 "answer too long", "too large to evaluate", "timeout", "error"]
# fmt: on
REASONS: tuple[Reason, ...] = get_args(Reason)
UNDECIDED: frozenset[Reason] = frozenset(("too large to evaluate", "timeout", "error"))


@dataclass(frozen=True)
class Verdict:
    """What a response scored, and why."""

    #: None: undecided.
    correct: bool | None
    reason: Reason
    #: The answer as the response spells it; None if it has none.
    extracted: str | None = None
    #: None if it did not come to a comparison.
    method: Method | None = None
    #: More about the reason, for people.
    detail: str = ""


class Grader(AbstractContextManager["Grader"]):
    """Grades responses; equal pairs of answer and reference are compared once. Use it in a ``with`` statement.

    Args:
        workers: processes for math-verify; they are started when the first pair needs one.
        time_limit: seconds a comparison may take.
        memory: address space of a worker, bytes.
    """

    def __init__(self, workers: int = 2, time_limit: float = 10.0, memory: int = 4 << 30) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers} is too small: set it to 1 or above.")
        if not time_limit > 0:
            raise ValueError(f"time_limit={time_limit} is no time: set it above 0, in seconds.")
        self._pool = WorkerPool(workers, time_limit, memory)
        self._known: dict[tuple[str, str], Verdict] = {}

    def __exit__(self, *exception: object) -> None:
        """End the worker processes; they start again where they are needed."""
        self._pool.close()

    def grade(self, samples: Sequence[tuple[str, str]], console: Console | None = None) -> list[Verdict]:
        """A verdict for each pair of a response and its reference, in their order.

        Raises:
            ValueError: for a reference that is empty, too long or no mathematics, before anything is graded.
            PoolError: if no worker process can be started.
        """
        return self.judge([(find_answer(response), reference) for response, reference in samples], console)

    def judge(self, answers: Sequence[tuple[FoundAnswer | None, str]], console: Console | None = None) -> list[Verdict]:
        """As :meth:`grade`, for answers that have been found already (None: none was); a bar is shown on a console."""
        for i, (_, reference) in enumerate(answers):
            if (problem := reference_problem(reference)) is not None:
                raise ValueError(f"reference {i}, {reference!r}, {problem}")
        new = {(found.text, reference) for found, reference in answers if found} - self._known.keys()
        self._known |= {pair: verdict for pair in new if (verdict := _without_workers(*pair))}
        left = sorted(new - self._known.keys())
        hidden = console is None or not left
        outcomes = track(self._pool.compare(left), "grading answers", len(left), console=console, disable=hidden)
        for pair, (reason, detail) in zip(left, outcomes, strict=True):
            self._known[pair] = _verdict(reason, pair[0], "symbolic", detail)  # type: ignore[arg-type]
        none = Verdict(False, "no answer found")
        return [self._known[found.text, reference] if found else none for found, reference in answers]


@cache
def reference_problem(reference: str) -> str | None:
    """Why a reference cannot be graded against; None if it can."""
    if not reference.strip():
        return "is empty: every sample needs a reference answer."
    if len(reference) > MAX_ANSWER:
        return f"has {len(reference)} characters, more than {MAX_ANSWER}: give the final answer only."
    try:
        check(clean(reference))
    except NotMathematics as error:
        return f"cannot be read: {error}."
    return None


def _verdict(reason: Reason, answer: str, method: Method | None, detail: str = "") -> Verdict:
    return Verdict(None if reason in UNDECIDED else reason == "equal", reason, answer, method, detail)


def _without_workers(answer: str, reference: str) -> Verdict | None:
    """The verdict on what is the same text, or a plain number for a plain number; else None."""
    if len(answer) > MAX_ANSWER:
        return _verdict("answer too long", answer, None, f"{len(answer)} characters, more than {MAX_ANSWER}")
    given, expected = clean(answer), clean(reference)
    if given == expected:
        return _verdict("equal", answer, "exact")
    if (a := number(given)) is None or (b := number(expected)) is None:
        return None
    return _verdict("equal" if a == b else "different", answer, "numeric")

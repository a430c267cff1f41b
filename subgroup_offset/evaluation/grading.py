"""Grade responses: find the answer, compare it with the reference, and give a verdict with its reason.

A verdict is right, wrong, or neither: where a comparison ran out of time, failed or would have filled the memory, it is
undecided (``correct`` is None), counted on its own, and never a silent zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import get_args

from subgroup_offset.evaluation.answers import MAX_ANSWER, FoundAnswer, find_answer
from subgroup_offset.evaluation.equality import Method, Outcome, Reason, compare
from subgroup_offset.evaluation.pool import WorkerPool
from subgroup_offset.evaluation.symbolic import compare_symbolically, prepare

REASONS: tuple[Reason, ...] = get_args(Reason)
UNDECIDED: frozenset[Reason] = frozenset(("too large to evaluate", "timeout", "error"))
#: An answer line that comes to this holds no mathematics; a box that comes later counts in its place.
_NO_ANSWER: frozenset[Reason] = frozenset(("answer not understood", "answer too long"))
WORKERS = 2
TIME_LIMIT = 10.0  #: seconds a comparison
MEMORY = 4 << 30  #: bytes of address space a worker

#: Called with the number of different pairs of answer and reference that have been compared, and of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Verdict:
    """What a response scored, and why."""

    #: None: undecided.
    correct: bool | None
    reason: Reason
    #: The answer as the response spells it; None if it has none.
    extracted: str | None = None
    #: The weakest kind of equality that was tried; None if it did not come to a comparison.
    method: Method | None = None
    #: More about the reason, for people.
    detail: str = ""


@dataclass(frozen=True)
class Summary:
    """How many verdicts of each kind there are."""

    counts: Counter[Reason]
    methods: Counter[Method]

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def correct(self) -> int:
        return self.counts["equal"]

    @property
    def undecided(self) -> int:
        return sum(self.counts[reason] for reason in UNDECIDED)

    @property
    def accuracy(self) -> float:
        """Share of correct ones among all, in [0, 1]; undecided ones count as not correct. 0 for no verdicts."""
        return self.correct / self.total if self.total else 0.0


def summarize(verdicts: Iterable[Verdict]) -> Summary:
    """Count reasons, and the methods by which correct answers were found equal."""
    verdicts = list(verdicts)
    methods = Counter(verdict.method for verdict in verdicts if verdict.correct and verdict.method)
    return Summary(Counter(verdict.reason for verdict in verdicts), methods)


class Grader:
    """Grades responses; equal pairs of answer and reference are compared once. Use it in a ``with`` statement.

    Args:
        workers: processes for symbolic equality; they are started when the first pair needs one.
        time_limit: seconds a comparison may take.
        memory: address space of a worker, bytes.
    """

    def __init__(self, workers: int = WORKERS, time_limit: float = TIME_LIMIT, memory: int = MEMORY) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers} is too small: set it to 1 or above.")
        if not time_limit > 0:
            raise ValueError(f"time_limit={time_limit} is no time: set it above 0, in seconds.")
        self._pool = WorkerPool(workers, time_limit, memory, compare_symbolically, prepare)
        self._known: dict[tuple[str, str], Outcome] = {}

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def grade(self, samples: Sequence[tuple[str, str]], progress: Progress | None = None) -> list[Verdict]:
        """Grade responses.

        Args:
            samples: pairs of a response and its reference.
            progress: see :data:`Progress`.

        Returns:
            A verdict for each sample, in their order.

        Raises:
            ValueError: for a reference that is empty, too long or no mathematics, before anything is graded.
            PoolError: if no worker process can be started.
        """
        return self.judge([(find_answer(response), reference) for response, reference in samples], progress)

    def judge(
        self, answers: Sequence[tuple[FoundAnswer | None, str]], progress: Progress | None = None
    ) -> list[Verdict]:
        """As :meth:`grade`, for answers that have been found already (None: none was)."""
        for i, (_, reference) in enumerate(answers):
            if (problem := reference_problem(reference)) is not None:
                raise ValueError(f"reference {i}, {reference!r}, {problem}")
        self._compare([(found.text, reference) for found, reference in answers if found], progress)
        self._compare(
            [(box, reference) for found, reference in answers if (box := self._second(found, reference))], None
        )
        return [self._verdict(found, reference) for found, reference in answers]

    def _second(self, found: FoundAnswer | None, reference: str) -> str | None:
        """The box that counts in place of an answer line without mathematics."""
        if found and found.later_box and self._known[found.text, reference].reason in _NO_ANSWER:
            return found.later_box
        return None

    def _verdict(self, found: FoundAnswer | None, reference: str) -> Verdict:
        if found is None:
            return Verdict(False, "no answer found")
        text = self._second(found, reference) or found.text
        outcome = self._known[text, reference]
        assert outcome.reason is not None
        correct = None if outcome.reason in UNDECIDED else outcome.reason == "equal"
        return Verdict(correct, outcome.reason, text, outcome.method, outcome.detail)

    def _compare(self, pairs: Sequence[tuple[str, str]], progress: Progress | None) -> None:
        """Have an outcome for all pairs in ``_known``."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        undecided = []
        for pair in new:
            outcome = _without_workers(*pair)
            if outcome.reason is None:
                undecided.append(pair)
            else:
                self._known[pair] = outcome
        done = len(new) - len(undecided)
        if progress:
            progress(done, len(new))
        for i, outcome in self._pool.compare(undecided):
            self._known[undecided[i]] = outcome
            done += 1
            if progress:
                progress(done, len(new))


@cache
def reference_problem(reference: str) -> str | None:
    """Why a reference cannot be graded against; None if it can."""
    if not reference.strip():
        return "is empty: every sample needs a reference answer."
    if len(reference) > MAX_ANSWER:
        return f"has {len(reference)} characters, more than {MAX_ANSWER}: give the final answer only."
    outcome = _without_workers(reference, reference)
    return f"cannot be read: {outcome.detail}." if outcome.reason == "error" else None


def _without_workers(answer: str, reference: str) -> Outcome:
    if len(answer) > MAX_ANSWER:
        return Outcome("answer too long", detail=f"{len(answer)} characters, more than {MAX_ANSWER}")
    try:
        return compare(answer, reference)
    except Exception as error:  # a fault of ours in one odd answer must not cost the verdicts of all others
        return Outcome("error", detail=f"{type(error).__name__}: {error}"[:300])

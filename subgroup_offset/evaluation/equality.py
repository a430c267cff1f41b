r"""Whether an answer equals a reference: exactly, numerically, symbolically, in this order.

*Exact*: the same text in normal form. *Numeric*: the same rational number, by exact arithmetic; no tolerance anywhere,
so ``0.333`` is no ``1/3`` and ``1.414`` no ``\sqrt{2}``. *Symbolic*: what math-verify finds, see ``symbolic.py``; it
runs in worker processes, so here it is a function that is passed in, or nothing, and then the outcome is left open.

The reference decides what is asked for. A reference that is one value takes one answer: ``103 or 104`` and ``103, 104``
are more than one. A list or a set (``3, 5``; ``\{3, 5\}``) is compared without order, each value as often as it is
there; a set takes no tuple. A tuple or interval in brackets is compared in order, and the brackets must be the same;
a tuple also takes a plain list in its order. So equality is symmetric but for a tuple against a list, for references
that are equations (``structure.py``), and for ``1,234``, which is a list where the reference is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from subgroup_offset.evaluation.normalize import WORD, NotMathematics, normalize
from subgroup_offset.evaluation.rational import TooLarge, Undefined, rational
from subgroup_offset.evaluation.structure import Answer, Equations, Group, Relation, Value, structure

Method = Literal["exact", "numeric", "symbolic"]
Reason = Literal[
    "equal",
    "different",
    "more than one answer",
    "no answer found",
    "answer not understood",
    "answer too long",
    "too large to evaluate",
    "timeout",
    "error",
]
METHODS: tuple[Method, ...] = get_args(Method)
Symbolic = Callable[[str, str], "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What a comparison found; ``reason`` None: nothing, symbolic equality has to decide."""

    reason: Reason | None
    #: The weakest that was needed; None where nothing was compared.
    method: Method | None = None
    detail: str = ""


_OPEN = Outcome(None)
# Words, or names of points: the case does not matter.
_LETTERS = re.compile("[A-Za-z]{2,}")


def compare(answer: str, reference: str, symbolic: Symbolic | None = None) -> Outcome:
    """Compare an answer with a reference.

    Args:
        answer: as found in the response.
        reference: the data set's answer.
        symbolic: compares two texts in normal form; without it what only it can decide stays open.

    Returns:
        The outcome; its reason is ``error`` where the reference itself cannot be read.
    """
    try:
        wanted = normalize(reference)
        expected = structure(wanted, equations="compound")
    except NotMathematics as error:
        return Outcome("error", detail=f"the reference {reference!r} is not understood: {error}")
    try:
        text = normalize(answer)
        if text == wanted:
            return Outcome("equal", "exact")
        equations: Equations = "all" if isinstance(expected, Relation) else "last side"
        given = structure(text, equations=equations)
        if isinstance(expected, Group):
            listed = structure(text, lists=True, equations=equations)
            if isinstance(listed, Group) and len(listed.items) == len(expected.items):
                given = listed
    except NotMathematics as error:
        return Outcome("answer not understood", detail=str(error))
    return _compare(given, expected, symbolic)


def _compare(given: Answer, expected: Answer, symbolic: Symbolic | None) -> Outcome:
    given, expected = _single(given), _single(expected)
    if isinstance(given, Value) and isinstance(expected, Value):
        if given.name and expected.name and given.name != expected.name:
            return Outcome("different", "exact", f"{given.name} is not {expected.name}")
        return _values(given.text, expected.text, symbolic)
    if _several(given, expected):
        return Outcome("more than one answer", "exact")
    if isinstance(given, Group) and isinstance(expected, Group):
        if _ordered(given, expected):
            return _in_order(given.items, expected.items, symbolic)
        if _unordered(given, expected):
            outcome = _in_any_order(given.items, expected.items, symbolic)
            if outcome.reason != "different" or expected.kind != "union":
                return outcome
    if given.text == expected.text:
        return Outcome("equal", "exact")
    if _is_set(given) and _is_set(expected):
        return symbolic(given.text, expected.text) if symbolic else _OPEN
    return Outcome("different", "exact", "values of different kinds")


def _values(given: str, expected: str, symbolic: Symbolic | None) -> Outcome:
    if given == expected or (_LETTERS.fullmatch(given) and given.casefold() == expected.casefold()):
        return Outcome("equal", "exact")
    if WORD.search(expected):
        return Outcome("different", "exact")
    if WORD.search(given):
        return Outcome("answer not understood", detail="words, and no value")
    try:
        a = rational(given)
    except Undefined as error:
        return Outcome("answer not understood", detail=str(error))
    except TooLarge as error:
        return Outcome("too large to evaluate", detail=str(error))
    try:
        b = rational(expected)
    except (Undefined, TooLarge) as error:
        return Outcome("error", detail=f"the reference: {error}")
    if a is not None and b is not None:
        return Outcome("equal" if a == b else "different", "numeric")
    return symbolic(given, expected) if symbolic else _OPEN


def _single(answer: Answer) -> Answer:
    """A set of one value is that value."""
    return answer.items[0] if isinstance(answer, Group) and len(answer.items) == 1 else answer


def _several(given: Answer, expected: Answer) -> bool:
    if not isinstance(given, Group):
        return False
    if isinstance(expected, Value):
        return given.kind in ("list", "set", "tuple")
    # (1,2] or (2,3], against (1,2]
    return given.kind == "list" and not (isinstance(expected, Group) and expected.kind in ("list", "set", "tuple"))


def _ordered(given: Group, expected: Group) -> bool:
    if expected.kind == "tuple":
        return given.kind in ("tuple", "list")
    return expected.kind == given.kind == "interval" and expected.brackets == given.brackets


def _unordered(given: Group, expected: Group) -> bool:
    takes = {"list": ("list", "set", "tuple"), "set": ("list", "set"), "union": ("union",)}
    return given.kind in takes.get(expected.kind, ())


def _is_set(answer: Answer) -> bool:
    """Relations and intervals: either may be spelled as the other, joined or cut, which takes symbolic equality."""
    return isinstance(answer, Relation) or (isinstance(answer, Group) and answer.kind in ("interval", "union", "tuple"))


def _in_order(given: Sequence[Answer], expected: Sequence[Answer], symbolic: Symbolic | None) -> Outcome:
    if len(given) != len(expected):
        return Outcome("different", "exact", f"{len(given)} values, not {len(expected)}")
    return _joined([_compare(a, b, symbolic) for a, b in zip(given, expected, strict=True)])


def _in_any_order(given: Sequence[Answer], expected: Sequence[Answer], symbolic: Symbolic | None) -> Outcome:
    """Each expected value takes the first equal one that is left; equality is transitive, so that is enough."""
    if len(given) != len(expected):
        return Outcome("different", "exact", f"{len(given)} values, not {len(expected)}")
    left, found = list(given), []
    for value in expected:
        outcomes = [_compare(candidate, value, symbolic) for candidate in left]
        equal = next((i for i, outcome in enumerate(outcomes) if outcome.reason == "equal"), None)
        if equal is None:
            found.append(min(outcomes, key=lambda outcome: _SEVERITY.get(outcome.reason, 1)))
        else:
            found.append(outcomes[equal])
            del left[equal]
    return _joined(found)


#: What says most about values that found no equal one: open, then a failure, then different.
_SEVERITY = {None: 0, "different": 2}


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome for values that must all be equal."""
    for reason in ("different", None):
        for outcome in outcomes:
            if outcome.reason == reason:
                return outcome
    failed = next((outcome for outcome in outcomes if outcome.reason != "equal"), None)
    return failed or max(outcomes, key=lambda outcome: METHODS.index(outcome.method or "exact"))

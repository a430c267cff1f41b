r"""Whether an answer equals a reference, by math-verify behind guards. Runs in worker processes: sympy may hang.

The reference decides what is asked for. A reference that is one value takes one answer: ``103 or 104`` is more than
one. A list or a set is compared without order, each value as often as it is there; a tuple or an interval in order,
with the same brackets; a tuple also takes a plain list. Of a chain of equalities the last side is the value, unless the
reference is an equation itself. Numbers are compared by relative precision and formulas at points, since math-verify
takes ``(2-\sqrt3)^{100}`` for ``(2-\sqrt3)^{99}``, both below its tolerance, and its simplification may never end. It
reads all values, with letters in their case, and decides the rest: sets, relations, matrices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from math_verify import verify

from subgroup_offset.evaluation.clean import THOUSANDS, WORD, NotMathematics, around, check, clean, number, split

DIGITS = 50  #: by which numbers and formulas are found different
MANY_DIGITS = 1000  #: by which numbers are found equal: 2^{2025} and 2^{2025}-1 agree to 609

_SIGN = re.compile(r"\\(pm|mp)(?![A-Za-z]) ?")
_RELATION = re.compile(r"=|<|>|\\(?:le|ge|neq)(?![a-z])")
_NAME = re.compile(r"(?:\\[A-Za-z]+|[A-Za-z]{1,3}'*)(?:_\{[^{}]*\})?(?:\([A-Za-z]\))?")
_TEXT = re.compile(rf"{WORD.pattern}|^[A-Z][A-Za-z]+$")
_SET = re.compile(r"\\(?:cup|cap|setminus|mathbb|infty|emptyset)(?![a-z])")
_LISTS = ("list", "set", "()", "[]")
_READING = ConversionConfig(interpret_as_mixed_fractions=True, lowercase_symbols=False)


def compare(answer: str, reference: str) -> tuple[str, str]:
    """One of :data:`~subgroup_offset.evaluation.grading.REASONS`, and more about it."""
    try:
        wanted = check(clean(reference))
        text = clean(answer)
        expected, listed = _parts(wanted), text.replace(THOUSANDS, ",")
        if len(expected.items) > 1 and len(split(listed, ",")) == len(expected.items):
            text = listed
        given = _parts(text)
        value = expected.kind == "value" and not _RELATION.search(expected.text)
        one = value or (given.kind == "list" and expected.kind not in ("list", "set", "()"))
        relations = expected.is_set and all(map(_RELATION.search, given.items))
        if one and given.kind != "value" and not relations:
            return "more than one answer", ""
        return ("equal" if _same(text, wanted) else "different"), ""
    except NotMathematics as error:
        return "answer not understood", str(error)
    except (OverflowError, MemoryError) as error:
        return "too large to evaluate", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:300]


@dataclass(frozen=True)
class _Parts:
    kind: str  # value (or a relation), list, set, or the two brackets of a tuple or an interval
    text: str
    items: tuple[str, ...] = ()
    name: str = ""  # the variable before the equals sign of a value

    @property
    def is_set(self) -> bool:
        return len(self.kind) == 2 or bool(_SET.search(self.text) or _RELATION.search(self.text))


def _parts(text: str, equations: bool | None = None) -> _Parts:
    """The parts of an answer; ``equations``: whether those are relations; None: those of more than a variable."""
    items = _items(split(text, ",", ";", r"\\"))
    if len(items) > 1:
        return _Parts("list", text.replace(THOUSANDS, ","), items)
    text = split(split(items[0], r"\approx")[0], r"\in")[-1].strip()
    sides = split(text, "=")
    name = sides[0] if len(sides) > 1 and _NAME.fullmatch(sides[0]) else ""
    if equations is None:
        equations = not (name or around(sides[0]) or WORD.search(sides[0])) and bool(re.search("[A-Za-z]", sides[0]))
    if not equations:
        text = sides[-1].strip().removeprefix("+")
    brackets = around(text)
    width = len(brackets) // 2
    inner = split(text[width:-width].replace(THOUSANDS, ","), ",", ";") if brackets else []
    if len(inner) == 1 and inner[0] and brackets in ("()", "[]", "{}", r"\{\}"):
        parts = _parts(inner[0], equations)
        return _Parts(parts.kind, parts.text, parts.items, name or parts.name)
    if len(inner) < 2:
        return _Parts("value", text.replace(THOUSANDS, ""), (), name)
    return _Parts("set" if brackets in (r"\{\}", "{}") else brackets, text.replace(THOUSANDS, ","), _items(inner))


def _items(parts: Sequence[str]) -> tuple[str, ...]:
    r"""The parts that are not empty, those with a ``\pm`` twice."""
    items: list[str] = []
    for part in filter(None, parts):
        items += dict.fromkeys(
            _SIGN.sub(lambda sign, up=up: "+" if (sign[1] == "pm") == up else "-", part) for up in (True, False)
        )
    if not items:
        raise NotMathematics("there is nothing that could be a value")
    return tuple(items)


def _same(given_text: str, expected_text: str) -> bool:
    expected = _parts(expected_text)
    given = _parts(given_text, True if _RELATION.search(expected.text) else None if expected.is_set else False)
    if given.kind == expected.kind == "value":
        return len({given.name, expected.name} - {""}) < 2 and _same_value(given.text, expected.text)
    if (expected.kind == "list" and given.kind in _LISTS) or (expected.kind == "set" and given.kind in _LISTS[:2]):
        return _in_any_order(given.items, expected.items)
    if expected.items and (given.kind == expected.kind or (given.kind == "list" and expected.kind == "()")):
        return _in_order(given.items, expected.items)
    if expected.is_set and (given.is_set or given.kind == "list"):
        return _equal(_parse(given.text), _parse(expected.text, reference=True))
    return False


def _in_order(given: Sequence[str], expected: Sequence[str]) -> bool:
    return len(given) == len(expected) and all(map(_same, given, expected))


def _in_any_order(given: Sequence[str], expected: Sequence[str]) -> bool:
    """Each expected value takes the first equal one that is left; equality is transitive, so that is enough."""
    left = list(given)
    for item in expected:
        equal = next((candidate for candidate in sorted(left, key=item.__ne__) if _same(candidate, item)), None)
        if equal is None:
            return False
        left.remove(equal)
    return not left


def _same_value(given: str, expected: str) -> bool:
    if given == expected:
        return True
    if _TEXT.search(expected):
        return len(given) > 1 and given.casefold() == expected.casefold()
    if WORD.search(given):
        raise NotMathematics("words, and no value")
    if (a := number(given)) is not None and (b := number(expected)) is not None:
        return a == b
    # math-verify leaves primes out.
    primes = [len(re.findall("'|prime", text)) for text in (given, expected)]
    return primes[0] == primes[1] and _equal(_parse(given), _parse(expected, reference=True))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, sp.Expr) and isinstance(b, sp.Expr) and (same := _agree(a, b, DIGITS)) is not None:
        return same and (bool(a.free_symbols | b.free_symbols) or _agree(a, b, MANY_DIGITS) is not False)
    return verify(b, a, 15, DIGITS, allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=True)


def _agree(a: sp.Expr, b: sp.Expr, digits: int) -> bool | None:
    """Whether both agree, but for their last ten digits, at up to four points; None if they have no values there."""
    symbols, found = sorted(a.free_symbols | b.free_symbols, key=str), []
    for i in range(4 if symbols else 1):
        point = {x: (-1) ** (i + j) * sp.Rational(7 * j + 2 * i + 5, 3 + 2 * i) for j, x in enumerate(symbols)}
        x, y = (_value(each.subs(point) if symbols else each, digits) for each in (a, b))
        if x is not None and y is not None:
            found.append(x == y or bool(abs(x - y) < sp.Rational(1, 10 ** (digits - 10)) * max(abs(x), abs(y))))
    return all(found) if found else None


def _value(expression: sp.Expr, digits: int) -> sp.Expr | None:
    """The value of a number, without what is only noise; None where it has none."""
    parts = expression.evalf(digits).as_real_imag()
    if not all(part.is_Number and part.is_finite for part in parts):
        return None
    real, imaginary = (0 if getattr(part, "_prec", 2) == 1 else part for part in parts)
    return real + sp.I * imaginary


def _parse(text: str, reference: bool = False) -> Any:
    """What math-verify reads: a value, a relation, or the union of a list of relations."""
    if len(parts := split(text, ",")) > 1:
        return sp.Union(*(_parse(part, reference).as_set() for part in parts))
    latex = re.sub(r"(\d{1,3})!!", lambda match: str(math.prod(range(int(match[1]), 0, -2))), text)
    latex = re.sub(r"(\d*)\.(\d*)(?:\\overline\{(\d+)\})?", _decimal, latex)
    try:
        parsed = latex2sympy(
            latex.replace("%", r"\cdot\frac{1}{100}"), None, True, normalization_config=None, conversion_config=_READING
        )
    except Exception as error:
        raise (ValueError if reference else NotMathematics)(f"math-verify does not understand {text}") from error
    for power in (part for part in sp.postorder_traversal(parsed) if isinstance(part, sp.Pow)):
        if power.exp.is_number and abs(power.exp).evalf(2) > 10**12:
            raise OverflowError("a tower of powers")
    if parsed.has(sp.nan, sp.zoo):
        raise (ValueError if reference else NotMathematics)(f"{text} has no value")
    if isinstance(parsed, sp.Expr):
        parsed = parsed.subs({symbol: sp.I for symbol in parsed.free_symbols if symbol.name == "i"})
    return parsed


def _decimal(match: re.Match[str]) -> str:
    """A decimal as a fraction, which loses no digit."""
    whole, first, repeated = match[1], match[2], match[3] or ""
    below = ("9" * len(repeated) or "1") + "0" * len(first)
    above = int((whole + first + repeated) or 0) - (int((whole + first) or 0) if repeated else 0)
    return rf"(\frac{{{above}}}{{{below}}})"

r"""The exact value of an answer that is a rational number.

Integers, decimals, fractions, powers, roots, factorials, binomials and percentages, by exact arithmetic: ``0.5`` is
``\frac{1}{2}``, ``1.414`` is no ``\sqrt{2}``, and ``2^{25} \cdot 26! + 1`` differs from ``2^{25} \cdot 26!``. Values
that would fill the memory are refused before they are computed.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

MAX_BITS = 200_000  #: of a numerator or denominator, about 60,000 digits
MAX_ROOT = 64  #: degree of a root

_TOKEN = re.compile(r"\d+(?:\.\d*)?|\.\d+|\\[A-Za-z]+|\\.|.", re.DOTALL)
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_STARTS_FACTOR = re.compile(r"[\d(\[{A-Za-z]|\.\d|\\[A-Za-z]")
# Commands after which juxtaposition is no product of plain values, or whose arguments have a syntax of their own.
_UNREAD = frozenset(("\\le", "\\ge", "\\neq", "\\approx", "\\in", "\\cup", "\\cap", "\\pm", "\\mp", "\\to", "\\infty"))


class TooLarge(ValueError):
    """A value of more than :data:`MAX_BITS`."""


class Undefined(ValueError):
    """No number at all: a division by zero."""


class _Unread(ValueError):
    """Not in the grammar of this reader."""


def rational(text: str) -> Fraction | None:
    r"""The value of an expression in normal form, or None if it is not one of a rational number, as far as is seen.

    Implicit products bind like explicit ones, except behind a slash, where ``1/2\pi`` is ambiguous and gives None.

    Args:
        text: one value as :func:`~subgroup_offset.evaluation.normalize.normalize` gives it, without lists.

    Raises:
        TooLarge: where the value, or a part of it, even of an irrational one, is too large to be computed.
        Undefined: for a division by zero.
    """
    reader = _Reader(text)
    try:
        value = reader.sum()
    except (_Unread, RecursionError):
        return None
    return value if reader.peek() is None else None


def _checked(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLarge(f"a value has more than {MAX_BITS} bits")
    return value


def _power(base: Fraction | None, exponent: Fraction | None) -> Fraction | None:
    if base is None or exponent is None:
        return None
    if exponent.denominator > 1:
        root = _root(base, exponent.denominator)
        return None if root is None else _power(root, Fraction(exponent.numerator))
    if base == 0 and exponent <= 0:
        raise Undefined("zero to a power that is not positive")
    if abs(base) in (0, 1):
        return base ** (1 if exponent % 2 else 2)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if bits * abs(exponent) > MAX_BITS:
        raise TooLarge(f"a power has more than {MAX_BITS} bits")
    return _checked(base ** int(exponent))


def _root(value: Fraction | None, degree: int) -> Fraction | None:
    """The exact root, or None where it is irrational, not real, or of a degree that nobody asks for."""
    if value is None or value < 0 or degree > MAX_ROOT:
        return None
    parts = [_integer_root(part, degree) for part in (value.numerator, value.denominator)]
    return None if None in parts else Fraction(*parts)  # type: ignore[arg-type]


def _integer_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        root = low
    return root if root**degree == value else None


def _factorial(value: Fraction | None, step: int) -> Fraction | None:
    """``n!``, or ``n!!`` with step 2; None where it is not defined for whole numbers."""
    if value is None or value.denominator > 1 or value < 0:
        return None
    if value > MAX_BITS or value * (value.numerator.bit_length() - 1) > 2 * step * MAX_BITS:
        raise TooLarge(f"a factorial has more than {MAX_BITS} bits")
    return _checked(Fraction(math.prod(range(value.numerator, 0, -step)) if step > 1 else math.factorial(int(value))))


def _binomial(n: Fraction | None, k: Fraction | None) -> Fraction | None:
    if n is None or k is None or n.denominator > 1 or k.denominator > 1 or n < 0 or k < 0:
        return None
    if min(k, abs(n - k)) * n.numerator.bit_length() > MAX_BITS:
        raise TooLarge(f"a binomial has more than {MAX_BITS} bits")
    return _checked(Fraction(math.comb(int(n), int(k))))


class _Reader:
    """Recursive descent over the tokens; None stands for the value of anything irrational or unknown."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.position = 0

    def peek(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self, *expected: str) -> str | None:
        """The next token if it is one of these."""
        token = self.peek()
        if token is None or token not in expected:
            return None
        self.position += 1
        return token

    def sum(self) -> Fraction | None:
        negative = self.take("-", "+") == "-"
        total = self.product()
        total = -total if negative and total is not None else total
        while sign := self.take("+", "-"):
            term = self.product()
            total = None if total is None or term is None else _checked(total + (term if sign == "+" else -term))
        return total

    def product(self) -> Fraction | None:
        value, divided, ambiguous = self.factor(), False, False
        while True:
            if self.take("/"):
                value, divided = _divided(value, self.signed()), True
            elif self.take("\\cdot"):
                value, divided = _times(value, self.signed()), False
            elif (token := self.peek()) and _STARTS_FACTOR.match(token) and token not in _UNREAD:
                value, ambiguous = _times(value, self.factor()), ambiguous or divided
            else:
                return None if ambiguous else value

    def signed(self) -> Fraction | None:
        if self.take("-"):
            value = self.factor()
            return None if value is None else -value
        return self.factor()

    def factor(self) -> Fraction | None:
        value, raised = self.atom(), False
        while token := self.take("^", "!", "%"):
            if raised:
                raise _Unread("2^3! may be read in two ways")
            if token == "^":
                raised = True
                value = _power(value, self.group("{"))
            elif token == "!":
                value = _factorial(value, 2 if self.take("!") else 1)
            else:
                value = _divided(value, Fraction(100))
        return value

    def group(self, opening: str) -> Fraction | None:
        if not self.take(opening):
            raise _Unread(f"no {opening}")
        value = self.sum()
        if not self.take(_CLOSERS[opening]):
            raise _Unread(f"no {_CLOSERS[opening]}")
        return value

    def atom(self) -> Fraction | None:
        token = self.peek()
        if token is None or token in _UNREAD or not _STARTS_FACTOR.match(token):
            raise _Unread(f"{token!r} is no value")
        if token in _CLOSERS:
            return self.group(token)
        self.position += 1
        if token == "\\frac":
            return _divided(self.group("{"), self.group("{"))
        if token == "\\binom":
            return _binomial(self.group("{"), self.group("{"))
        if token == "\\sqrt":
            degree = self.group("[") if self.peek() == "[" else Fraction(2)
            value = self.group("{")
            whole = degree is not None and degree.denominator == 1 and degree > 0
            return _root(value, int(degree)) if whole else None  # type: ignore[arg-type]
        if token[0].isdigit() or token[0] == ".":
            return self.number(token)
        return None

    def number(self, token: str) -> Fraction:
        whole, point, decimals = token.partition(".")
        value = Fraction(int(whole + decimals), 10 ** len(decimals))
        if point and self.take("\\overline"):
            start = self.position
            if not self.take("{") or not re.fullmatch("\\d+", repeated := self.peek() or ""):
                self.position = start
                raise _Unread("no repeating decimals")
            self.position += 1
            if not self.take("}"):
                raise _Unread("no }")
            value += Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(decimals))
        return value


def _times(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else _checked(a * b)


def _divided(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if b == 0:
        raise Undefined("a division by zero")
    return None if a is None or b is None else _checked(a / b)

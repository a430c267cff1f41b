r"""Symbolic equality of two values, through math-verify.

Runs in worker processes: sympy is slow to import, and may hang or fill the memory.

math-verify is given values in normal form and nothing else, without its own clean-up: it takes units, ``= 104`` and
half a formula for an answer otherwise. Decimals become fractions, so that it rounds nothing: it accepts ``1.414214``
for ``\sqrt{2}``. Its time limits are off: they need the main thread, and turn a time-out into a wrong answer.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from subgroup_offset.evaluation.equality import Outcome, compare

DIGITS = 50  #: to which irrational numbers are compared; math-verify's own 15 accept an error of 1e-16

_DECIMAL = re.compile(r"(\d*)\.(\d+)")


class NotParsed(ValueError):
    """math-verify reads no mathematics in a text."""


def compare_symbolically(answer: str, reference: str) -> Outcome:
    """:func:`compare` with symbolic equality, so that nothing stays open but by an exception."""
    return compare(answer, reference, symbolic_equality)


def symbolic_equality(given: str, expected: str) -> Outcome:
    """Compare two values, relations or intervals in normal form.

    Raises:
        Exception: whatever math-verify and sympy raise while they compare.
    """
    from math_verify import verify

    try:
        reference = _parse(expected)
    except NotParsed as error:
        return Outcome("error", "symbolic", f"the reference: {error}")
    try:
        answer = _parse(given)
    except NotParsed as error:
        return Outcome("answer not understood", "symbolic", str(error))
    equal = verify(
        reference,
        answer,
        numeric_precision=DIGITS,
        allow_set_relation_comp=True,
        timeout_seconds=None,
        raise_on_error=True,
    )
    return Outcome("equal" if equal else "different", "symbolic")


def _parse(text: str) -> Any:
    from math_verify import parse
    from sympy import nan, zoo

    if "!!" in text:
        raise NotParsed("a double factorial, which math-verify takes for the factorial of a factorial")
    latex = _DECIMAL.sub(lambda match: rf"\frac{{{match[1]}{match[2]}}}{{1{'0' * len(match[2])}}}", text)
    latex = latex.replace("%", r"\cdot\frac{1}{100}")
    found = parse(
        f"${latex}$",
        [_extraction()],
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,  # type: ignore[arg-type]
        raise_on_error=True,
    )
    if not found or found[0] in (nan, zoo):
        raise NotParsed(f"math-verify does not understand {text}")
    return found[0]


@cache
def _extraction() -> Any:
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig

    nothing = NormalizationConfig(
        basic_latex=False, units=False, malformed_operators=False, nits=False, boxed="none", equations=False
    )
    return LatexExtractionConfig(normalization_config=nothing)


def prepare() -> None:
    """Import what a comparison needs, and let it build its tables."""
    symbolic_equality(r"\frac{\sqrt{2}}{2}+x", r"x+\frac{1}{\sqrt{2}}")

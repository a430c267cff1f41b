"""Normal forms, exact values and exact comparisons, without worker processes."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import pytest
from corpus.grading import CASES
from corpus.grading_hmmt import SPELLINGS
from hypothesis import assume, given
from hypothesis import strategies as st

from subgroup_offset.evaluation.answers import MAX_ANSWER, find_answer
from subgroup_offset.evaluation.equality import compare
from subgroup_offset.evaluation.normalize import NotMathematics, normalize
from subgroup_offset.evaluation.rational import MAX_BITS, TooLarge, Undefined, rational
from subgroup_offset.evaluation.structure import structure

FRACTIONS = st.builds(Fraction, st.integers(-3000, 3000), st.integers(1, 60))


def spellings(value: Fraction) -> list[str]:
    """Ways to write a rational number."""
    p, q, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    written = [
        f"{sign}{p}/{q}",
        rf"{sign}\frac{{{p}}}{{{q}}}",
        rf"\dfrac{{{sign}{3 * p}}}{{{3 * q}}}",
        f"{sign}{p} / {q}",
    ]
    written += [rf"{sign}\left(\tfrac{{{p}}}{{{q}}}\right)", rf"${sign} {p} \cdot {q}^{{-1}}$", f"({sign}{p})/({q})"]
    if q == 1:
        written += [
            f"{sign}{p:,}",
            f"{sign}{p}.0",
            f"{sign}{p:05}",
            rf"{sign}{p} \text{{ ways}}",
            f"−{p}" if sign else f"+{p}",
        ]
    elif p > q:
        written += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    if 1000 % q == 0:
        written += [f"{sign}{p / q:.3f}", rf"{sign}{100 * p / q:.3f}\%"]
    return written


@given(FRACTIONS, FRACTIONS, st.data())
def test_numbers_are_equal_where_their_values_are(a, b, data):
    given_text = data.draw(st.sampled_from(spellings(a)))
    expected = data.draw(st.sampled_from(spellings(b)))
    outcome = compare(given_text, expected)
    assert outcome.reason == ("equal" if a == b else "different")
    assert outcome.reason == compare(expected, given_text).reason
    assert compare(given_text, data.draw(st.sampled_from(spellings(a)))).reason == "equal"


@given(FRACTIONS)
def test_the_value_is_exact(value):
    for text in spellings(value):
        assert rational(normalize(text).replace("\ue002", "")) == value


# Pieces of formulas that stay formulas however they are put together.
ATOMS = st.sampled_from(["3", "x", r"\pi", r"\sqrt{2}", "10", "n", "0.5", r"\sqrt[3]{7}", "26!", r"\frac{9}{4}"])
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", r" \cdot ", "/"]), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
        st.tuples(inner, inner).map(lambda t: rf"\frac{{{t[0]}}}{{{t[1]}}}"),
        inner.map(lambda text: rf"\sqrt{{{text}}}"),
        inner.map(lambda text: rf"\left({text}\right)^{{2}}"),
    ),
    max_leaves=6,
)
GROUPS = st.one_of(
    FORMULAS,
    st.lists(FORMULAS, min_size=2, max_size=4).map(", ".join),
    st.lists(FORMULAS, min_size=2, max_size=4).map(lambda items: rf"\{{{', '.join(items)}\}}"),
    st.lists(FORMULAS, min_size=2, max_size=3).map(lambda items: f"({', '.join(items)})"),
    st.tuples(FORMULAS, FORMULAS).map(lambda ends: rf"\left[{ends[0]}, {ends[1]}\right)"),
)


@given(GROUPS)
def test_an_answer_equals_itself(answer):
    assert compare(answer, answer).reason == "equal"


@given(GROUPS, GROUPS)
def test_what_is_equal_without_workers_is_equal_the_other_way_round(a, b):
    kinds = {getattr(structure(normalize(text)), "kind", "value") for text in (a, b)}
    assume(kinds != {"list", "tuple"})  # a tuple asks for an order that a list does not
    one, other = compare(a, b).reason, compare(b, a).reason
    assert (one == "equal") == (other == "equal")


WRAPPERS = [
    "${}$",
    r"\( {} \)",
    r"\[{}\]",
    "**{}**",
    "{}.",
    "$ {} $ .",
    r"\boxed{{{}}}",
    r"$\displaystyle {}$",
    "  {}  ",
]
WRAPPERS += ["The answer is ${}$", "= {}", r"${}\quad$", "`{}`", "**${}$**", r"$$\boxed{{ {} }}.$$", "{}<|im_end|>"]
LINES = [
    "Answer: {}",
    "**Answer:** {}",
    "**Final Answer**: {}\n",
    "answer : {}\n\nDone.",
    "Answer:\n\n{}",
    "### Answer: {}",
]


@given(GROUPS, st.sampled_from(WRAPPERS), st.sampled_from(LINES), GROUPS)
def test_wrappers_do_not_matter(answer, wrapper, line, reference):
    found = find_answer(line.format(wrapper.format(answer)))
    assert found is not None
    assert normalize(found.text) == normalize(answer)
    assert compare(found.text, reference) == compare(answer, reference)


@given(
    st.permutations(["3", r"\sqrt{2}", "x", "0.5"]), st.sampled_from([", ", "; ", " or ", r" \text{ and } ", ", and "])
)
def test_lists_have_no_order_and_tuples_have_one(items, separator):
    ordered = ["3", r"\sqrt{2}", "x", "0.5"]
    listed = separator.join(items)
    assert compare(listed, ", ".join(ordered)).reason == "equal"
    assert compare(rf"\{{{listed}\}}", ", ".join(ordered)).reason == "equal"
    in_order = compare(listed, f"({', '.join(ordered)})").reason
    assert (in_order == "equal") == (list(items) == ordered)


def test_more_than_one_answer_is_never_the_reference():
    for answer in ("103", r"\sqrt{2}", "x", r"\frac{1}{576}"):
        for other in ("104", r"\sqrt{3}", "0", r"-\frac{1}{2}"):
            for separator in (" or ", ", ", " and ", r" \text{ or } ", "; ", r" \lor "):
                for first, second in ((answer, other), (other, answer)):
                    for text in (first + separator + second, f"${first}${separator}${second}$"):
                        assert compare(text, answer).reason == "more than one answer", text
    assert compare("(1,2] or (2,3]", "(1,2]").reason == "more than one answer"


@pytest.mark.parametrize(
    "text", ["9^{9^9}", "(10^9)!", r"\binom{10^9}{10^8}", "2^{-10^9}", r"\sqrt{2}(10^9)!", "0.1^{10^8}"]
)
def test_too_large_is_known_before_it_is_computed(text):
    with pytest.raises(TooLarge):
        rational(normalize(text))


@given(st.integers(0, 4000))
def test_factorials_are_exact_up_to_the_limit(n):
    if math.factorial(n).bit_length() <= MAX_BITS // 8:
        assert rational(f"{n}!") == math.factorial(n)


@pytest.mark.parametrize("text", [r"\frac{1}{0}", "3/(2-2)", "0^{0}", "0^{-1}", r"\frac{\sqrt{2}}{0}"])
def test_no_number_is_undefined(text):
    with pytest.raises(Undefined):
        rational(text)


@pytest.mark.parametrize("text", [r"\frac{1", "{", r"\frac{1}", "2^", "{" * 40 + "}" * 40, r"\sqrt"])
def test_unfinished_formulas_are_no_mathematics(text):
    with pytest.raises(NotMathematics):
        normalize(text)


@pytest.mark.parametrize("text", ["2^{3}!", "1/2(3)"])
def test_what_may_be_read_in_two_ways_has_no_value(text):
    assert rational(text) is None


FRAGMENTS = [
    "3",
    "34",
    "x",
    r"\frac",
    r"\sqrt",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    r"\{",
    r"\}",
    ",",
    ";",
    "=",
    "+",
    "-",
    "^",
    "_",
]
FRAGMENTS += [
    "$",
    r"\(",
    r"\text{",
    r"\pm",
    " or ",
    " and ",
    "!",
    "%",
    ".",
    "0.5",
    "1,234",
    r"\cdot",
    " ",
    r"\in",
    r"\cup",
]
FRAGMENTS += [
    "<",
    r"\le",
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    "&",
    r"\\",
    r"\pi",
    " ways",
    "not ",
    "²",
    "½",
    r"\overline{3}",
]
FRAGMENTS += [
    r"\approx",
    "^{\\circ}",
    "\\",
    "…",
    "\ue000",
    "\ue002",
    "|",
    "/",
    "\\boxed{",
    "\\left",
    "9^9^9",
    "\x00",
    "\ud800",
]
TEXTS = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=15).map("".join), st.text())


@given(TEXTS)
def test_any_answer_has_an_outcome(text):
    for reference in ("34", r"\frac{9 \sqrt{23}}{23}", "3, 5", "(3, 5]", r"\text{Tuesday}", "x^2 + y^2 = 1"):
        assert compare(text, reference).reason != "error"
        compare(reference, text)  # an odd reference is an error, and raises none


@pytest.mark.parametrize(
    "unit", [*FRAGMENTS, "a ", "word ", r"\text{a} ", "34 cm-", "9!", r"\binom{9}{3}", "1 ", "$3$ "]
)
def test_long_answers_take_no_time(unit):
    # An exponential rule would take longer than anyone can wait.
    started = time.process_time()
    for before, after in (("", ""), ("34 ", ""), ("$34$ ", "x"), ("", "34")):
        compare(before + unit * (MAX_ANSWER // len(unit)) + after, "34")
    assert time.process_time() - started < 2


def test_normal_forms_are_stable():
    texts = [text for pair in SPELLINGS.values() for part in pair for text in part]
    texts += [reference for _, reference, _ in CASES.values()]
    for text in texts:
        normal = normalize(text)
        if "," not in normal:  # a list has lost the space that tells it from 103,104
            assert normalize(normal.replace("\ue002", "{,}")) == normal.replace("\ue002", ""), text

"""Clean spellings, exact values and comparisons, without worker processes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from corpus.grading_hmmt import SPELLINGS
from hypothesis import given, settings
from hypothesis import strategies as st

from subgroup_offset.evaluation.answers import MAX_ANSWER, find_answer
from subgroup_offset.evaluation.clean import NotMathematics, around, clean, number, split
from subgroup_offset.evaluation.equality import compare
from subgroup_offset.evaluation.grading import REASONS

FRACTIONS = st.builds(Fraction, st.integers(-3000, 3000), st.integers(1, 60))
# sympy is slow at first, and the machine may be busy.
FEW = settings(max_examples=40)


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
        written += [f"{sign}{p:,}", f"{sign}{p}.0", f"{sign}{p:05}", rf"{sign}{p} \text{{ ways}}", f"{sign}{p} cm"]
    elif p > q:
        written += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    if 1000 % q == 0:
        written += [f"{sign}{p / q:.3f}", rf"{sign}{100 * p / q:.3f}\%"]
    return written


@FEW
@given(FRACTIONS, FRACTIONS, st.data())
def test_numbers_are_equal_where_their_values_are(a, b, data):
    one, same, other = (data.draw(st.sampled_from(spellings(value))) for value in (a, a, b))
    assert compare(one, same) == ("equal", "")
    assert compare(one, other)[0] == compare(other, one)[0] == ("equal" if a == b else "different")


@given(FRACTIONS)
def test_plain_numbers_need_no_algebra(value):
    values = [number(clean(text)) for text in spellings(value)]
    assert set(values) <= {value, None}
    assert values[0] == values[1] == value


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
    max_leaves=4,
)
GROUPS = st.one_of(
    FORMULAS,
    st.lists(FORMULAS, min_size=2, max_size=4).map(", ".join),
    st.lists(FORMULAS, min_size=2, max_size=4).map(lambda items: rf"\{{{', '.join(items)}\}}"),
    st.lists(FORMULAS, min_size=2, max_size=3).map(lambda items: f"({', '.join(items)})"),
    st.tuples(FORMULAS, FORMULAS).map(lambda ends: rf"\left[{ends[0]}, {ends[1]}\right)"),
)
WRAPPERS = [
    r"${}$",
    r"\( {} \)",
    r"\[{}\]",
    "**{}**",
    "{}.",
    "$ {} $ .",
    r"\boxed{{{}}}",
    r"$\displaystyle {}$",
    "= {}",
]
WRAPPERS += ["The answer is ${}$", r"${}\quad$", "`{}`", "**${}$**", r"$$\boxed{{ {} }}.$$", "{}<|im_end|>"]
LINES = [
    "Answer: {}",
    "**Answer:** {}",
    "**Final Answer**: {}\n",
    "answer : {}\n\nDone.",
    "Answer:\n\n{}",
    "### Answer: {}",
]


@given(GROUPS, st.sampled_from(WRAPPERS), st.sampled_from(LINES))
def test_wrappers_do_not_matter(answer, wrapper, line):
    found = find_answer(line.format(wrapper.format(answer)))
    assert found is not None
    assert clean(found.text) == clean(answer) == clean(clean(answer))


@settings(max_examples=15)
@given(FORMULAS, FORMULAS)
def test_an_expression_equals_itself_and_equality_has_no_direction(a, b):
    assert compare(f"({a})+({b})", f"({b})+({a})") == ("equal", "")
    assert (compare(a, b)[0] == "equal") == (compare(b, a)[0] == "equal")
    if compare(a, "0")[0] != "equal":
        assert compare(rf"({a})\cdot(1+10^{{-20}})", a)[0] != "equal"


@given(
    st.permutations(["3", r"\sqrt{2}", "x", "0.5"]), st.sampled_from([", ", "; ", " or ", r" \text{ and } ", ", and "])
)
@settings(max_examples=10)
def test_lists_have_no_order_and_tuples_have_one(items, separator):
    ordered = ["3", r"\sqrt{2}", "x", "0.5"]
    listed = separator.join(items)
    assert compare(listed, ", ".join(ordered))[0] == "equal"
    assert compare(rf"\{{{listed}\}}", ", ".join(ordered))[0] == "equal"
    assert (compare(listed, f"({', '.join(ordered)})")[0] == "equal") == (list(items) == ordered)


def test_more_than_one_answer_is_never_the_reference():
    for answer in ("103", r"\sqrt{2}", "x", r"\frac{1}{576}"):
        for other in ("104", r"\sqrt{3}", "0", r"-\frac{1}{2}"):
            for separator in (" or ", ", ", " and ", r" \text{ or } ", "; ", r" \lor "):
                for first, second in ((answer, other), (other, answer)):
                    for text in (first + separator + second, f"${first}${separator}${second}$"):
                        assert compare(text, answer)[0] == "more than one answer", text


@pytest.mark.parametrize("text", ["9^{9^{9^9}}", r"\sqrt{2}^{10^{10^{10}}}", "x+9^{9^{9^9}}"])
def test_a_tower_is_known_before_it_is_computed(text):
    assert compare(text, "34")[0] == "too large to evaluate"


@pytest.mark.parametrize("text", [r"\frac{1}{0}", r"\frac{1", "{", r"\frac{1}", "2^", r"\sqrt", "", "]", "x="])
def test_what_is_no_value_is_not_understood(text):
    assert compare(text, r"\sqrt{2}")[0] == "answer not understood"


@given(st.lists(st.sampled_from(["(", ")", "[", "]", r"\{", r"\}", "{", "}", ",", "x", r"\frac"])).map("".join))
def test_parts_are_those_of_the_whole(text):
    try:
        parts = split(text, ",")
    except NotMathematics:
        return
    assert ",".join(parts) == text
    assert all(split(part) == [part] for part in parts)
    assert around(f"[{text})") == "[)"


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
    "_",
    ":",
]
FRAGMENTS += [r"\approx", "^{\\circ}", "\\", "…", "|", "/", "\\boxed{", "\\left", "9^9^9", "\x00", "\ud800", " cm", "'"]
TEXTS = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=15).map("".join), st.text())


@FEW
@given(TEXTS)
def test_any_answer_has_an_outcome(text):
    for reference in ("34", "3, 5", "(3, 5]", r"\text{Tuesday}", "x^2 + y^2 = 1"):
        assert compare(text, reference)[0] in set(REASONS) - {"error"}
        compare(reference, text)  # an odd reference is an error, and raises none


@pytest.mark.timeout(60)  # an exponential rule would take longer than anyone can wait
def test_long_answers_are_cleaned_in_no_time():
    for unit in (*FRAGMENTS, "a ", "word ", r"\text{a} ", "34 cm-", "9!", r"\binom{9}{3}", "1 ", "$3$ ", "is ", "m/s "):
        for before, after in (("", ""), ("34 ", ""), ("$34$ ", "x"), ("", "34")):
            clean(before + unit * (MAX_ANSWER // len(unit)) + after)


def test_clean_texts_are_stable():
    for text in (text for pair in SPELLINGS.values() for part in pair for text in part):
        assert clean(clean(text)) == clean(text) or "," in clean(text), text

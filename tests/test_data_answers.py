"""Answers and instructions of `subgroup-offset data`."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verl.utils.reward_score import math_dapo

from subgroup_offset.data.answers import aime_answer, expression, final_number
from subgroup_offset.data.errors import BadCell
from subgroup_offset.data.prompts import prompt_text, unwrap, wrap
from subgroup_offset.strategy.instructions import PREFIXES, SUFFIXES, split_instructions

# As BytedTsinghua-SIA/DAPO-Math-17k publishes it.
DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n{problem}\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)
# As verl's preprocessing of GSM8K writes it.
GSM8K = '{problem} Let\'s think step by step and output the final answer after "####".'

AIME_SPELLINGS = [
    lambda n: n,
    float,
    str,
    "{:03d}".format,
    "{:05d}".format,
    "{}.0".format,
    "{}.".format,
    "+{}".format,
    " {}\n".format,
    "${}$".format,
    "$ {} $".format,
    "\\boxed{{{:03d}}}".format,
    "So $m+n=\\boxed{{ {} }}$.".format,
    "First \\boxed{{x}}, then\n\\boxed{{${}$}}".format,
    "{}^\\circ".format,
    "{}^{{\\circ}}".format,
    "{} °".format,
]


@given(st.integers(0, 999), st.sampled_from(AIME_SPELLINGS))
def test_every_spelling_of_an_aime_answer(number, spelling):
    assert aime_answer(spelling(number)) == str(number)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.text("0123456789.,-+$ °{}\\")))
def test_an_aime_answer_is_an_integer_from_0_to_999_or_an_error(value):
    try:
        answer = aime_answer(value)
    except BadCell:
        return
    assert answer == str(int(answer)) and 0 <= int(answer) <= 999


ODD = [None, math.nan, math.inf, True, "", "  ", "$ $", "x", "1/2", 33.5, "33.5", -1, "-1", 1000, "1,000", "12 or 13"]
ODD += ["\\boxed{12", "\\boxed{}", [1], {"a": 1}, "９９", "9" * 5000]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_odd_aime_answers(value):
    with pytest.raises(BadCell):
        aime_answer(value)


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "{}.00", "\\boxed{{{:,}}}"]), st.text())
def test_the_final_number_of_a_worked_solution(number, spelling, solution):
    written = spelling.format(number)
    assert final_number(f"{solution}\n#### {written}") == final_number(written) == str(number)


@given(st.decimals(-(10**6), 10**6, places=3))
def test_decimals_lose_trailing_zeros_and_nothing_else(number):
    answer = final_number(f"{number:,f}")
    assert float(answer) == float(number)
    assert "." not in answer or not answer.endswith(("0", "."))


@pytest.mark.parametrize("value", ["#### ", "#### 1,00", "#### 1,0000", "7 apples", "#### 3 or 4", ".5", None])
def test_no_final_number(value):
    with pytest.raises(BadCell):
        final_number(value)


EXPRESSIONS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(["$", "\\boxed{", "}", "{", " ", "0", "7", ".", "x", "\\frac{1}{2}", ",", "-", "+"])).map(
        "".join
    ),
)


@given(EXPRESSIONS)
def test_reading_an_expression_again_changes_nothing(value):
    try:
        answer = expression(value)
    except BadCell:
        return
    assert answer == answer.strip() and "\n" not in answer
    if "\\boxed{" not in answer and "$" not in answer:  # which stay where they are part of the answer
        assert expression(answer) == answer


def test_expressions():
    assert expression("  \\frac{1}{576} ") == "\\frac{1}{576}"
    assert expression("thus\n$x=\\boxed{\\frac{\\sqrt{2}}{3}}$") == "\\frac{\\sqrt{2}}{3}"
    assert expression("$\\frac12$") == "\\frac12"
    assert expression("$a$ and $b$") == "$a$ and $b$"
    assert expression("1,200") == "1,200"  # may be a list
    assert [expression(value) for value in (-3, -3.0, "-3", "-03.0", "-0", 0.5)] == ["-3", "-3", "-3", "-3", "0", "0.5"]
    for value in ("two\nlines", "", None, math.nan, math.inf, -math.inf, True, [1], "\ud83d"):
        with pytest.raises(BadCell):
            expression(value)


# Ground truths as they come, against what models write: verl compares texts.
@pytest.mark.parametrize("raw", ["033", 33.0, "33.0", r"\boxed{33}", r"33^\circ"])
def test_verl_would_call_a_right_answer_wrong_without_the_rule(raw):
    assert not math_dapo.compute_score("Answer: 33", "033")["acc"]
    assert math_dapo.compute_score("Answer: 33", aime_answer(raw))["acc"]


def has_instructions(text):
    return any(part in text for part in (*PREFIXES, *SUFFIXES))


PROBLEMS = st.text(min_size=1).filter(lambda text: text.strip() and not has_instructions(text))


@given(PROBLEMS)
def test_wrapped_problems_are_recognised(problem):
    text = wrap(problem, "dapo")
    assert text == DAPO.format(problem=problem.strip())
    prefix, found, suffix = split_instructions(text)
    assert found == problem.strip() and prefix + found + suffix == text
    assert (prefix.strip(), suffix.strip()) == (PREFIXES[0], SUFFIXES[0])
    assert unwrap(text) == (problem.strip(), "dapo")
    assert unwrap(wrap(problem, "gsm8k")) == (problem.strip(), "gsm8k")
    assert wrap(problem, "gsm8k") == GSM8K.format(problem=problem.strip())
    assert unwrap(problem) == (problem.strip(), None)


def test_other_instructions():
    boxed = "Please reason step by step, and put your final answer within \\boxed{}."
    assert unwrap(f"What is 1+1?\n{boxed}") == ("What is 1+1?", "other")
    assert unwrap(f"{boxed}\nWhat is 1+1?\n{boxed}\n{boxed}") == ("What is 1+1?", "other")
    assert unwrap(f"{GSM8K.format(problem='What is 1+1?')} {boxed}") == ("What is 1+1?", "other")


HALVES = [
    f"{PREFIXES[0]}\n\nWhat is 1+1?",
    f"What is 1+1?\n\n{SUFFIXES[0]}",
    f"{PREFIXES[0]}\n\n{SUFFIXES[0]}",
    f"Hello. {DAPO.format(problem='What is 1+1?')}",
    # A variant that is in use: another first half.
    DAPO.replace("$Answer (without quotes)", "\\boxed{{$Answer}}").format(problem="What is 1+1?"),
]


@pytest.mark.parametrize("text", HALVES)
def test_a_part_of_the_wrapper_is_an_error(text):
    with pytest.raises(BadCell, match="only a part of DAPO's instructions"):
        unwrap(text)


USER = {"role": "user", "content": "What is 1+1?"}


def test_prompts():
    assert prompt_text(" What?\n") == " What?\n"
    assert prompt_text([USER]) == "What is 1+1?"
    bad = [None, math.nan, "", " \n", 3, {}, [], [USER, USER], [{"role": "system", "content": "x"}, USER], ["x"]]
    bad += ["\ud83d", [{"role": "assistant", "content": "x"}], [{"role": "user"}], [USER | {"content": [USER]}]]
    for cell in bad:
        with pytest.raises(BadCell):
            prompt_text(cell)

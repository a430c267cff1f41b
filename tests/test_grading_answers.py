"""Finding the answer in a response; the corpus of gradings has most cases."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer

ANSWERS = st.sampled_from(["34", r"\frac{9 \sqrt{23}}{23}", r"\{3, 5\}", "(1, 2]", "no solution", r"2^{25} \cdot 26!"])
BEFORE = ["", "Some words.\n", "Answer: 33\n", r"So $\boxed{33}$.", "The answer is 33.\n\n", "1. a\n2. **b**\n"]
AFTER = ["", "\n", "\n\nSome words.", "\nThe answer is 33.", r" $\boxed{", "\n```\n", "<|im_end|>\n<|im_start|>user"]


@given(ANSWERS, st.sampled_from(BEFORE), st.sampled_from(["", "\n", "\r\n\r\n"]))
def test_the_line_is_taken_whole(answer, before, newlines):
    found = find_answer(f"{before}\nAnswer: {newlines}{answer}")
    assert found is not None
    assert (found.text, found.source) == (answer, "answer line")
    assert found.candidates == (2 if "Answer: 33" in before else 1)


@given(ANSWERS, st.sampled_from([text for text in BEFORE if "Answer:" not in text]), st.sampled_from(AFTER))
def test_the_box_is_taken_whole(answer, before, after):
    found = find_answer(f"{before}\nSo it is \\boxed{{{answer}}}{after}")
    assert found is not None
    assert (found.text, found.source) == (answer, "box")


def test_a_later_box_is_kept_apart():
    assert find_answer("\\boxed{1}\nAnswer: 2 \\boxed{3}\nso \\boxed{4}, \\boxed{5}") == FoundAnswer(
        "2  {3}", "answer line", 1, later_box="5"
    )


def test_a_box_over_several_lines_is_taken_whole():
    matrix = "\\begin{pmatrix}\n1 \\\\\n2\n\\end{pmatrix}"
    assert find_answer(f"Answer: $\\boxed{{{matrix}}}$\nso much for that").text == matrix


def test_different_answers_are_counted_once_each():
    assert find_answer("Answer: 1\nAnswer: 2\nAnswer: 1\n").candidates == 2


# Whatever the rules look at.
FRAGMENTS = ["Answer:", "answer", "Answer: ", "**", "\n", " ", "\\boxed{", "\\fbox{", "{", "}", "\\{", "$", "$$", "\\["]
FRAGMENTS += [
    "\\]",
    "\\(",
    "34",
    "<|im_end|>",
    "</s>",
    "<answer>",
    "or",
    "\\",
    ":",
    "：",
    "\r",
    "\u2028",
    "_",
    "#",
    "[/INST]",
]
TEXTS = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join), st.text())


@given(TEXTS)
def test_any_text(text):
    found = find_answer(text)
    if found is not None:
        assert found.text == found.text.strip("* ") != ""
        assert found.candidates >= 1
        assert (found.source == "answer line") >= ("boxed" not in text and "fbox" not in text)


UNITS = [
    *FRAGMENTS,
    "Answer:\n",
    "Answer: $$",
    "Answer: \\boxed{",
    "Answer: x\n",
    "\\boxed{3}",
    "answer: 1 ",
    "<br ",
    "a",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("before", ["", "Answer: "])
def test_time_is_linear(before, unit):
    # A quadratic rule would take a minute for this; a linear one some tens of milliseconds.
    text = before + unit * (100_000 // len(unit))
    started = time.process_time()
    find_answer(text)
    assert time.process_time() - started < 2

"""Finding the answer in a response; the corpus of gradings has most cases."""

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
    assert found == FoundAnswer(answer, "answer line", 2 if "Answer:" in before else 1)


@given(ANSWERS, st.sampled_from(BEFORE), st.sampled_from(AFTER))
def test_a_box_is_taken_whole_and_beats_an_earlier_line(answer, before, after):
    found = find_answer(f"{before}\nSo it is \\boxed{{{answer}}}{after}")
    assert found == FoundAnswer(answer, "box", 2 if "boxed" in before else 1)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("$\\boxed{3}$, $\\boxed{5}$ and \\boxed{7}.", "3, 5, 7"),
        ("x=\\boxed{3}, y=\\boxed{5}", "3, 5"),
        ("\\boxed{3} \\text{ or } \\boxed{5}", "3, 5"),
        ("\\boxed{3}. But \\boxed{5}", "5"),
        ("\\boxed{3}\n\n\\boxed{5}", "5"),
        ("\\boxed{3} or 5, we cannot say", "3 or 5, we cannot say"),
        ("$\\boxed{3}$ million", "3 million"),
        ("$\\boxed{3}$ (from $n=1$ to $5$)", "3"),
        ("$\\boxed{3}$ because $3 = 1 + 2$", "3"),
        ("Answer: 2 or $\\boxed{3}$", "2 or $ {3}$"),
        ("Answer: not $\\boxed{3}$", "not $ {3}$"),
        ("\\boxed{1}\nAnswer: 2 \\boxed{3}", "3"),
        (
            "Answer: $\\boxed{\n\\begin{pmatrix}\n1\n\\end{pmatrix}}$\nso much for that",
            "\\begin{pmatrix}\n1\n\\end{pmatrix}",
        ),
        ("Answer:\n\\begin{align*}\nx &= 3\n\\end{align*}\nthat is all", "\\begin{align*}\nx &= 3\n\\end{align*}"),
        ("答案：3", "3"),
    ],
)
def test_boxes_and_environments(response, text):
    found = find_answer(response)
    assert found is not None and found.text == text


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
    "not",
]
TEXTS = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join), st.text())


@given(TEXTS)
def test_any_text(text):
    found = find_answer(text)
    if found is not None:
        assert found.text == found.text.strip("* ") != "" and found.candidates >= 1
        assert (found.source == "answer line") >= ("boxed" not in text and "fbox" not in text)


LONG = [
    *FRAGMENTS,
    "Answer:\n",
    "Answer: $$",
    "Answer: \\boxed{",
    "Answer: x\n",
    "\\boxed{3}",
    "\\boxed{3}, ",
    "<br ",
    "a",
]


@pytest.mark.timeout(60)  # a quadratic rule would take hours, a linear one takes a second
@pytest.mark.parametrize("before", ["", "Answer: "])
def test_long_responses_take_linear_time(before):
    for unit in LONG:
        find_answer(before + unit * (100_000 // len(unit)))
    for nested in (r"\boxed{" * 20_000 + "}" * 20_000, r"\boxed{ 3" * 20_000 + "}" * 20_000):
        find_answer(before + nested)

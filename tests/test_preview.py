"""Extraction of previews from raw generations (paper, appendix "Strategy prompt and extraction")."""

import re
import time

import pytest
from corpus.pairs import PAIRS
from corpus.singles import RECOVERED, SEATS, SINGLES, TRIANGLE, UNUSABLE, WELL_FORMED
from hypothesis import given, settings
from hypothesis import strategies as st

from subgroup_offset.strategy import PAIR_MARKER, extract_pair, extract_preview

HEADERS = ("[KEY CONDITIONS]", "[KEY IDEA]")


@pytest.mark.parametrize("name", SINGLES)
def test_corpus(name):
    text, preview = SINGLES[name]
    assert extract_preview(text) == preview


@pytest.mark.parametrize("name", PAIRS)
def test_corpus_of_pairs(name):
    text, pair = PAIRS[name]
    assert extract_pair(text) == pair


def test_the_corpus_is_what_it_says():
    assert len(SINGLES) == len(WELL_FORMED) + len(RECOVERED) + len(UNUSABLE) >= 45  # no name twice
    assert all(preview is not None for _, preview in (WELL_FORMED | RECOVERED).values())
    assert all(preview is None for _, preview in UNUSABLE.values())


# Whatever any rule looks at, so that arbitrary sequences of these reach every path.
FRAGMENTS = [*HEADERS, PAIR_MARKER, "[KEY", "[", "]", "- ", "* ", "1. ", "•", "（1）", "-", "**", "#", ">", "word", " "]
FRAGMENTS += ["user", "User", "assistant", "system", "Human:", "<|im_end|>", "<|im_", "</s>", "[/INST]", "\ufeff", "对"]
FRAGMENTS += ["Answer:", "the answer is ", "答案是", "3", "\\boxed{", "####", "\u3000", "\u200b", ": ", ".", ";", ")"]
CONTENT = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join), st.text(max_size=20))
LINES = st.one_of(st.sampled_from(HEADERS), CONTENT.map(lambda text: f"- {text}"), CONTENT)
TEXTS = st.one_of(
    st.lists(LINES, max_size=12).map("\n".join),
    # Mostly well formed, so that what stands inside the bullets is what decides.
    st.tuples(CONTENT, CONTENT, CONTENT).map("[KEY CONDITIONS]\n- a{0[0]}\n[KEY IDEA]\n- b{0[1]}\n- {0[2]}".format),
    st.text(),
)


@settings(max_examples=300)
@given(TEXTS)
def test_any_text(text):
    preview = extract_preview(text)
    if preview is None:
        return
    assert extract_preview(preview) == preview
    lines = preview.split("\n")
    assert [line for line in lines if line in HEADERS] == list(HEADERS) and lines[0] == HEADERS[0]
    given_lines = text.splitlines()
    for line in lines:
        if line not in HEADERS:  # a bullet: some line of the text, from its bullet mark up to what was cut off
            bullet = line.removeprefix("- ")
            assert bullet != line and any(bullet in candidate for candidate in given_lines)
            assert not re.search(r"\[KEY (CONDITIONS|IDEA)\]|<\|im_end\|>|</s>|\\boxed|Human:|^Answer:", bullet)


@given(TEXTS, TEXTS)
def test_any_pair(first, second):
    pair = extract_pair(f"{first}\n{PAIR_MARKER}\n{second}")
    if pair is not None:
        assert extract_pair("\n".join([pair[0], PAIR_MARKER, pair[1]])) == pair
        assert [extract_preview(half) for half in pair] == list(pair)
    if PAIR_MARKER not in first and extract_preview(first) and extract_preview(second):
        assert pair == (extract_preview(first), extract_preview(second))


UNITS = [
    "x",
    " ",
    "\n",
    "-",
    "- ",
    "\n- a",
    "[",
    "[ ",
    "[KEY",
    "[KEY CONDITIONS] ",
    "[KEY IDEA]\n",
    "*",
    "#",
    "<|",
    ":",
]
UNITS += [". user", "assistant", "assistant ", "user: ", "User", "answer ", "answer is ", "\\", "1. ", PAIR_MARKER]


@pytest.mark.parametrize("before", ["", SEATS, f"{SEATS} ", "[KEY CONDITIONS]\n- ", "[KEY", "[KEY CONDITIONS"])
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear(before, unit):
    # A quadratic rule would take minutes for this; a linear one a few tens of milliseconds.
    text = before + unit * (200_000 // len(unit)) + "!"
    started = time.process_time()
    extract_preview(text)
    extract_pair(text)
    assert time.process_time() - started < 2


def test_halves_are_in_the_order_of_the_text():
    assert extract_pair(f"{TRIANGLE}\n{PAIR_MARKER}\n{SEATS}") == (TRIANGLE, SEATS)

"""Extraction of previews from raw generations (paper, appendix "Strategy prompt and extraction")."""

import re

import pytest
from corpus.pairs import PAIRS
from corpus.singles import DOTS, RECOVERED, SEATS, SINGLES, TRIANGLE, UNUSABLE, WELL_FORMED
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from subgroup_offset.strategy import PAIR_MARKER, extract_pair, extract_preview
from subgroup_offset.strategy.preview import all_previews
from subgroup_offset.strategy.thoughts import _TAG

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
    assert len(SINGLES) == len(WELL_FORMED) + len(RECOVERED) + len(UNUSABLE) >= 150  # no name twice
    assert all(preview is not None for _, preview in (WELL_FORMED | RECOVERED).values())
    assert all(preview is None for _, preview in UNUSABLE.values())


# Whatever any rule looks at, so that arbitrary sequences of these reach every path.
FRAGMENTS = [*HEADERS, PAIR_MARKER, "[KEY", "[", "]", "- ", "* ", "1. ", "•", "（1）", "-", "**", "#", ">", "word", " "]
FRAGMENTS += ["user", "User", "assistant", "system", "Human:", "<|im_end|>", "<|im_", "</s>", "[/INST]", "\ufeff", "对"]
FRAGMENTS += ["<think>", "</think>", "}", "user:", "times"]
FRAGMENTS += ["Answer:", "the answer is ", "答案是", "3", "\\boxed{", "####", "\u3000", "\u200b", ": ", ".", ";", ")"]
CONTENT = st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join), st.text(max_size=20))
WHOLE_LINES = st.sampled_from([*HEADERS, "<think>", "</think>", f"</think>{HEADERS[0]}"])
LINES = st.one_of(WHOLE_LINES, CONTENT.map(lambda text: f"- {text}"), CONTENT)
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
            assert not re.search(r"\[KEY (CONDITIONS|IDEA)\]|<\|im_end\|>|</?(s|think)>|Human:|^Answer:", bullet)
            assert not re.search(r"\\boxed\{[^}]*\w|####3", bullet)


@given(TEXTS, TEXTS)
def test_any_pair(first, second):
    pair = extract_pair(f"{first}\n{PAIR_MARKER}\n{second}")
    if pair is not None:
        assert extract_pair("\n".join([pair[0], PAIR_MARKER, pair[1]])) == pair
        assert [extract_preview(half) for half in pair] == list(pair)
    # A marker, a thought or another turn in one half decides where the other half is read.
    plain = PAIR_MARKER not in first and not re.search("think|thought|reason|user|human|INST", first + second, re.I)
    if plain and extract_preview(first) and extract_preview(second):
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
    "<",
    "<|",
    "<think>",
    "</think>",
    "</think>\n[KEY CONDITIONS]\n",
    "[KEY CONDITIONS]\n- .\n[KEY IDEA]\n",
    ":",
]
UNITS += ["#### ", "\\boxed{", "\\boxed{ ", "\\boxed{.", "\\boxed{\\text{the "]
UNITS += [". ", ". user : ", "<|im_start|> ", "the "]
UNITS += [". user", "assistant", "assistant ", "user: ", "User", "answer ", "answer is ", "\\", "1. ", PAIR_MARKER]


# A quadratic rule would take minutes for this; a linear one a few tens of milliseconds.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("before", ["", SEATS, f"{SEATS} ", "[KEY CONDITIONS]\n- ", "[KEY", "[KEY CONDITIONS"])
@pytest.mark.parametrize("unit", UNITS)
def test_odd_texts_take_linear_time(before, unit):
    text = before + unit * (200_000 // len(unit)) + "!"
    extract_preview(text)
    extract_pair(text)
    all_previews(text)


@given(st.lists(st.sampled_from([SEATS, TRIANGLE, DOTS, "text", "[KEY CONDITIONS]\n- a"]), max_size=8))
def test_the_first_well_formed_block_counts(blocks):
    previews = [block for block in blocks if block in (SEATS, TRIANGLE)]
    text = "\n\n".join(blocks)
    assert extract_preview(text) == (previews[0] if previews else None)
    assert all_previews(text) == previews


@given(TEXTS, st.sampled_from(["think", "thinking", "thought"]), st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_what_is_thought_does_not_matter(thought, tag, opened, space):
    begin, end = f"<{tag}>" if opened else "", f"</{tag}>{space}"
    assume(all(found.lastgroup is None for found in _TAG.finditer(thought)))  # a thought that is closed is over
    if not opened:  # where the chat template did it: then a tag in the text is not told from the begin of a thought
        thought = thought.replace("<", "")
    assert extract_preview(f"{begin}{thought}{end}{SEATS}") == SEATS
    assert extract_pair(f"{begin}{thought}{end}{SEATS}\n{PAIR_MARKER}\n{TRIANGLE}") == (SEATS, TRIANGLE)


@given(TEXTS.filter(lambda text: "</think>" not in text))
def test_a_thought_without_an_end_is_no_answer(thought):
    assert extract_preview(f"<think>{thought}\n{SEATS}") is None
    assert extract_preview(f"{SEATS}\n<think>{thought}\n{TRIANGLE}") == SEATS


def test_all_previews_are_those_of_thoughts_and_turns_too():
    text = f"<think>{SEATS}</think>{TRIANGLE}\nUser: and this?\nAssistant:\n{SEATS}"
    assert all_previews(text) == [SEATS, TRIANGLE, SEATS]
    assert all_previews("no block") == []


def test_halves_are_in_the_order_of_the_text():
    assert extract_pair(f"{TRIANGLE}\n{PAIR_MARKER}\n{SEATS}") == (TRIANGLE, SEATS)

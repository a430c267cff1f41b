"""Copies of what the strategy prompt shows are no previews; previews of problems are never taken for copies."""

import random

import pytest
from corpus.pairs import PAIRS
from corpus.singles import SEATS, SINGLES, TRIANGLE
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.config import StrategyConfig
from subgroup_offset.strategy import load_templates
from subgroup_offset.strategy.echo import LEAST_WORDS, is_echo
from subgroup_offset.strategy.selection import words
from subgroup_offset.toy.previews import preview as toy_preview
from subgroup_offset.toy.strategies import STRATEGIES

TEMPLATES = load_templates(StrategyConfig())
SHOWN = [*TEMPLATES.examples(), *TEMPLATES.examples(paired=True)]
# "seats around a table, two of them apart" has the very approach of the first example.
REAL = {preview for _, preview in SINGLES.values() if preview} | {p for _, pair in PAIRS.values() for p in pair or ()}
REAL |= {toy_preview(random.Random(seed), strategy) for strategy in STRATEGIES for seed in range(10)}


def block(conditions: list[str], idea: list[str]) -> str:
    return "\n".join(["[KEY CONDITIONS]", *conditions, "[KEY IDEA]", *idea])


def parts(preview: str) -> tuple[list[str], list[str]]:
    conditions, _, idea = preview.partition("\n[KEY IDEA]\n")
    return conditions.splitlines()[1:], idea.splitlines()


@pytest.mark.parametrize("preview", sorted(REAL))
def test_previews_of_problems_are_no_echoes(preview):
    assert not is_echo(preview, SHOWN)


@pytest.mark.parametrize("preview", sorted(REAL))
def test_a_prompt_that_shows_it_makes_it_one(preview):
    assert is_echo(preview, [SEATS, preview])
    assert not is_echo(preview, [])


@given(st.sampled_from(SHOWN), st.randoms(use_true_random=False))
def test_the_order_and_the_case_do_not_hide_a_copy(shown, rng):
    conditions, idea = parts(shown)
    rng.shuffle(conditions)
    rng.shuffle(idea)
    assert is_echo(block(conditions, idea), SHOWN)
    assert is_echo(shown.replace("- ", "- So: ").upper(), SHOWN)


@given(st.sampled_from(SHOWN), st.randoms(use_true_random=False))
def test_a_word_in_eight_does_not_hide_a_copy(shown, rng):
    conditions, idea = parts(shown)
    different = sorted(words("\n".join(conditions + idea)))
    for word in rng.sample(different, len(different) // 8):
        conditions, idea = ([b.replace(f" {word} ", " other ") for b in half] for half in (conditions, idea))
    assert is_echo(block(conditions, idea), SHOWN)


def test_a_copy_that_was_cut_off_is_one():
    for shown in SHOWN:
        conditions, idea = parts(shown)
        cut = block(conditions, [idea[0][: len(idea[0]) // 2]])
        assert len(words(cut)) > LEAST_WORDS and is_echo(cut, SHOWN)


def test_a_copy_with_something_added_is_one():
    conditions, idea = parts(SHOWN[1])
    assert is_echo(block(conditions, [*idea, "- then simplify the result"]), SHOWN)


def test_a_few_common_words_are_no_copy():
    # All of them stand in the first example.
    assert not is_echo("[KEY CONDITIONS]\n- two are distinct\n[KEY IDEA]\n- count all first", SHOWN)


def test_headers_do_not_count():
    assert not is_echo(block(["- odd"], ["- parity"]), [block(["- even"], ["- halve"])])
    assert not is_echo(TRIANGLE, [SEATS])

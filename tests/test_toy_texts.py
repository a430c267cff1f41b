"""The toy world's texts: problems, previews, pairs of them, responses and prompts."""

import random
from collections import Counter
from itertools import combinations, permutations, product

import pytest
from verl.utils.reward_score import math_dapo

from subgroup_offset.strategy import PAIR_MARKER as RUN_MARKER
from subgroup_offset.strategy import extract_pair, extract_preview
from subgroup_offset.strategy.selection import jaccard_distance
from subgroup_offset.toy import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE
from subgroup_offset.toy.check import is_right, strategy_of
from subgroup_offset.toy.previews import (
    MALFORMED_SHARE,
    malformed_pair,
    malformed_preview,
    paired_response,
    preview,
    strategy_response,
)
from subgroup_offset.toy.problems import (
    MAX_NUMBER,
    WORDINGS,
    ToyProblem,
    all_pairs,
    near_misses,
    result_odds,
    split_pairs,
)
from subgroup_offset.toy.prompts import execution_prompt, paired_prompt, strategy_prompt
from subgroup_offset.toy.responses import execution_response, execution_success, plain_response, plain_success, solve
from subgroup_offset.toy.strategies import PAIR_MARKER, STRATEGIES, by_name

PROBLEM = ToyProblem(7, 8, 0)


def test_near_misses_are_never_right_and_always_single_token_numbers():
    for a, b in all_pairs():
        for miss in near_misses(a, b):
            assert miss != a * b and 0 <= miss <= MAX_NUMBER


def test_result_odds_sum_to_one_and_give_the_right_result_its_success():
    for (a, b), strategy in product(all_pairs(), STRATEGIES):
        odds = result_odds(a, b, strategy.success)
        assert sum(odds.values()) == pytest.approx(1)
        assert odds[a * b] == strategy.success


def test_split_is_disjoint_also_under_exchange_of_factors_and_holds_out_a_fifth():
    training, validation = split_pairs()
    assert sorted(training + validation) == all_pairs()
    assert not {frozenset(pair) for pair in training} & {frozenset(pair) for pair in validation}
    assert 0.15 < len(validation) / len(all_pairs()) < 0.25


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_previews_have_the_exact_layout_and_no_numbers(strategy):
    rng = random.Random(0)
    for _ in range(100):
        text = preview(rng, strategy)
        lines = text.split("\n")
        assert [lines[0], lines[3]] == ["[KEY CONDITIONS]", "[KEY IDEA]"] and len(lines) == 6
        assert all(lines[i].startswith("- ") for i in (1, 2, 4, 5))
        assert not any(char.isdigit() for char in text)
        assert extract_preview(text) == text
        assert strategy_of(text) == strategy.name


def test_previews_differ_more_between_strategies_than_within_one():
    rng = random.Random(0)
    drawn = [(s.name, preview(rng, s)) for s in STRATEGIES for _ in range(12)]
    within, between = [], []
    for (name, text), (other, another) in combinations(drawn, 2):
        (within if name == other else between).append(jaccard_distance(text, another))
    assert max(within) < min(between)


def test_malformed_previews_are_rare_and_some_of_them_cannot_be_extracted():
    rng = random.Random(0)
    raw = [strategy_response(rng, PROBLEM) for _ in range(4000)]
    odd = sum(extract_preview(text) != text for text in raw) / len(raw)
    assert odd == pytest.approx(MALFORMED_SHARE, abs=0.012)
    broken = [extract_preview(malformed_preview(rng, STRATEGIES[0], PROBLEM)) for _ in range(200)]
    assert 0.2 < sum(text is None for text in broken) / len(broken) < 0.6
    assert all(strategy_of(text) == STRATEGIES[0].name for text in broken if text is not None)


def test_pairs_name_two_strategies_in_every_order_alike_and_few_are_malformed():
    rng = random.Random(0)
    raw = [paired_response(rng) for _ in range(4000)]
    pairs = [pair for pair in map(extract_pair, raw) if pair is not None]
    assert 1 - len(pairs) / len(raw) == pytest.approx(MALFORMED_SHARE, abs=0.012)
    assert all(f"{first}\n{PAIR_MARKER}\n{second}" in raw for first, second in pairs[:100])
    orders = Counter((strategy_of(first), strategy_of(second)) for first, second in pairs)
    assert set(orders) == set(permutations([s.name for s in STRATEGIES], 2))
    assert all(count / len(pairs) == pytest.approx(1 / 12, abs=0.02) for count in orders.values())
    broken = {malformed_pair(rng, *STRATEGIES[:2]) for _ in range(200)}
    assert not [text for text in broken if extract_pair(text) is not None]
    assert {text.count(PAIR_MARKER) for text in broken} == {0, 1}


def test_response_text_and_scoring_by_math_dapo():
    rng = random.Random(0)
    seen = set()
    for _ in range(200):
        strategy = rng.choice(STRATEGIES)
        response = solve(rng, PROBLEM, strategy)
        result = response.text.rpartition(" ")[2]
        assert response.text == f"Method: {strategy.name}\n7 x 8 = {result}\nAnswer: {result}"
        assert response.text[response.spot :].startswith(result + "\n")
        score = math_dapo.compute_score(response.text, str(PROBLEM.answer))
        right = result == "56"
        assert score == {"score": 1.0 if right else -1.0, "acc": right, "pred": result}
        assert is_right(PROBLEM, response.text) == right
        seen.add(right)
    assert seen == {True, False}


def test_success_belongs_to_the_named_strategy():
    rng = random.Random(0)
    tries = 4000
    for strategy in STRATEGIES:
        drawn = [execution_response(rng, PROBLEM, strategy).text for _ in range(tries)]
        named = [text for text in drawn if text.startswith(f"Method: {strategy.name}\n")]
        assert len(named) / tries == pytest.approx(0.95, abs=0.015)
        assert sum(is_right(PROBLEM, t) for t in named) / len(named) == pytest.approx(strategy.success, abs=0.03)
        success = sum(is_right(PROBLEM, t) for t in drawn) / tries
        assert success == pytest.approx(execution_success(strategy), abs=0.03)
    plain = sum(is_right(PROBLEM, plain_response(rng, PROBLEM).text) for _ in range(tries)) / tries
    assert plain == pytest.approx(plain_success(), abs=0.03)
    assert 0.25 < plain_success() < 0.35


def test_unknown_strategy_names_the_known_ones():
    with pytest.raises(KeyError, match="recall"):
        by_name("magic")


def test_templates_render_to_the_documented_prompts():
    assert strategy_prompt("P") == "P\nPreview only, no answer."
    assert execution_prompt("P", "V\nW") == "P\nFollow this preview unless it is flawed:\nV\nW"
    assert paired_prompt("P") == "P\nTwo previews, [ANOTHER APPROACH] between."
    assert "{{ problem }}" in STRATEGY_TEMPLATE and "{{ preview }}" in EXECUTION_TEMPLATE
    assert "{{ problem }}" in PAIRED_TEMPLATE and "{{ marker }}" in PAIRED_TEMPLATE


def test_pairs_are_parted_by_the_marker_of_the_strategy_stage():
    assert PAIR_MARKER == RUN_MARKER


@pytest.mark.parametrize("wording", range(len(WORDINGS)))
def test_every_wording_holds_both_factors(wording):
    assert {"12", "5"} <= set(ToyProblem(12, 5, wording).text.rstrip(".?").split())

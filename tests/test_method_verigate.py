"""VeriGate: step credit where every rollout is wrong, and a scorer that may fail."""

from __future__ import annotations

import json
import math
from statistics import fmean, stdev

import pytest
import torch
import toy_scorers
from fake_rollout import N
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import advantages, step_metrics
from preflight_configs import changed

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.methods import verigate
from subgroup_offset.methods.verigate import FAILED, FIELD, LEFT, SCORED
from subgroup_offset.preflight import check_run
from subgroup_offset.rollout.steps import split_steps

KEY = "algorithm.subgroup.method.verigate"
SCORER = {"scorer": "toy_scorers.by_length"}


@pytest.fixture(autouse=True)
def fresh():
    toy_scorers.ASKED.clear()
    verigate._warn_once.forget()


def credit(steps, rewards=None, width=6, **method) -> torch.Tensor:
    """(B, T) of one prompt whose rows have these (end, score) pairs."""
    batch = {"p": [-1.0] * len(steps) if rewards is None else rewards}
    rows = {FIELD: [json.dumps(of_row) for of_row in steps]}
    return advantages(batch, {"verigate": {**SCORER, **method}}, width=width, rows=rows)


ORACLE = [[[2, 0.8], [4, 0.4]], [[6, 0.6]], [[1, 0.2], [3, 0.2], [6, 0.2]]]


def test_oracle():
    found = credit(ORACLE)
    expected = [
        [1.838518] * 2 + [-0.483821] * 2 + [0.0] * 2,
        [0.096764] * 6,
        [0.096764] + [-0.483821] * 2 + [-1.064405] * 3,
    ]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(credit(ORACLE, coef=0.5), 0.5 * found)


def test_suffix_means():
    values = [0.6, 0.4, 0.6, 0.2, 0.2, 0.2]
    expected = [(v - fmean(values)) / (stdev(values) + 1e-6) for v in values]
    found = credit(ORACLE, credit_of="mean")
    assert [found[0, 0], found[0, 2], found[1, 0], *found[2, [0, 1, 3]]] == pytest.approx(expected, rel=1e-5)


STEPS = st.lists(st.one_of(st.none(), st.lists(st.floats(0, 1), min_size=1, max_size=4)), min_size=1, max_size=5)


@settings(max_examples=60)
@given(STEPS)
def test_against_loops(scores):
    steps = [None if of_row is None else [[i + 1, s] for i, s in enumerate(of_row)] for of_row in scores]
    found = credit(steps)
    sums = [[sum(of_row[i:]) for i in range(len(of_row))] for of_row in (s or [] for s in scores)]
    flat = [c for of_row in sums for c in of_row]
    for row, of_row in enumerate(sums):
        for t in range(6):
            alike = len(flat) < 2 or max(flat) - min(flat) < 1e-15
            there = t < len(of_row) and not alike
            expected = (of_row[t] - fmean(flat)) / (stdev(flat) + 1e-6) if there else 0.0
            assert found[row, t].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_prompts_with_a_success_are_grpo_and_need_no_field():
    mixed, solved = {"p": [1.0, 0.0, 0.0]}, {"p": [1.0, 1.0]}
    for batch in (mixed, solved):
        assert torch.equal(advantages(batch, {"verigate": SCORER}, rows={FIELD: []}), advantages(batch))


def test_each_prompt_has_statistics_of_its_own():
    rows = {FIELD: [json.dumps(s) for s in (ORACLE[0], ORACLE[1], ORACLE[2], [[3, 9.0]], [[3, 1.0]])]}
    both = advantages({"a": [0.0] * 3, "b": [0.0] * 2}, {"verigate": SCORER}, width=6, rows=rows)
    torch.testing.assert_close(both[:3], credit(ORACLE))
    torch.testing.assert_close(both[3:, 0], torch.tensor([2**-0.5, -(2**-0.5)]), rtol=1e-5, atol=0)


def test_flat_and_failed_prompts_have_no_credit_and_are_counted():
    for steps in ([[[3, 0.5]], [[2, 0.5]]], [None, None], [[[4, 0.7]], None], [[], []]):
        step_metrics()
        assert credit(steps).abs().max() == 0
        logged = step_metrics()
        assert (logged["verigate/flat_groups_count"], logged["verigate/credited_groups_count"]) == (1, 0)


def test_a_wrong_group_whose_rewards_differ_gets_credit_in_place_of_grpo():
    found = credit(ORACLE, rewards=[-1.0, -0.5, -1.0])
    torch.testing.assert_close(found, credit(ORACLE))
    left = [LEFT] * 3
    rows = {FIELD: [json.dumps(of_row) for of_row in left]}
    batch = {"p": [-1.0, -0.5, -1.0]}
    assert torch.equal(advantages(batch, {"verigate": {**SCORER, "gate": "constant"}}, rows=rows), advantages(batch))


def test_tokens_that_are_none_of_the_policys_get_nothing():
    mask = torch.ones(3, 6)
    mask[0, 1] = mask[2, 4:] = 0
    rows = {FIELD: [json.dumps(of_row) for of_row in ORACLE]}
    found = advantages({"p": [0.0] * 3}, {"verigate": SCORER}, mask=mask, rows=rows)
    torch.testing.assert_close(found, credit(ORACLE) * mask)


# Steps.


def test_a_step_ends_with_its_separator(tokenizer):
    text = "First add.\n\nThen halve.\n\n\n\nAnswer: 4"
    ids = tokenizer.encode(text, add_special_tokens=False)
    steps = split_steps(ids, tokenizer, "\n\n")
    assert [step.text for step in steps] == ["First add.", "Then halve.", "Answer: 4"]
    assert steps[-1].end == len(ids)
    assert tokenizer.decode(ids[: steps[0].end]).startswith("First add.\n\n")


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "12", "\n", "\n\n", " ", "é", "漢", "🙂", "x = 3."]), max_size=14).map("".join))
def test_steps_are_whole_and_in_order(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    steps = split_steps(ids, tokenizer, "\n\n")
    ends = [step.end for step in steps]
    assert ends == sorted(set(ends)) and (ends[-1:] == [len(ids)] or not text.strip())
    assert all(step.text == step.text.strip() != "" for step in steps)
    said = "".join("".join(step.text.split()) for step in steps)
    assert said == "".join(text.split())
    assert len(steps) == len([part for part in text.split("\n\n") if part.strip()])


@pytest.fixture(scope="module")
def tokenizer(untrained_world):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(untrained_world / "model")


# The worker's half.

VERIGATE = ["algorithm.subgroup.partition=none", f"+{KEY}.separator=' and '"]
TEXTS = ["one and two", "three", "four and five and six", "7"]


def wrong(session):
    return [{"text": TEXTS[session % 4], "reward": -1.0, "info": {"acc": 0.0}}]


def mixed(session):
    return [{"text": TEXTS[session % 4], "reward": float(session == 0), "info": {"acc": float(session == 0)}}]


def stored(it, uid):
    return {int(key.split("_")[-2]): row.get(FIELD) for key, row in it.queue.rows(uid).items()}


def with_scorer(rollout, name, *overrides):
    return rollout(*VERIGATE, f"+{KEY}.scorer=toy_scorers.{name}", *overrides)


def test_only_rollouts_of_all_wrong_prompts_are_scored(rollout):
    it = with_scorer(rollout, "by_length")
    it.roll_out({"a": wrong, "b": mixed})
    assert len(toy_scorers.ASKED) == N and {problem for problem, _ in toy_scorers.ASKED} == {"What is 0 plus 2?"}
    assert sorted(toy_scorers.ASKED)[0][1] in ([["7"], ["four", "five", "six"]])
    for session, text in stored(it, "a").items():
        steps = json.loads(text)
        said = TEXTS[session % 4]
        assert [score for _, score in steps] == [len(part) / 10 for part in said.split(" and ")]
        assert steps[-1][0] == len(it.worker.tokenizer.encode(said, add_special_tokens=False))
    assert set(stored(it, "b").values()) == {None}
    assert it.ask(it.worker.drain()).counts == {SCORED: N, FAILED: 0}


@pytest.mark.parametrize("scorer", ["down", "one_too_few"])
def test_a_scorer_that_fails_costs_the_credit_alone(rollout, scorer, caplog):
    it = with_scorer(rollout, scorer)
    it.roll_out({"a": wrong})
    assert set(stored(it, "a").values()) == {"null"}
    drained = it.ask(it.worker.drain())
    assert drained.counts == {SCORED: 0, FAILED: N} and drained.outcomes.kept == 1
    assert caplog.text.count("cannot be scored") == 1


def test_rollouts_that_are_scored_have_their_credit_beside_those_that_are_not(rollout):
    it = with_scorer(rollout, "down_for_some")
    it.roll_out({"a": wrong})
    assert it.ask(it.worker.drain()).counts == {SCORED: N // 2, FAILED: N // 2}
    assert [stored(it, "a")[session] == "null" for session in range(4)] == [False, True, False, True]


def test_the_last_output_is_scored(rollout):
    it = with_scorer(rollout, "by_length")
    it.roll_out({"a": lambda session: [{"text": "early", "reward": 0.0}, *wrong(session)]})
    rows = it.queue.rows("a")
    assert {rows[f"a_{s}_0"][FIELD] for s in range(N)} == {"null"}
    assert all(json.loads(rows[f"a_{s}_1"][FIELD]) for s in range(N))


def test_the_gate_may_leave_wrong_groups_with_unequal_rewards_to_grpo(rollout):
    def partial(session):
        return [{"text": "x", "reward": -1.0 - session / 10, "info": {"acc": 0.0}}]

    it = with_scorer(rollout, "by_length", f"+{KEY}.gate=constant")
    it.roll_out({"a": partial})
    assert {json.loads(text) for text in stored(it, "a").values()} == {LEFT}
    assert not toy_scorers.ASKED


def test_rewards_that_are_not_finite_are_not_scored(rollout):
    it = with_scorer(rollout, "by_length")
    it.roll_out({"a": lambda session: [{"reward": math.nan}] if session else wrong(session)})
    assert it.ask(it.worker.drain()).counts == {SCORED: 1, FAILED: 0}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({}, r"verigate\.scorer=None and .*verigate\.url=None: set one of them"),
        ({**SCORER, "url": "http://x"}, r"verigate\.scorer=toy_scorers\.by_length and .*url=http://x: set one"),
        ({**SCORER, "separator": ""}, r"verigate\.separator is empty"),
        ({**SCORER, "credit_of": "product"}, r"credit_of='product' is unknown"),
        ({**SCORER, "gate": "always"}, r"gate='always' is unknown"),
        ({**SCORER, "coef": 0}, r"coef=0 is not above 0"),
        ({**SCORER, "retries": -1}, r"retries=-1 is too small"),
    ],
)
def test_refusals(method, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"verigate": method}}})


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("no_such_module.f", r"verigate\.scorer=no_such_module\.f cannot be imported \(ModuleNotFoundError"),
        ("toy_scorers.nothing", r"verigate\.scorer=toy_scorers\.nothing cannot be imported \(AttributeError"),
        ("toy_scorers.NOT_CALLABLE", r"verigate\.scorer=toy_scorers\.NOT_CALLABLE is no callable"),
    ],
)
def test_a_scorer_that_is_none_is_refused_before_the_run(scorer, message):
    with pytest.raises(ConfigError, match=message):
        check_run(changed({f"{KEY}.scorer": scorer}))

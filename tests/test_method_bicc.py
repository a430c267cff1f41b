"""BiCC: advantages by the odds, and rows rewritten to continue a sibling that ended the other way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from fake_rollout import FakeLoop, N
from hypothesis import given
from hypothesis import strategies as st
from method_cases import advantages, step_metrics
from preflight_configs import changed

from subgroup_offset.config import ConfigError, SubgroupConfig
from subgroup_offset.methods.bicc import LOG_RATIO, PLAIN, REWRITTEN
from subgroup_offset.preflight import check_run
from subgroup_offset.rollout.rewrite import rewrite_prompt

BICC = [
    "algorithm.subgroup.partition=none",
    "+algorithm.subgroup.method.bicc.portion=0.4",
    "data.max_prompt_length=96",
]
TEXTS = [f"{i} {i} {i} {i} {i} {i} {i} {i} {i} {i}" for i in range(N)]


def outcome(session):
    """Even sessions are right."""
    right = session % 2 == 0
    return [{"text": TEXTS[session], "reward": float(right), "info": {"acc": float(right)}}]


def stored(it, uid="a"):
    return {int(key.split("_")[-2]): row for key, row in it.queue.rows(uid).items()}


def ids(row, name):
    return np.asarray(row[name]).tolist()


@pytest.mark.parametrize(("successes", "right", "wrong"), [(2, 1.732051, -0.577350), (6, 0.577350, -1.732051)])
def test_oracle(successes, right, wrong):
    group = [1.0] * successes + [0.0] * (8 - successes)
    column = advantages({"p": group}, {"bicc": {}}, rows={})[:, 0].tolist()
    assert column == pytest.approx([right] * successes + [wrong] * (8 - successes), rel=1e-6)


@given(st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=12))
def test_against_the_formula(group):
    right, wrong = group.count(1.0), group.count(-1.0)
    odds = math.sqrt(wrong / right) if right and wrong else 0.0
    expected = [odds if r > 0 else (-1 / odds if odds else 0.0) for r in group]
    assert advantages({"p": group}, {"bicc": {}}, rows={})[:, 0].tolist() == pytest.approx(expected, rel=1e-5)


def test_the_log_ratio_is_of_the_tokens_of_groups_with_both_verdicts():
    old = torch.tensor([[-1.0, -2.0], [-4.0, 9.0], [-7.0, -7.0], [-7.0, -7.0]])
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 1]])
    rows = {"old_log_probs": old, "rollout_log_probs": torch.full((4, 2), -0.5)}
    batch = {"mixed": [1.0, 0.0], "constant": [1.0, 1.0]}
    step_metrics()
    advantages(batch, {"bicc": {}}, mask=mask, rows=rows)
    assert step_metrics()[LOG_RATIO] == pytest.approx((-0.5 - 1.5 - 3.5) / 3)
    for known in ({**rows, "rollout_log_probs": torch.full((4, 2), -math.inf)}, {"old_log_probs": old}):
        advantages(batch, {"bicc": {}}, mask=mask, rows=known)
        assert LOG_RATIO not in step_metrics()
    advantages(batch, {"bicc": {"ratio": "paper"}}, mask=mask, rows=rows)
    assert LOG_RATIO not in step_metrics()


def test_rows_continue_a_sibling_that_ended_the_other_way(rollout):
    it = rollout(*BICC)
    it.roll_out({"a": outcome})
    plain = it.worker._chat.build([{"role": "user", "content": "What is 0 plus 2?"}])
    tags = it.queue.tags["train"]
    for session, row in stored(it).items():
        prompt, response, whole = (ids(row, name) for name in ("prompts", "responses", "input_ids"))
        assert whole == prompt + response and ids(row, "position_ids") == list(range(len(whole)))
        assert response == it.worker.tokenizer.encode(TEXTS[session], add_special_tokens=False)
        tag = tags[f"a_{session}_0"]
        assert (tag["prompt_len"], tag["seq_len"], tag["response_len"]) == (len(prompt), len(whole), len(response))
        assert tag["status"] == "success" and ids(row, "response_mask") == [1] * len(response)
        said = it.worker.tokenizer.decode(prompt)
        assert "What is 0 plus 2?" in said and len(prompt) > len(plain)
        attempt = said.rpartition("begins like this:")[2]
        other = int("".join(c for c in attempt if c.isdigit())[0])
        assert other % 2 != session % 2
        assert f"which is {'wrong' if session % 2 == 0 else 'right'}," in said
    lengths = [len(ids(row, "input_ids")) for row in stored(it).values()]
    assert sum(tags[f"a_{session}_0"]["seq_len"] for session in range(N)) == sum(lengths)
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: N, PLAIN: 0}


def test_with_strategies_the_preview_stays_in_the_prompt(rollout):
    it = rollout("+algorithm.subgroup.method.bicc.portion=0.1")
    it.roll_out({"a": outcome})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: N, PLAIN: 0}
    for row in stored(it).values():
        said = it.worker.tokenizer.decode(ids(row, "prompts"))
        assert said.index("Follow this preview") < said.index("An earlier attempt")


def test_the_portion_is_of_tokens(rollout):
    lengths = []
    for portion in (0.1, 0.4, 1.0):
        it = rollout(BICC[0], f"+algorithm.subgroup.method.bicc.portion={portion}", BICC[2])
        it.roll_out({"a": outcome})
        lengths.append(len(ids(stored(it)[0], "prompts")))
    tokens = len(it.worker.tokenizer.encode(TEXTS[0], add_special_tokens=False))
    assert lengths[0] < lengths[1] < lengths[2]
    assert abs((lengths[2] - lengths[0]) - 0.9 * tokens) <= 2


def test_partners_follow_the_seed_and_can_be_the_shortest(rollout):
    def prompts(*overrides):
        it = rollout(*BICC, *overrides)
        it.roll_out({"a": outcome})
        return [ids(row, "prompts") for _, row in sorted(stored(it).items())]

    first = prompts("algorithm.subgroup.seed=1")
    assert first == prompts("algorithm.subgroup.seed=1") != prompts("algorithm.subgroup.seed=2")
    shortest = prompts("+algorithm.subgroup.method.bicc.partner=shortest")
    assert shortest[0] == shortest[2] == shortest[4]


def test_what_cannot_be_rewritten_stays_and_is_counted(rollout):
    def all_right(session):
        return [{"reward": 1.0, "info": {"acc": 1.0}}]

    def several(session):
        return outcome(session) * (2 if session == 0 else 1)

    def broken(session):
        return [{"reward": math.nan}] if session == 1 else outcome(session)

    it = rollout(*BICC)
    it.roll_out({"same": all_right})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: 0, PLAIN: N}
    it.roll_out({"several": several})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: N - 1, PLAIN: 2}
    it.roll_out({"broken": broken})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: N - 1, PLAIN: 1}


def test_a_prompt_without_room_gets_less_of_the_sibling_or_nothing(rollout):
    it = rollout(*BICC)
    it.roll_out({"a": outcome})
    whole = len(ids(stored(it)[0], "prompts"))
    it = rollout(*BICC[:2], f"data.max_prompt_length={whole - 2}")
    it.roll_out({"a": outcome})
    assert all(len(ids(row, "prompts")) <= whole - 2 for row in stored(it).values())
    counts = it.ask(it.worker.drain()).counts
    assert counts[REWRITTEN] > 0
    it = rollout(*BICC[:2], "data.max_prompt_length=20")
    it.roll_out({"a": outcome})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: 0, PLAIN: N}


def test_prompt_and_response_stay_within_the_context(rollout):
    it = rollout(*BICC)
    it.roll_out({"a": outcome})
    longest = max(len(ids(row, "input_ids")) for row in stored(it).values())
    it = rollout(*BICC, f"actor_rollout_ref.rollout.max_model_len={longest - 3}")
    it.roll_out({"a": outcome})
    assert it.ask(it.worker.drain()).counts[REWRITTEN] > 0
    assert all(len(ids(row, "input_ids")) <= longest - 3 for row in stored(it).values())


@pytest.mark.parametrize("change", ["prompt_ids", "multi_modal_data"])
def test_prompts_that_are_more_than_their_chat_stay(rollout, monkeypatch, change):
    made = FakeLoop._output

    def output(loop, prompt_ids, row):
        result = made(loop, prompt_ids, row)
        if change == "prompt_ids":
            result.prompt_ids = [*prompt_ids, 5]
        else:
            result.multi_modal_data = {"images": ["a picture"]}
        return result

    monkeypatch.setattr(FakeLoop, "_output", output)
    it = rollout(*BICC)
    it.roll_out({"a": outcome})
    assert it.ask(it.worker.drain()).counts == {REWRITTEN: 0, PLAIN: N}


@given(st.lists(st.integers(0, 99), min_size=1), st.lists(st.integers(0, 99), min_size=1))
def test_a_rewritten_row_ends_in_its_response(prompt, response):
    fields, tags = rewrite_prompt(prompt, response)
    assert fields["input_ids"].tolist() == prompt + response and fields["prompts"].tolist() == prompt
    assert tags == {"prompt_len": len(prompt), "seq_len": len(prompt) + len(response)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratio": "paper"}, r"bicc\.ratio=paper and .*bypass_mode=False do not go together"),
        ({"template": "{{ problem }}"}, r"bicc\.template=.* does not use the variable attempt"),
        ({"portion": 0.4, "algorithm.rollout_correction.bypass_mode": True}, r"ratio=matched and .*bypass_mode=True"),
        ({"portion": 0.4, "reward.reward_model.enable": True}, r"method\.bicc needs the verdict .* scores it later"),
        ({"portion": 0.4, "algorithm.subgroup.context": "plain"}, r"bicc and .*context=plain both set the prompt"),
        (
            {
                "ratio": "paper",
                "algorithm.rollout_correction.bypass_mode": True,
                "actor_rollout_ref.rollout.calculate_log_probs": False,
            },
            r"ratio=paper divides by .*calculate_log_probs=False keeps none",
        ),
        ({"portion": 0.4, "distillation.enabled": True}, r"bicc changes the prompt .*distillation\.enabled=True"),
        (
            {"portion": 0.4, "actor_rollout_ref.rollout.enable_rollout_routing_replay": True},
            r"enable_rollout_routing_replay=False",
        ),
    ],
)
def test_refused_before_the_run(changes, message):
    section = "algorithm.subgroup.method.bicc"
    with pytest.raises(ConfigError, match=message):
        check_run(changed({key if "." in key else f"{section}.{key}": value for key, value in changes.items()}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ratio": "code"}, r"bicc\.ratio='code' is unknown"),
        ({"portion": 0}, r"bicc\.portion=0 is no share"),
        ({"partner": "longest"}, r"bicc\.partner='longest' is unknown"),
        ({"template": 3}, r"bicc\.template=3 is not text"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ConfigError, match=message):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"bicc": settings}}})
    with pytest.raises(ConfigError, match=r"bicc and .*oc_grpo cannot be used together, for both set the context"):
        SubgroupConfig.from_algorithm({"subgroup": {"method": {"bicc": {}, "oc_grpo": {}}}})

"""The strategy stage of one prompt, without a server: what generates is a coroutine of the test's."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.config import StrategyConfig, SubgroupConfig
from subgroup_offset.strategy import PAIR_MARKER, load_templates, stage
from subgroup_offset.strategy.stage import Candidate, StrategyStage
from subgroup_offset.strategy.stats import StageStats

CHAT = [{"role": "user", "content": "Q"}]


def preview(word: str) -> str:
    return f"[KEY CONDITIONS]\n- {word} given\n[KEY IDEA]\n- use {word}"


def make_stage(generate, prompt_length=100, context_length=200, **strategy):
    settings = {"num_strategies": 3, "num_candidates": 4, "max_tokens": 20} | strategy
    asking = {name: settings.pop(name) for name in ("strategy_template", "paired_template") if name in settings}
    config = SubgroupConfig(strategy=StrategyConfig(**settings))

    async def tokenize(messages, media):
        return list(range(len(messages[-1]["content"].split())))

    templates = load_templates(
        StrategyConfig(
            strategy_template=asking.get("strategy_template", "plan {{ problem }}"),
            paired_template=asking.get("paired_template", "two plans {{ problem }} {{ marker }}"),
            execution_template="{{ preview }} {{ problem }}",
        )
    )
    return StrategyStage(config, templates, generate, tokenize, prompt_length, context_length)


def run(the_stage, step=1, index=0, slots=None):
    return asyncio.run(the_stage.run(CHAT, step, index, slots))


def pair(first: str, second: str) -> str:
    return f"{preview(first)}\n{PAIR_MARKER}\n{preview(second)}"


def scripted(*texts, asked=None):
    """Generates the given texts in turn, fails where one is None, and notes the prompts it was given."""

    async def generate(ids, i, media):
        if asked is not None:
            asked.append(ids)
        if texts[i] is None:
            raise RuntimeError("down")
        return Candidate(texts[i], tokens=2)

    return generate


def paired_stage(*texts, **settings):
    settings = {"num_strategies": 4, "num_candidates": len(texts), "sampling": "paired"} | settings
    return make_stage(scripted(*texts, asked=settings.pop("asked", None)), **settings)


def reasons(plan):
    return [record.reason for record in plan.candidates]


def test_pairs_hold_adjacent_slots():
    asked = []
    plan = run(paired_stage(pair("a", "a"), "none", pair("b", "c"), pair("d", "e"), preview("f"), asked=asked))
    assert plan.previews == [preview(w) for w in "bcde"]
    assert [m[0]["content"] for m in plan.messages] == [f"{p} Q" for p in plan.previews]
    stats = plan.stats
    # A call is one candidate however many previews it yields; that one with equal halves adds nothing new.
    assert (stats.candidates, stats.usable, stats.duplicates, stats.empty_slots, stats.slots) == (5, 3, 1, 0, 4)
    assert stats.strategy_tokens == 10 and stats.metrics()["strategy/usable_per_candidate"] == 3 / 5
    assert len(asked) == 5 and all(len(ids) == len(f"two plans Q {PAIR_MARKER}".split()) for ids in asked)
    assert reasons(plan) == ["not selected", "unusable", "kept", "kept", "unusable"]
    assert [r.slots for r in plan.candidates] == [(), (), (0, 1), (2, 3), ()]
    assert plan.candidates[2].previews == (preview("b"), preview("c"))


def test_too_few_pairs_leave_plain_slots():
    plan = run(paired_stage(None, pair("a", "b"), "none"))
    assert plan.previews == [preview("a"), preview("b"), None, None]
    assert plan.messages[2:] == [CHAT, CHAT]
    assert plan.subgroups == [0, 1, 2, 2]
    assert (plan.stats.failed_requests, plan.stats.empty_slots) == (1, 2)
    assert reasons(plan) == ["request failed", "kept", "unusable"]


def test_random_pairs_stay_together():
    stage_of_pairs = paired_stage(*(pair(w, w.upper() + "x") for w in "abcdef"), selection="random")
    seen = set()
    for step in range(20):
        previews = run(stage_of_pairs, step).previews
        for first, second in (previews[:2], previews[2:]):
            word = first.split()[3]
            assert (first, second) == (preview(word), preview(word.upper() + "x"))
        seen.add(tuple(previews))
    assert len(seen) > 5


def test_one_half_too_long_leaves_its_slot_empty():
    long = "very long winded thing indeed"
    plan = run(paired_stage(pair("a", long), pair("b", "c"), prompt_length=11))
    assert plan.previews == [preview("a"), None, preview("b"), preview("c")]
    assert plan.candidates[0].slots == (0, None)
    assert plan.candidates[0].kept and plan.candidates[0].reason == "too long"
    assert plan.stats.overlong_prompts == 1 and plan.stats.empty_slots == 1


@pytest.mark.parametrize(("merge", "subgroups"), [(False, [0, 1, 2, 3, 4]), (True, [0, 1, 2, 1, 1])])
def test_empty_slots_are_one_subgroup_or_each_its_own(merge, subgroups):
    texts = [preview("a"), preview("very long winded thing indeed"), preview("b"), "none", None]
    settings = {"num_strategies": 5, "num_candidates": 5, "merge_empty": merge, "prompt_length": 11}
    plan = run(make_stage(scripted(*texts), **settings))
    assert [p is None for p in plan.previews] == [False, True, False, True, True]
    assert plan.subgroups == subgroups


@pytest.mark.parametrize("merge", [False, True])
def test_without_an_empty_slot_each_is_a_subgroup(merge):
    plan = run(make_stage(scripted(*(preview(w) for w in "abcd")), merge_empty=merge))
    assert plan.subgroups == [0, 1, 2]


def test_empty_slots_are_one_subgroup_by_default():
    assert run(make_stage(scripted(preview("a"), None, None, None))).subgroups == [0, 1, 1]


def test_duplicates_are_dropped_only_if_asked():
    texts = [preview("a"), f"Sure:\n{preview('a')}\n\nSo", preview("a"), preview("b")]
    plan = run(make_stage(scripted(*texts), deduplicate=True))
    assert plan.previews == [preview("a"), preview("b"), None]
    assert reasons(plan) == ["kept", "duplicate", "duplicate", "kept"]
    assert (plan.stats.usable, plan.stats.duplicates) == (4, 2)
    plan = run(make_stage(scripted(*texts), deduplicate=False))
    assert None not in plan.previews and plan.stats.duplicates == 2 and "duplicate" not in reasons(plan)


def test_duplicate_pairs():
    texts = [pair("a", "b"), pair("b", "a"), pair("c", "c"), pair("a", "c")]
    plan = run(paired_stage(*texts, deduplicate=True))
    assert reasons(plan) == ["kept", "duplicate", "duplicate", "kept"]
    assert plan.stats.duplicates == 2
    assert "duplicate" not in reasons(run(paired_stage(*texts)))


def test_records_tell_what_became_of_each_call():
    texts = [None, "free text", f"Sure!\n{preview('a')}<|im_end|>", preview("a b")]
    plan = run(make_stage(scripted(*texts), num_strategies=1))
    assert [r.text for r in plan.candidates] == ["", *texts[1:]]
    assert [r.previews for r in plan.candidates] == [(), (), (preview("a"),), (preview("a b"),)]
    assert reasons(plan) == ["request failed", "unusable", "kept", "not selected"]
    assert [r.kept for r in plan.candidates] == [False, False, True, False]
    assert [r.slots for r in plan.candidates] == [(), (), (0,), ()]


@given(
    st.lists(
        st.sampled_from([None, "none", preview("a"), pair("a", "b"), pair("b", "a"), pair("c", "d"), pair("e", "e")]),
        min_size=2,
        max_size=8,
    ),
    st.sampled_from(["independent", "paired"]),
    st.sampled_from(["diverse", "random"]),
    st.booleans(),
    st.booleans(),
    st.integers(5, 12),
    st.sampled_from([None, 1, 2, 3]),
)
def test_slots_records_and_stats_agree(texts, sampling, selection, deduplicate, merge_empty, prompt_length, slots):
    settings = {"sampling": sampling, "selection": selection, "deduplicate": deduplicate, "merge_empty": merge_empty}
    settings |= {"num_strategies": 2, "num_candidates": len(texts), "prompt_length": prompt_length}
    plan = run(make_stage(scripted(*texts), **settings), slots=slots)
    slots = slots or 2
    assert len(plan.previews) == len(plan.messages) == len(plan.subgroups) == plan.stats.slots == slots
    assert len(plan.candidates) == len(texts)
    filled = {s: p for r in plan.candidates for s, p in zip(r.slots, r.previews, strict=False) if s is not None}
    assert filled == {k: p for k, p in enumerate(plan.previews) if p is not None}
    assert plan.stats.empty_slots == slots - len(filled)
    assert plan.stats.usable == sum(bool(r.previews) for r in plan.candidates)
    assert plan.stats.failed_requests == texts.count(None) == reasons(plan).count("request failed")
    assert reasons(plan).count("too long") <= plan.stats.overlong_prompts
    too_few = len([r for r in plan.candidates if r.slots]) * (2 if sampling == "paired" else 1) < slots
    assert (plan.stats.sample is not None) == (too_few and "unusable" in reasons(plan))
    for k, (shown, chat) in enumerate(zip(plan.previews, plan.messages, strict=True)):
        assert chat == (CHAT if shown is None else [{"role": "user", "content": f"{shown} Q"}])
        first_empty = plan.previews.index(None) if shown is None else k
        assert plan.subgroups[k] == (first_empty if merge_empty else k)
    if deduplicate and len(filled) == 2 == slots:
        assert plan.previews[0] != plan.previews[1]


def test_slots_hold_distinct_previews():
    async def generate(ids, i, media):
        return Candidate(preview("abab"[i]), tokens=5)

    plan = run(make_stage(generate, selection="diverse"))
    assert plan.previews == [preview("a"), preview("b"), preview("a")]
    assert [m[0]["content"] for m in plan.messages] == [f"{p} Q" for p in plan.previews]
    stats = plan.stats
    assert (stats.candidates, stats.usable, stats.duplicates, stats.empty_slots) == (4, 4, 2, 0)
    assert stats.strategy_tokens == 20 and stats.seconds_sum > 0


def test_unusable_and_failed_candidates_leave_plain_slots(caplog):
    async def generate(ids, i, media):
        if i == 0:
            raise RuntimeError("server down")
        return Candidate(preview("a") if i == 1 else "no preview", tokens=3)

    stage._warn_once.forget()
    plan = run(make_stage(generate))
    assert plan.previews == [preview("a"), None, None]
    assert plan.messages[1] == plan.messages[2] == CHAT
    assert (plan.stats.failed_requests, plan.stats.usable, plan.stats.empty_slots) == (1, 1, 2)
    assert "server down" in caplog.text


def test_all_requests_failing_runs_the_prompt_plain():
    async def generate(ids, i, media):
        raise RuntimeError("down")

    plan = run(make_stage(generate))
    assert plan.previews == [None] * 3 and plan.messages == [CHAT] * 3
    assert plan.stats.failed_requests == 4


def test_a_conditioned_prompt_over_the_limit_falls_back():
    async def generate(ids, i, media):
        return Candidate(preview("a" if i else "very long winded thing indeed"), tokens=1)

    # "[KEY CONDITIONS] - a given [KEY IDEA] - use a Q" has 11 words, the long one has more.
    plan = run(make_stage(generate, prompt_length=11))
    assert plan.stats.overlong_prompts == 1 and plan.stats.empty_slots == 1
    assert plan.previews.count(None) == 1 and plan.messages[plan.previews.index(None)] == CHAT


def test_a_strategy_prompt_without_room_skips_the_stage():
    async def generate(ids, i, media):
        raise AssertionError("must not be asked")

    plan = run(make_stage(generate, context_length=21))
    assert plan.stats.skipped_prompts == 1 and plan.stats.candidates == 0
    assert plan.messages == [CHAT] * 3 and plan.candidates == [] and plan.subgroups == [0, 0, 0]
    assert plan.stats.sample is None


@pytest.mark.parametrize(("slots", "words"), [(1, "b"), (2, "bc"), (3, "bcd"), (5, "bcdea"), (6, "bcdea")])
def test_a_prompt_may_have_fewer_or_more_slots_than_k(slots, words):
    texts = [pair("a", "a"), pair("b", "c"), pair("d", "e")]
    plan = run(paired_stage(*texts), slots=slots)
    expected = {1: "b", 2: "bc", 3: "bcde"[:3], 5: "aabcd", 6: "aabcde"}[slots]
    assert plan.previews == [preview(w) for w in expected]
    assert (plan.stats.slots, plan.stats.empty_slots, plan.stats.overlong_prompts) == (slots, 0, 0)
    single = run(make_stage(scripted(*(preview(w) for w in "abcd"))), slots=slots)
    assert [p for p in single.previews if p] == [preview(w) for w in "abcd"[:slots]]
    assert single.stats.empty_slots == max(0, slots - 4) and len(single.messages) == slots


def test_the_half_of_a_pair_without_a_slot():
    plan = run(paired_stage(pair("a", "b"), pair("c", "d")), slots=3)
    assert plan.previews == [preview(w) for w in "abc"]
    assert [r.slots for r in plan.candidates] == [(0, 1), (2, None)]
    assert reasons(plan) == ["kept", "kept"]


def test_media_are_handed_on():
    seen, media = [], {"images": [object()]}

    async def generate(ids, i, media):
        seen.append(media)
        return Candidate(preview("a"), tokens=1)

    async def tokenize(messages, media):
        seen.append(media)
        return [0]

    the_stage = make_stage(generate)
    the_stage._tokenize = tokenize
    asyncio.run(the_stage.run(CHAT, 1, 0, media=media))
    assert len(seen) == 1 + 4 + 3 and all(m is media for m in seen)


ASKING = f"plan {{{{ problem }}}}\n{preview('the placeholder that is shown')}\nFor example:\n{preview('x y z')}\nGo."


def test_copies_of_the_prompts_own_blocks_are_unusable(caplog):
    stage._warn_once.forget()
    copies = [preview("the placeholder that is shown"), f"Sure!\n{preview('x z y')}\n- and more"]
    texts = [*copies, preview("a"), "none"]
    plan = run(make_stage(scripted(*texts), strategy_template=ASKING, context_length=500, prompt_length=500))
    assert plan.previews == [preview("a"), None, None]
    assert reasons(plan) == ["echo", "echo", "kept", "unusable"]
    assert [r.previews for r in plan.candidates] == [(), (), (preview("a"),), ()]
    assert (plan.stats.echoes, plan.stats.usable, plan.stats.duplicates) == (2, 1, 0)
    assert plan.stats.metrics()["strategy/echoed_previews"] == 2
    assert plan.stats.sample == copies[0]
    assert caplog.text.count("strategy/echoed_previews") == 1
    # The same texts are previews like any other where the prompt does not show them.
    assert run(make_stage(scripted(*texts))).stats.echoes == 0


@pytest.mark.parametrize("half", [0, 1])
def test_one_half_that_is_an_echo_makes_the_pair_unusable(half):
    words = ["a", "b"]
    words[half] = "x y z"
    asking = f"{ASKING} {{{{ marker }}}}"
    settings = {"paired_template": asking, "context_length": 500, "prompt_length": 500, "num_strategies": 2}
    plan = run(paired_stage(pair(*words), pair("c", "d"), **settings))
    assert reasons(plan) == ["echo", "kept"] and plan.stats.echoes == 1
    assert plan.previews == [preview("c"), preview("d")]


def test_a_sample_of_what_was_unusable():
    texts = ["", "<think>\nwell, " + "x" * 1000, "later", preview("a")]
    plan = run(make_stage(scripted(*texts)))
    assert plan.stats.sample == texts[1][:400]
    assert run(make_stage(scripted(*texts)), slots=1).stats.sample is None  # no slot is empty
    assert run(make_stage(scripted(None, None, None, None))).stats.sample is None  # nothing was said
    too_long = [preview("very long winded thing indeed")] * 3 + ["none"]
    assert run(make_stage(scripted(*too_long), prompt_length=11)).stats.sample is None  # for want of room
    total = StageStats()
    for sample in (None, "first", None, "second"):
        total.add(StageStats(prompts=1, sample=sample))
    assert total.sample == "first" and "first" not in total.metrics().values()
    assert all(isinstance(value, float) for value in total.metrics().values())


def test_cancellation_is_not_a_failed_candidate():
    async def generate(ids, i, media):
        await asyncio.sleep(60)

    async def cancelled():
        task = asyncio.create_task(make_stage(generate).run(CHAT, 1, 0))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_random_selection_depends_on_step_and_prompt_only():
    async def generate(ids, i, media):
        return Candidate(preview("abcd"[i]), tokens=1)

    the_stage = make_stage(generate, selection="random")
    assert run(the_stage, 3, 7).previews == run(the_stage, 3, 7).previews
    assert len({tuple(run(the_stage, step, 7).previews) for step in range(20)}) > 1


def test_metrics_of_merged_stats():
    total = StageStats(prompts=1, slots=4, candidates=8, usable=8, seconds_sum=1.0, seconds_max=1.0, strategy_tokens=10)
    total.add(StageStats(prompts=1, slots=4, empty_slots=2, candidates=8, usable=2, seconds_sum=3.0, seconds_max=3.0))
    total.add(StageStats(rollout_tokens=30, distance_sum=0.5, distance_prompts=1))
    metrics = total.metrics()
    assert metrics["strategy/usable_per_candidate"] == 10 / 16
    assert metrics["strategy/empty_slots"] == 2 / 8
    assert (metrics["strategy/seconds_mean"], metrics["strategy/seconds_max"]) == (2.0, 3.0)
    assert metrics["strategy/token_share"] == 0.25
    assert metrics["strategy/jaccard_distance"] == 0.5
    assert StageStats().metrics() == {}

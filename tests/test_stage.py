"""The strategy stage of one prompt, without a server: what generates is a coroutine of the test's."""

import asyncio

import pytest

from subgroup_offset.config import StrategyConfig, SubgroupConfig
from subgroup_offset.strategy import load_templates, stage
from subgroup_offset.strategy.stage import Candidate, StrategyStage
from subgroup_offset.strategy.stats import StageStats

CHAT = [{"role": "user", "content": "Q"}]


def preview(word: str) -> str:
    return f"[KEY CONDITIONS]\n- {word} given\n[KEY IDEA]\n- use {word}"


def make_stage(generate, prompt_length=100, context_length=200, **strategy):
    config = SubgroupConfig(strategy=StrategyConfig(num_strategies=3, num_candidates=4, max_tokens=20, **strategy))

    async def tokenize(messages):
        return list(range(len(messages[-1]["content"].split())))

    templates = load_templates(
        StrategyConfig(strategy_template="plan {{ problem }}", execution_template="{{ preview }} {{ problem }}")
    )
    return StrategyStage(config, templates, generate, tokenize, prompt_length, context_length)


def run(the_stage, step=1, index=0):
    return asyncio.run(the_stage.run(CHAT, step, index))


def test_slots_hold_distinct_previews():
    async def generate(ids, i):
        return Candidate(preview("abab"[i]), tokens=5)

    plan = run(make_stage(generate, selection="diverse"))
    assert plan.previews == [preview("a"), preview("b"), preview("a")]
    assert [m[0]["content"] for m in plan.messages] == [f"{p} Q" for p in plan.previews]
    stats = plan.stats
    assert (stats.candidates, stats.usable, stats.duplicates, stats.empty_slots) == (4, 4, 2, 0)
    assert stats.strategy_tokens == 20 and stats.seconds_sum > 0


def test_unusable_and_failed_candidates_leave_plain_slots(caplog):
    async def generate(ids, i):
        if i == 0:
            raise RuntimeError("server down")
        return Candidate(preview("a") if i == 1 else "no preview", tokens=3)

    stage._warned.clear()
    plan = run(make_stage(generate))
    assert plan.previews == [preview("a"), None, None]
    assert plan.messages[1] == plan.messages[2] == CHAT
    assert (plan.stats.failed_requests, plan.stats.usable, plan.stats.empty_slots) == (1, 1, 2)
    assert "server down" in caplog.text


def test_all_requests_failing_runs_the_prompt_plain():
    async def generate(ids, i):
        raise RuntimeError("down")

    plan = run(make_stage(generate))
    assert plan.previews == [None] * 3 and plan.messages == [CHAT] * 3
    assert plan.stats.failed_requests == 4


def test_a_conditioned_prompt_over_the_limit_falls_back():
    async def generate(ids, i):
        return Candidate(preview("a" if i else "very long winded thing indeed"), tokens=1)

    # "[KEY CONDITIONS] - a given [KEY IDEA] - use a Q" has 11 words, the long one has more.
    plan = run(make_stage(generate, prompt_length=11))
    assert plan.stats.overlong_prompts == 1 and plan.stats.empty_slots == 1
    assert plan.previews.count(None) == 1 and plan.messages[plan.previews.index(None)] == CHAT


def test_a_strategy_prompt_without_room_skips_the_stage():
    async def generate(ids, i):
        raise AssertionError("must not be asked")

    plan = run(make_stage(generate, context_length=21))
    assert plan.stats.skipped_prompts == 1 and plan.stats.candidates == 0
    assert plan.messages == [CHAT] * 3


def test_cancellation_is_not_a_failed_candidate():
    async def generate(ids, i):
        await asyncio.sleep(60)

    async def cancelled():
        task = asyncio.create_task(make_stage(generate).run(CHAT, 1, 0))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_random_selection_depends_on_step_and_prompt_only():
    async def generate(ids, i):
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

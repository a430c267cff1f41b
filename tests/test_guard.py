"""When a run stops rather than go on with nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.config import StrategyConfig
from subgroup_offset.rollout.guard import Cause, FailureGuard, PreviewGuard, PromptOutcomes
from subgroup_offset.strategy.stats import StageStats


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def otherwise(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def outcomes(kept: int = 0, lost: int = 0, error=raised) -> PromptOutcomes:
    made = PromptOutcomes(kept)
    for i in range(lost):
        made.lose(error(f"prompt {i}"))
    return made


def test_an_error_is_one_cause_whatever_its_text_says():
    assert Cause.of(raised("a")) == Cause.of(raised("b")) != Cause.of(otherwise("a"))


def test_the_cause_is_what_an_error_was_raised_from():
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError as error:
        assert Cause.of(error).kind == "ValueError"


def test_one_error_on_every_prompt_stops_the_run_with_it():
    guard = FailureGuard(limit=10)
    assert guard.look(outcomes(lost=9)) is None
    reason = guard.look(outcomes(lost=1))
    assert "last 10 prompts" in reason and "ValueError: prompt 0" in reason and __file__ in reason


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=12))
def test_only_prompts_in_a_row_count(looks):
    guard, row = FailureGuard(limit=10), 0
    for kept, lost in looks:
        row = 0 if kept else row + lost
        assert (guard.look(outcomes(kept, lost)) is not None) == (row >= 10)


def test_different_errors_are_bad_luck():
    guard = FailureGuard(limit=4)
    assert guard.look(outcomes(lost=3)) is None
    assert guard.look(outcomes(lost=3, error=otherwise)) is None


def test_outcomes_of_workers_add_up():
    total = PromptOutcomes()
    for part in (outcomes(2, 1), outcomes(0, 3), outcomes(1)):
        total.add(part)
    assert (total.kept, total.lost.total(), len(total.said)) == (3, 4, 1)


def stats(filled: int, slots: int = 8) -> StageStats:
    return StageStats(prompts=2, slots=slots, empty_slots=slots - filled, candidates=16, sample="<think> hmm")


def test_a_step_with_few_previews_warns_with_the_numbers_and_a_candidate():
    guard = PreviewGuard(StrategyConfig(min_preview_share=0.5))
    assert guard.look(stats(4)) == (None, None)
    warning, stop = guard.look(stats(3))
    assert "3 of 8 strategy slots" in warning and "16 candidates" in warning and "<think> hmm" in warning
    assert stop is None


@pytest.mark.parametrize("limit", [1, 3])
def test_enough_such_steps_in_a_row_stop_the_run(limit):
    guard = PreviewGuard(StrategyConfig(max_low_preview_steps=limit))
    for _ in range(limit - 1):
        assert guard.look(stats(1))[1] is None
    assert guard.look(stats(8)) == (None, None)
    for step in range(1, limit + 1):
        _, stop = guard.look(stats(1))
        assert (stop is not None) == (step == limit)
    assert "max_low_preview_steps=null" in stop and "1 of 8" in stop


def test_the_switch_keeps_it_going():
    guard = PreviewGuard(StrategyConfig(max_low_preview_steps=None))
    for _ in range(20):
        warning, stop = guard.look(stats(0))
        assert warning is not None and stop is None


def test_a_run_without_slots_or_without_a_share_is_never_warned():
    assert PreviewGuard(StrategyConfig()).look(StageStats()) == (None, None)
    assert PreviewGuard(StrategyConfig(min_preview_share=0.0)).look(stats(0)) == (None, None)

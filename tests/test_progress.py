"""Progress of long commands: a bar on a terminal, lines where there is none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from subgroup_offset.progress import LINE_SECONDS, Rate, shown
from subgroup_offset.toy.progress import progress_line


def printed_at(*times: float) -> list[str]:
    """The lines for news at these seconds, where there is no terminal."""
    console, now = Console(file=io.StringIO(), width=100), 0.0
    with shown("samples", console, clock=lambda: now) as show:
        for i, now in enumerate(times):
            show(i, len(times), f"at {now:g}")
    return console.file.getvalue().splitlines()


def test_the_rate_leaves_out_what_went_before_the_first():
    rate = Rate()
    rate.update(0.0, 10)
    rate.update(100.0, 10)
    assert not rate.begun and rate.text(110) == "..."
    rate.update(101.0, 20)
    assert rate.begun and rate.per_second is None
    rate.update(111.0, 60)
    assert rate.per_second == 4.0
    assert rate.text(110) == "4/s, 0:00:12 left"


def test_without_a_terminal_lines_come_now_and_then_and_the_last_news_at_the_end():
    every = LINE_SECONDS
    assert printed_at(0, 1, every - 1, every, every + 1, 2 * every + 1, 2 * every + 2) == [
        "samples 0/7, at 0",
        f"samples 3/7, at {every:g}",
        f"samples 5/7, at {2 * every + 1:g}",
        f"samples 6/7, at {2 * every + 2:g}",
    ]


def test_nothing_is_said_twice_or_without_news():
    assert printed_at(5) == ["samples 0/1, at 5"]
    assert printed_at() == []


def test_the_last_news_is_said_where_the_block_fails():
    console = Console(file=io.StringIO(), width=100)
    with pytest.raises(KeyboardInterrupt), shown("samples", console, clock=lambda: 0.0) as show:
        show(1, 3, "first")
        show(2, 3, "second")
        raise KeyboardInterrupt
    assert console.file.getvalue().splitlines() == ["samples 1/3, first", "samples 2/3, second"]


def test_a_terminal_shows_a_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown("samples", console) as show:
        show(1, 12, "a note")
        show(12, 12, "[b]done[/b]")
    text = console.file.getvalue()
    assert "12/12" in text and "done" in text


def test_the_warm_start_says_step_and_loss_where_there_is_no_terminal():
    console = Console(file=io.StringIO(), width=100)
    with progress_line(console) as callback:
        callback(1, 600, 6.125)
    assert console.file.getvalue() == "warm start: step 1/600, loss 6.125, ...\n"


def test_a_world_that_is_cached_has_no_progress():
    console = Console(file=io.StringIO(), width=100)
    with progress_line(console):
        pass
    assert console.file.getvalue() == ""

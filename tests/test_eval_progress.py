"""Rate and time left."""

from __future__ import annotations

import io

from rich.console import Console

from subgroup_offset.evaluation.progress import Rate, shown_progress


def test_the_rate_leaves_the_start_of_the_engines_out():
    rate = Rate(total=110)
    rate.update(0.0, 10)
    assert rate.per_second is None and "starting" in rate.text()
    rate.update(100.0, 10)
    assert "starting" in rate.text()
    rate.update(101.0, 20)
    assert rate.per_second is None
    rate.update(111.0, 60)
    assert rate.per_second == 4.0
    assert rate.text() == "4/s, 0:00:12 left"
    rate.update(124.0, 110)
    assert "all samples are there" in rate.text()


def test_a_terminal_shows_the_last_count():
    counts = iter([3, *[12] * 1000])
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown_progress(console, lambda: next(counts), total=12):
        pass
    assert "12/12" in console.file.getvalue()

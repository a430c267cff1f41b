"""What an evaluation says while samples come."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from subgroup_offset.evaluation.progress import note, shown_progress
from subgroup_offset.progress import Rate


def test_the_start_of_the_engines_and_the_end_are_said():
    rate = Rate()
    rate.update(0.0, 10)
    assert "starting" in note(rate, 10, 110)
    rate.update(101.0, 20)
    rate.update(111.0, 60)
    assert note(rate, 60, 110) == "4/s, 0:00:12 left"
    assert "all samples are there" in note(rate, 110, 110)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_last_count_is_shown(terminal):
    counts = iter([3, *[12] * 1000])
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown_progress(console, lambda: next(counts), total=12):
        pass
    text = console.file.getvalue()
    assert "12/12" in text
    if not terminal:
        first, last = text.splitlines()
        assert first.startswith("samples 3/12, starting") and last.startswith("samples 12/12, all samples")

"""Step scorers for tests, named by their dotted path."""

from __future__ import annotations

from collections.abc import Sequence

#: What the scorers were asked, in this process.
ASKED: list[tuple[str, list[str]]] = []


async def by_length(problem: str, steps: Sequence[str]) -> list[float]:
    """Longer steps are better."""
    ASKED.append((problem, list(steps)))
    return [len(step) / 10 for step in steps]


async def down(problem: str, steps: Sequence[str]) -> list[float]:
    """A server that cannot be reached."""
    ASKED.append((problem, list(steps)))
    raise ConnectionError("down")


async def one_too_few(problem: str, steps: Sequence[str]) -> list[float]:
    """Not one score for each step."""
    return [0.5] * (len(steps) - 1)


async def down_for_some(problem: str, steps: Sequence[str]) -> list[float]:
    """Fails for answers of one step."""
    if len(steps) == 1:
        raise ConnectionError("down")
    return await by_length(problem, steps)


NOT_CALLABLE = 3

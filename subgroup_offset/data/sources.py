"""The benchmarks of the paper (and GSM8K, small enough to try things on): where they are and what verl has to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from subgroup_offset.data.answers import aime_answer, expression, final_number
from subgroup_offset.data.errors import DataError
from subgroup_offset.nearest import nearest


@dataclass(frozen=True)
class Benchmark:
    """A data set: its published form and its form for verl.

    ``data_source`` is the one thing verl's ``default_compute_score`` looks at to choose a reward, and its validation
    reports metrics by it. Any name that begins with "aime" is scored by ``math_dapo``, as are "math_dapo", "math" and
    "math_dapo_reasoning"; every other name here would raise. So that each benchmark has metrics under a name of its
    own, those without such a name get the prefix ``aime_style_``: answered on a line "Answer: ...", as AIME's are.
    """

    name: str
    repository: str  #: data set on the Hugging Face hub
    config: str | None  #: its configuration, where it has several
    splits: tuple[str, ...]  #: the first is the default
    data_source: str
    answer: Callable[[Any], str]  #: from an answer's cell to the ground truth; raises ``BadCell``
    problems: int | None = None  #: how many the published set has, where that is known for certain

    def stem(self, split: str) -> str:
        """Name of a split's file, and of its problems that have none; without the split where there is only one."""
        return self.name if (split,) == self.splits else f"{self.name}-{split}"


_ALL = (
    Benchmark("dapo", "BytedTsinghua-SIA/DAPO-Math-17k", None, ("train",), "math_dapo", expression),
    Benchmark("aime24", "math-ai/aime24", None, ("test",), "aime24", aime_answer, 30),
    Benchmark("aime25", "math-ai/aime25", None, ("test",), "aime25", aime_answer, 30),
    Benchmark("aime26", "MathArena/aime_2026", None, ("train",), "aime26", aime_answer, 30),
    Benchmark("hmmt25", "MathArena/hmmt_feb_2025", None, ("train",), "aime_style_hmmt25", expression, 30),
    Benchmark("gsm8k", "openai/gsm8k", "main", ("train", "test"), "aime_style_gsm8k", final_number),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _ALL}


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, else :class:`DataError` with the nearest."""
    if name not in BENCHMARKS:
        meant = f" (nearest: {', '.join(near)})" if (near := nearest(name, BENCHMARKS)) else ""
        raise DataError(f"{name!r} is no known benchmark: use one of {', '.join(BENCHMARKS)}{meant}.")
    return BENCHMARKS[name]


def data_source_of(benchmark: Benchmark, instruction: str) -> str:
    """What verl chooses the reward by: the benchmark's own, or the one that reads answers in GSM8K's form.

    Raises:
        DataError: for an unknown instruction, or one whose reward is not for this benchmark.
    """
    if instruction == "dapo":
        return benchmark.data_source
    if instruction != "gsm8k":
        raise DataError(f"--instruction {instruction!r} is unknown: use one of dapo, gsm8k.")
    if benchmark.name != "gsm8k":
        raise DataError(f"--instruction gsm8k is for gsm8k alone: leave it out for {benchmark.name}.")
    return "openai/gsm8k"

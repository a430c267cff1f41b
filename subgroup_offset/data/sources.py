"""The benchmarks of the paper (and GSM8K, small enough to try things on): where they are and what verl has to know."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from subgroup_offset.data.answers import aime_answer, expression, final_number
from subgroup_offset.data.errors import DataError


@dataclass(frozen=True)
class Benchmark:
    """A data set: its published form and its form for verl.

    ``data_source`` is the one thing verl's ``default_compute_score`` looks at to choose a reward, and its validation
    reports metrics by it. Any name that begins with "aime" is scored by ``math_dapo``, as are "math_dapo", "math" and
    "math_dapo_reasoning"; every other name here would raise. So that each benchmark has metrics under a name of its
    own, those without such a name get the prefix ``aime_style_``: answered on a line "Answer: ...", as AIME's are.
    """

    name: str
    #: Data set repository on the Hugging Face hub, and its configuration where it has several.
    repository: str
    config: str | None
    #: The first is the default.
    splits: tuple[str, ...]
    data_source: str
    #: From an answer's cell to the ground truth; raises :class:`~subgroup_offset.data.errors.BadCell`.
    answer: Callable[[Any], str]
    #: How many problems the published set has, where that is known for certain.
    problems: int | None = None

    def stem(self, split: str) -> str:
        """Name of a split's file, and of its problems that have none; without the split where there is only one."""
        return self.name if (split,) == self.splits else f"{self.name}-{split}"


#: The instructions a problem can be wrapped in (``prompts.py``) and, if they need one, the ``data_source`` whose
#: reward reads answers given that way.
REWARD_OF_INSTRUCTION = {"dapo": None, "gsm8k": "openai/gsm8k"}

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
    """The benchmark of that name.

    Raises:
        DataError: for another name; the message has the nearest.
    """
    if name not in BENCHMARKS:
        nearest = difflib.get_close_matches(name, BENCHMARKS, n=1, cutoff=0.0)[0]
        raise DataError(f"{name!r} is no known benchmark: use one of {', '.join(BENCHMARKS)} (nearest: {nearest}).")
    return BENCHMARKS[name]


def data_source_of(benchmark: Benchmark, instruction: str) -> str:
    """What verl chooses the reward by.

    Raises:
        DataError: for an unknown instruction, or one whose reward is not for this benchmark.
    """
    if instruction not in REWARD_OF_INSTRUCTION:
        choices = ", ".join(REWARD_OF_INSTRUCTION)
        raise DataError(f"--instruction {instruction!r} is unknown: use one of {choices}.")
    reward = REWARD_OF_INSTRUCTION[instruction]
    if reward and benchmark.name != "gsm8k":
        raise DataError(
            f"--instruction {instruction} goes with verl's reward {reward}, which is for gsm8k alone: leave it out for "
            f"{benchmark.name}."
        )
    return reward or benchmark.data_source

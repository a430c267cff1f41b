"""Plans and samples for the tests of ``subgroup-offset eval``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from subgroup_offset.evaluation.generations import SampleWriter
from subgroup_offset.evaluation.plan import BenchmarkProblem, SampleKey, SamplingPlan


def problem(benchmark: str, id: str, reference: str = "56") -> BenchmarkProblem:
    return BenchmarkProblem(benchmark, id, "aime24", (("user", f"Which number is {id}?"),), reference)


def plan(replicas: int = 2, samples: int = 3, **benchmarks: int) -> SamplingPlan:
    """A plan with so many problems in each benchmark."""
    problems = [problem(name, f"{name}-{i}") for name, count in benchmarks.items() for i in range(count)]
    return SamplingPlan(tuple(problems), replicas, samples)


def row(key: SampleKey, response: str = "Answer: 56", reference: str = "56", **more: Any) -> dict[str, Any]:
    return {**key._asdict(), "response": response, "reference": reference, **more}


def write(directory: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write samples as one process of a run."""
    writer = SampleWriter(directory)
    for item in rows:
        writer.write(item)
    writer.sync()

"""What an evaluation is to sample, and what of it is still missing.

Paper, "Evaluation Details": each problem is replicated 32 times, and each replica sampled 16 times. A sample is the
unit that is finished or not: whatever way a run ends, the next one samples exactly what is not there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from subgroup_offset.files import write_text


class EvaluationError(ValueError):
    """An evaluation that cannot go on; the message says what is wrong and what to do."""


class SampleKey(NamedTuple):
    """Names one sample of an evaluation; replicas and samples are counted from 0."""

    benchmark: str
    problem: str
    replica: int
    sample: int


@dataclass(frozen=True)
class BenchmarkProblem:
    """A problem of a benchmark, as its parquet file has it."""

    benchmark: str
    id: str
    #: What verl chooses the training reward by.
    data_source: str
    #: The conversation to answer: (role, content) of each message.
    prompt: tuple[tuple[str, str], ...]
    reference: str

    @property
    def chat(self) -> list[dict[str, str]]:
        """The conversation as chat templates take it."""
        return [{"role": role, "content": content} for role, content in self.prompt]


@dataclass(frozen=True)
class SamplingPlan:
    """All samples of an evaluation: every problem x `replicas` x `samples`."""

    problems: tuple[BenchmarkProblem, ...]
    replicas: int
    samples: int

    @property
    def total(self) -> int:
        """The number of samples."""
        return len(self.problems) * self.replicas * self.samples

    def keys(self) -> Iterator[SampleKey]:
        """All samples, in the order in which they are made.

        All problems come once before any comes again, so that a run that is cut off has treated them alike.
        """
        for replica in range(self.replicas):
            for problem in self.problems:
                for sample in range(self.samples):
                    yield SampleKey(problem.benchmark, problem.id, replica, sample)

    def remaining(self, done: Collection[SampleKey]) -> list[SampleKey]:
        """What is missing, in the order of `keys`.

        Raises:
            EvaluationError: if one of `done` is not of this plan.
        """
        done = set(done)
        if strange := done - set(self.keys()):
            raise EvaluationError(
                f"{len(strange)} samples are not of this evaluation, {tuple(min(strange))} for one: they belong to "
                "another, whose files must not be in the same directory."
            )
        return [key for key in self.keys() if key not in done]


def write_requests(path: Path, problems: Sequence[BenchmarkProblem], keys: Sequence[SampleKey]) -> None:
    """Write what a run is to sample as one JSON file."""
    write_text(path, json.dumps({"problems": [asdict(problem) for problem in problems], "samples": keys}) + "\n")


def read_requests(path: Path) -> Iterator[tuple[SampleKey, BenchmarkProblem]]:
    """The samples of a file of :func:`write_requests`, each with its problem."""
    content = json.loads(path.read_text("utf-8"))
    rows = (row | {"prompt": tuple(map(tuple, row["prompt"]))} for row in content["problems"])
    problems = {(row["benchmark"], row["id"]): BenchmarkProblem(**row) for row in rows}
    for key in map(SampleKey._make, content["samples"]):
        yield key, problems[key.benchmark, key.problem]

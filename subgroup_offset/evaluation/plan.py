"""What an evaluation is to generate, and what of it is still missing.

Paper, "Evaluation Details": each problem is replicated 32 times, and each replica sampled 16 times. A sample is the
unit that is finished or not: whatever way a run ends, the next one generates exactly the samples that are not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class EvaluationError(ValueError):
    """An evaluation that cannot go on; the message says what is wrong and what to do."""


class SampleKey(NamedTuple):
    """Names one sample of an evaluation."""

    benchmark: str
    problem: str
    replica: int
    sample: int


@dataclass(frozen=True)
class Problem:
    """A problem of a benchmark, as its parquet file has it."""

    benchmark: str
    id: str
    #: What verl chooses the training reward by.
    data_source: str
    #: The conversation to answer: (role, content) of each message.
    prompt: tuple[tuple[str, str], ...]
    reference: str


@dataclass(frozen=True)
class Pending:
    """The samples of one replica that are missing."""

    problem: Problem
    replica: int
    samples: tuple[int, ...]


@dataclass(frozen=True)
class SamplingPlan:
    """All samples of an evaluation: every problem x `replicas` x `samples`, both counted from 0."""

    problems: tuple[Problem, ...]
    replicas: int
    samples: int

    def __post_init__(self) -> None:
        for option in ("replicas", "samples"):
            if (value := getattr(self, option)) < 1:
                raise EvaluationError(f"--{option} {value} is too small: set it to 1 or above.")
        seen = set()
        for problem in self.problems:
            if (name := (problem.benchmark, problem.id)) in seen:
                raise EvaluationError(f"benchmark {name[0]!r} has problem {name[1]!r} twice.")
            seen.add(name)

    @property
    def total(self) -> int:
        """The number of samples."""
        return len(self.problems) * self.replicas * self.samples

    def keys(self) -> Iterator[SampleKey]:
        """All samples, replica by replica."""
        for replica in range(self.replicas):
            for problem in self.problems:
                for sample in range(self.samples):
                    yield SampleKey(problem.benchmark, problem.id, replica, sample)

    def remaining(self, done: Collection[SampleKey]) -> list[Pending]:
        """What is missing, in the order in which it is generated.

        All problems come once before any comes again, so that a run that is cut off has treated them alike.

        Args:
            done: samples that are there.

        Raises:
            EvaluationError: if one of them is not of this plan.
        """
        done = set(done)
        strange = done - set(self.keys())
        if strange:
            first = min(strange)
            raise EvaluationError(
                f"{len(strange)} samples are not of this evaluation, {tuple(first)} for one: they belong to another, "
                "whose files must not be in the same directory."
            )
        pending = []
        for replica in range(self.replicas):
            for problem in self.problems:
                keys = (SampleKey(problem.benchmark, problem.id, replica, sample) for sample in range(self.samples))
                missing = tuple(key.sample for key in keys if key not in done)
                if missing:
                    pending.append(Pending(problem, replica, missing))
        return pending


def verl_rows(pending: Sequence[Pending]) -> list[dict[str, Any]]:
    """Rows of a validation file for verl, one for each replica with something missing.

    ``__rollout_n__`` is verl's own column for the number of samples of a row, in place of ``rollout.val_kwargs.n``;
    ``extra_info.samples`` says which samples they are, in the order of verl's sessions.
    """
    return [
        {
            "data_source": item.problem.data_source,
            "prompt": [{"role": role, "content": content} for role, content in item.problem.prompt],
            "reward_model": {"style": "rule", "ground_truth": item.problem.reference},
            "extra_info": {
                "index": index,
                "benchmark": item.problem.benchmark,
                "id": item.problem.id,
                "replica": item.replica,
                "samples": list(item.samples),
            },
            "__rollout_n__": len(item.samples),
        }
        for index, item in enumerate(pending)
    ]


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows of :func:`verl_rows` as a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows)), path)

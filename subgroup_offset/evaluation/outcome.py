"""Grade samples, count them, and compute the paper's metrics: ``graded.jsonl`` and ``results.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, reference_problem
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey
from subgroup_offset.evaluation.samples import OVERALL, ExpectedSamples, Replicas, complete_replicas
from subgroup_offset.evaluation.summary import pass_at_k_table, summary_table
from subgroup_offset.files import write_text

GRADED, RESULTS = "graded.jsonl", "results.json"
#: Columns of a generation that a graded row keeps, where they are known.
KEPT = ("prompt_tokens", "response_tokens", "truncated", "reward", "reward_correct")


@dataclass(frozen=True)
class EvaluationOutcome:
    """What an evaluation came to."""

    replicas: Replicas
    #: See :func:`~subgroup_offset.evaluation.summary.summary_table`.
    summary: pd.DataFrame
    pass_at_k: pd.DataFrame
    #: Benchmark -> numbers of samples, in all, ungraded, truncated and right by the training reward, the mean tokens of
    #: a response (None: not known of all samples), and the numbers by reason.
    counts: dict[str, dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Everything as plain JSON values; numbers that there are not are null."""
        metrics, curve = (
            json.loads(table.to_json(orient="records", double_precision=15)) for table in (self.summary, self.pass_at_k)
        )
        return {
            "samples_per_replica": self.replicas.samples,
            "metrics": metrics,
            "pass_at_k": curve,
            "counts": self.counts,
        }


def grade_samples(
    samples: Iterable[tuple[SampleKey, Mapping[str, Any]]],
    directory: Path,
    plan: ExpectedSamples,
    workers: int = 2,
    time_limit: float = 10.0,
    console: Console | None = None,
) -> EvaluationOutcome:
    """Grade all samples and write :data:`GRADED` and :data:`RESULTS` into a directory.

    Args:
        samples: of :func:`~subgroup_offset.evaluation.generations.read_generations`; they are gone through once, and
            of responses, which may be long, only the answers are kept.
        directory: there already.
        plan: what there should be; what is missing of it is counted.
        console: where a bar is shown; None: nowhere.

    Raises:
        EvaluationError: if there is no sample, or one with a reference that cannot be graded against.
        SamplesError: if there is more than the plan has, or no complete replica.
    """
    found = sorted(((key, *_answered(key, row)) for key, row in samples), key=lambda sample: sample[0])
    if not found:
        raise EvaluationError("There is no sample to grade.")
    with Grader(workers, time_limit) as grader:
        verdicts = grader.judge([(answer, rest["reference"]) for _, answer, rest in found], console)
    rows = [key._asdict() | asdict(v) | rest for (key, _, rest), v in zip(found, verdicts, strict=True)]
    write_text(directory / GRADED, "".join(json.dumps(row) + "\n" for row in rows))
    table = pd.DataFrame(rows)
    replicas = complete_replicas(table, plan)
    counts = {str(name): _count(part) for name, part in table.groupby("benchmark")} | {OVERALL: _count(table)}
    outcome = EvaluationOutcome(replicas, summary_table(replicas), pass_at_k_table(replicas), counts)
    write_text(directory / RESULTS, json.dumps(outcome.as_json(), indent=1) + "\n")
    return outcome


def _answered(key: SampleKey, row: Mapping[str, Any]) -> tuple[FoundAnswer | None, dict[str, Any]]:
    """The answer in a response, and the columns to keep."""
    reference = row["reference"]
    if (problem := reference_problem(reference)) is not None:
        raise EvaluationError(f"sample {tuple(key)}: reference={reference!r} {problem}")
    return find_answer(row["response"]), {name: row[name] for name in ("reference", *KEPT) if name in row}


def _count(table: pd.DataFrame) -> dict[str, Any]:
    reasons = table["reason"].value_counts()

    def total(column: str) -> float | None:
        """Only where every row says it: a count of some would pass for one of all."""
        return table[column].astype(float).sum() if column in table and table[column].notna().all() else None

    truncated, right, tokens = map(total, ("truncated", "reward_correct", "response_tokens"))
    return {
        "samples": len(table),
        "ungraded": int(table["reason"].isin(UNDECIDED).sum()),
        "truncated": None if truncated is None else int(truncated),
        "reward_correct": None if right is None else int(right),
        "mean_response_tokens": None if tokens is None else float(tokens / len(table)),
        "reasons": {reason: int(reasons[reason]) for reason in REASONS if reason in reasons},
    }

"""Grade samples, count them, and compute the paper's metrics: ``graded.jsonl`` and ``results.json``."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import Progress

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Verdict, reference_problem
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey
from subgroup_offset.evaluation.samples import OVERALL, Plan, Replicas, complete_replicas
from subgroup_offset.evaluation.summary import pass_at_k_table, summary_table

GRADED, RESULTS = "graded.jsonl", "results.json"
#: Columns of a generation that a graded row keeps, where they are known.
KEPT = ("prompt_tokens", "response_tokens", "truncated", "reward", "reward_correct")


@dataclass(frozen=True)
class Answered:
    """A sample without its response, which may be long."""

    key: SampleKey
    found: FoundAnswer | None
    reference: str
    kept: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
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
        return {
            "samples_per_replica": self.replicas.samples,
            "metrics": _records(self.summary),
            "pass_at_k": _records(self.pass_at_k),
            "counts": self.counts,
        }


def grade_samples(
    samples: Iterable[tuple[SampleKey, Mapping[str, Any]]],
    directory: Path,
    plan: Plan,
    *,
    workers: int = 2,
    time_limit: float = 10.0,
    console: Console | None = None,
) -> Outcome:
    """Grade all samples and write :data:`GRADED` and :data:`RESULTS` into a directory.

    Args:
        samples: of :func:`~subgroup_offset.evaluation.generations.read_generations`; they are gone through once.
        directory: there already.
        plan: what there should be; what is missing of it is counted.
        workers: processes for symbolic equality.
        time_limit: seconds a comparison may take.
        console: where a bar is shown; None: nowhere.

    Raises:
        EvaluationError: if there is no sample, or one with a reference that cannot be graded against.
        SamplesError: if there is more than the plan has, or no complete replica.
    """
    answered = sorted(_answered(samples), key=lambda sample: sample.key)
    if not answered:
        raise EvaluationError("There is no sample to grade.")
    with Grader(workers, time_limit) as grader, Progress(console=console, disable=console is None) as bar:
        task = bar.add_task("grading different answers", total=None)
        verdicts = grader.judge(
            [(sample.found, sample.reference) for sample in answered],
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    rows = [_graded(sample, verdict) for sample, verdict in zip(answered, verdicts, strict=True)]
    _write(directory / GRADED, "".join(json.dumps(row) + "\n" for row in rows))
    replicas = complete_replicas(pd.DataFrame(rows), plan)
    outcome = Outcome(replicas, summary_table(replicas), pass_at_k_table(replicas), _counts(rows))
    _write(directory / RESULTS, json.dumps(outcome.as_json(), indent=1) + "\n")
    return outcome


def _answered(samples: Iterable[tuple[SampleKey, Mapping[str, Any]]]) -> Iterator[Answered]:
    for key, row in samples:
        reference = row["reference"]
        if (problem := reference_problem(reference)) is not None:
            raise EvaluationError(f"sample {tuple(key)}: reference={reference!r} {problem}")
        kept = {name: row[name] for name in KEPT if name in row}
        yield Answered(key, find_answer(row["response"]), reference, kept)


def _graded(sample: Answered, verdict: Verdict) -> dict[str, Any]:
    return {**sample.key._asdict(), **asdict(verdict), "reference": sample.reference, **sample.kept}


def _counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of rows sorted by benchmark."""
    counts = {name: _count(list(group)) for name, group in groupby(rows, itemgetter("benchmark"))}
    return {**counts, OVERALL: _count(rows)}


def _count(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    reasons = Counter(row["reason"] for row in rows)
    tokens = [row["response_tokens"] for row in rows if row.get("response_tokens") is not None]
    return {
        "samples": len(rows),
        "ungraded": sum(reasons[reason] for reason in UNDECIDED),
        # Only where every row says it: a count of some would pass for one of all.
        "truncated": _sum_if_known(rows, "truncated"),
        "reward_correct": _sum_if_known(rows, "reward_correct"),
        "mean_response_tokens": sum(tokens) / len(tokens) if len(tokens) == len(rows) else None,
        "reasons": {reason: reasons[reason] for reason in REASONS if reasons[reason]},
    }


def _sum_if_known(rows: Sequence[Mapping[str, Any]], column: str) -> int | None:
    values = [row.get(column) for row in rows]
    return None if None in values else sum(map(bool, values))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return json.loads(table.to_json(orient="records", double_precision=15))


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(text, "utf-8")
    draft.replace(path)

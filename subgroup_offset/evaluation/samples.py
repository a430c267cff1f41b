"""The table of graded samples, and its complete replicas: what every number of an evaluation is computed from.

The paper's evaluation ("Evaluation Details") has four benchmarks of 30 problems; each problem is replicated 32 times,
and each replica holds 16 samples. The table is tidy, one row a sample, with the columns :data:`COLUMNS`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_float, is_integer

from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.rows import read_rows

logger = logging.getLogger(__name__)

COLUMNS = ("benchmark", "problem", "replica", "sample", "correct")
"""`benchmark` and `problem`: names; `replica` and `sample`: whole numbers; `correct`: true, false or missing."""

OVERALL = "overall"
"""Stands for the mean over benchmarks in the tables, so no benchmark may be called this."""

MISSING = ("missing_problems", "missing_replicas", "incomplete_replicas", "unused_samples")

_KEY = list(COLUMNS[:4])


class SamplesError(EvaluationError):
    """A table of samples that cannot be used; the message names the row, the value and the fix."""


@dataclass(frozen=True)
class ExpectedSamples:
    """What a finished evaluation holds; more than this in a table is an error, less is counted as missing."""

    #: Samples of a replica; None: as many as the largest replica of the table has.
    samples: int | None = None
    #: Replicas of a problem; None: as many as the problem with the most has, of the benchmark or, where it has not
    #: begun, of the table.
    replicas: int | None = None
    #: Problems of each benchmark; empty: those that are in the table.
    problems: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Replicas:
    """The complete replicas of an evaluation."""

    #: Index (benchmark, problem, replica), sorted; `right` and `ungraded`: numbers of samples.
    table: pd.DataFrame
    #: S, samples of each replica.
    samples: int
    #: Index benchmark; `problems`, `replicas`, `samples` and `ungraded` samples of `table`, and :data:`MISSING` in it.
    counts: pd.DataFrame

    @property
    def benchmarks(self) -> list[str]:
        """All benchmarks, those without a complete replica included."""
        return list(self.counts.index)

    def stack(self, benchmark: str, *, ungraded_right: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Right samples per replica as a matrix.

        Args:
            benchmark: one of `benchmarks`.
            ungraded_right: count samples without a verdict as right; otherwise they are wrong.

        Returns:
            `right` (P, R), P the problems in sorted order and R the largest number of replicas, 0 behind a problem's
            last; and `sizes` (P,), how many replicas each problem has.
        """
        rows = self.table[self.table.index.get_level_values(0) == benchmark]
        values = rows["right"] + rows["ungraded"] * ungraded_right
        by_problem = rows.groupby(level=1)
        sizes = by_problem.size().to_numpy()
        right = np.zeros((len(sizes), max(sizes, default=0)), dtype=np.int64)
        right[by_problem.ngroup(), by_problem.cumcount()] = values
        return right, sizes


def read_samples(path: Path) -> pd.DataFrame:
    """Read a table of graded samples from a `.jsonl` or `.parquet` file; columns beyond :data:`COLUMNS` are not read.

    Raises:
        EvaluationError: for another kind of file, a line that is no JSON object, or what `validate_samples` refuses.
    """
    if path.suffix not in (".parquet", ".jsonl"):
        raise SamplesError(f"{path}: a table of samples is a .jsonl or a .parquet file, not {path.suffix or 'this'}.")
    try:
        if path.suffix == ".parquet":
            return validate_samples(pd.read_parquet(path))
        # As objects, with line numbers as the index: pandas would guess numbers and dates from names.
        rows = {number: [row[name] for name in COLUMNS] for number, row in read_rows(path, COLUMNS)}
        return validate_samples(pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS), dtype=object))
    except SamplesError as error:
        raise SamplesError(f"{path}: {error}") from None


def validate_samples(frame: pd.DataFrame) -> pd.DataFrame:
    """Check a table of graded samples.

    Args:
        frame: columns :data:`COLUMNS` and any others, rows in any order. `correct` is boolean or 0/1; None or NaN
            stands for a sample without a verdict (grading timed out or failed).

    Returns:
        A new table with the columns :data:`COLUMNS` only, sorted by the first four: str, str, int64, int64, boolean.

    Raises:
        SamplesError: for no rows, a column or key that is missing, a value of another kind, or two rows with one key.
    """
    if absent := [name for name in COLUMNS if name not in frame.columns]:
        have = ", ".join(map(str, frame.columns)) or "none"
        raise SamplesError(f"column {absent[0]!r} is missing: it has {have}.")
    if frame.empty:
        raise SamplesError("the table has no rows: there is nothing to evaluate.")
    tidy = frame[list(COLUMNS)].astype(object)
    tidy = tidy.assign(correct=tidy["correct"].where(tidy["correct"].notna(), pd.NA))
    for name, (fits, problem) in _KINDS.items():
        bad = ~tidy[name].map(fits).astype(bool)
        if bad.any():
            row = bad.idxmax()
            raise SamplesError(f"row {row}: {name}={tidy.at[row, name]!r} {problem} ({int(bad.sum())} such rows).")
    tidy = tidy.astype({"benchmark": str, "problem": str, "replica": "int64", "sample": "int64", "correct": "boolean"})
    if (tidy["benchmark"] == OVERALL).any():
        raise SamplesError(f"benchmark {OVERALL!r} is what the mean over benchmarks is called: rename the benchmark.")
    twice = tidy.duplicated(_KEY)
    if twice.any():
        key = ", ".join(f"{name}={tidy.at[twice.idxmax(), name]}" for name in _KEY)
        raise SamplesError(f"{twice.sum()} rows repeat a sample, row {twice.idxmax()} ({key}) first: remove them.")
    return tidy.sort_values(_KEY, ignore_index=True)


def _is_name(value: object) -> bool:
    return is_integer(value) or (isinstance(value, str) and value != "")


def _is_number(value: object) -> bool:
    return is_integer(value) or (is_float(value) and float(value).is_integer())


def _is_verdict(value: object) -> bool:
    return value is pd.NA or value in (0, 1)


_KINDS = {
    **dict.fromkeys(COLUMNS[:2], (_is_name, "is no name: give text or a whole number")),
    **dict.fromkeys(COLUMNS[2:4], (_is_number, "is no whole number: number replicas and samples")),
    "correct": (_is_verdict, "is no verdict: give true, false, or null where grading gave none"),
}


def complete_replicas(samples: pd.DataFrame, plan: ExpectedSamples | None = None) -> Replicas:
    """Keep the complete replicas and count what is missing.

    A replica with fewer than S samples has no pass@S, so none of its samples is used; it is counted under
    `incomplete_replicas` (its samples under `unused_samples`), and with the replicas that have not begun under
    `missing_replicas`. A problem without a complete replica counts under `missing_problems`. While a run is in
    progress its numbers can be off: the replicas that are complete first tend to be those with short responses.

    Args:
        samples: of `validate_samples` or `read_samples`; any other table is validated first.
        plan: what a finished run holds. Without one, absent problems cannot be known, and absent replicas only from
            the problems that have more.

    Raises:
        SamplesError: where the table holds more than the plan, or no replica is complete.
    """
    samples, plan = validate_samples(samples), plan or ExpectedSamples()
    table = samples.groupby(_KEY[:3])["correct"].agg(samples="size", right="sum", graded="count").astype("int64")
    table["ungraded"] = table["samples"] - table.pop("graded")
    most = int(table["samples"].max())
    size = plan.samples or most
    if most > size:
        key = ", ".join(map(str, table["samples"].idxmax()))
        raise SamplesError(f"replica ({key}) has {most} samples, more than the {size} planned.")
    whole = table["samples"] == size
    if not whole.any():
        raise SamplesError(f"no replica has all {size} samples (the fullest has {most}): wait for one.")
    counts = _counts(table, whole, plan)
    total = counts.sum()
    if total["missing_replicas"]:
        logger.warning(
            "%d replicas are missing (%d of them begun, with %d samples), and %d problems have none: numbers are of "
            "the %d complete replicas.",
            *total[["missing_replicas", "incomplete_replicas", "unused_samples", "missing_problems", "replicas"]],
        )
    if total["ungraded"]:
        logger.warning("%d of %d samples have no verdict: counted as wrong.", total["ungraded"], total["samples"])
    return Replicas(table.loc[whole, ["right", "ungraded"]], size, counts)


def _counts(table: pd.DataFrame, whole: pd.Series, plan: ExpectedSamples) -> pd.DataFrame:
    """`Replicas.counts`, from all replicas that have begun and which of them are complete."""
    by_problem = pd.DataFrame(
        {
            "replicas": whole,
            "samples": table["samples"].where(whole, 0),
            "ungraded": table["ungraded"].where(whole, 0),
            "incomplete_replicas": ~whole,
            "unused_samples": table["samples"].mask(whole, 0),
        }
    ).groupby(level=[0, 1])
    problems = by_problem.sum().assign(begun=by_problem.size())
    names = pd.Index(sorted({*problems.index.unique(0), *plan.problems}), name="benchmark")
    counts = problems.assign(problems=problems["replicas"] > 0, known=1).groupby(level=0).sum()
    counts = counts.reindex(names, fill_value=0)
    most = problems["begun"].groupby(level=0).max().reindex(names, fill_value=problems["begun"].max())
    planned = pd.Series(dict(plan.problems) or counts["known"]).reindex(names, fill_value=0)
    replicas = pd.Series(plan.replicas or most, names)
    if (over := (counts["known"] > planned) | (most > replicas)).any():
        name = over.idxmax()
        raise SamplesError(
            f"benchmark {name!r} has {counts.at[name, 'known']} problems of up to {most[name]} replicas, more than the "
            f"{planned[name]} of {replicas[name]} planned."
        )
    counts["missing_problems"] = planned - counts["problems"]
    counts["missing_replicas"] = planned * replicas - counts["replicas"]
    return counts[["problems", "replicas", "samples", "ungraded", *MISSING]].astype("int64")

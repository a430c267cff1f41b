"""The table of graded samples, and its complete replicas: what every number of an evaluation is computed from.

The paper's evaluation ("Evaluation Details") has four benchmarks of 30 problems; each problem is replicated 32 times,
and each replica holds 16 samples. The table is tidy, one row a sample, with the columns :data:`COLUMNS`.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

logger = logging.getLogger(__name__)

COLUMNS = ("benchmark", "problem", "replica", "sample", "correct")
"""`benchmark` and `problem`: names; `replica` and `sample`: whole numbers; `correct`: true, false or missing."""

OVERALL = "overall"
"""Stands for the mean over benchmarks in the tables, so no benchmark may be called this."""

COUNTS = ("problems", "replicas", "samples", "ungraded")
MISSING = ("missing_problems", "missing_replicas", "incomplete_replicas", "unused_samples")

_KEY = list(COLUMNS[:4])
_REPLICA = _KEY[:3]


class SamplesError(ValueError):
    """A table of samples that cannot be used; the message names the row, the value and the fix."""


@dataclass(frozen=True)
class Plan:
    """What a finished evaluation holds; more than this in a table is an error, less is counted as missing."""

    #: Samples of a replica; None: as many as the largest replica of the table has.
    samples: int | None = None
    #: Replicas of a problem; None: as many as the problem with the most has, of the benchmark or, where it has not
    #: begun, of the table.
    replicas: int | None = None
    #: Problems of each benchmark; empty: those that are in the table.
    problems: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        planned = {"samples": self.samples, "replicas": self.replicas}
        planned |= {f"problems[{name!r}]": number for name, number in self.problems.items()}
        for name, number in planned.items():
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{name}={number!r} of the plan is not a whole number of 1 or more: set it to one.")


PAPER_PLAN = Plan(samples=16, replicas=32, problems=dict.fromkeys(("aime24", "aime25", "aime26", "hmmt25"), 30))
"""The paper's evaluation: 4 x 30 x 32 x 16 = 61,440 samples."""


@dataclass(frozen=True)
class Replicas:
    """The complete replicas of an evaluation."""

    #: Index (benchmark, problem, replica), sorted; `right` and `ungraded`: numbers of samples.
    table: pd.DataFrame
    #: S, samples of each replica.
    samples: int
    #: Index benchmark; columns :data:`COUNTS`, of what is in `table`, and :data:`MISSING`, of what is not.
    counts: pd.DataFrame

    @property
    def benchmarks(self) -> list[str]:
        """All benchmarks, those without a complete replica included."""
        return list(self.counts.index)

    def problems(self, benchmark: str) -> list[str]:
        """The problems with a complete replica, sorted."""
        return sorted(set(self.table.index[self.table.index.get_level_values(0) == benchmark].get_level_values(1)))

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
        problem, names = pd.factorize(rows.index.get_level_values(1))
        sizes = np.bincount(problem, minlength=len(names))
        right = np.zeros((len(names), max(sizes, default=0)), dtype=np.int64)
        right[problem, rows.groupby(level=1).cumcount()] = values
        return right, sizes


def read_samples(path: Path) -> pd.DataFrame:
    """Read a table of graded samples from a `.jsonl` or `.parquet` file; columns beyond :data:`COLUMNS` are not read.

    The last line of a `.jsonl` file that has no newline yet and is no JSON is still being written: it is left out with
    a warning.

    Raises:
        SamplesError: for another kind of file, a line that is no JSON object, or what `validate_samples` refuses.
    """
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    elif path.suffix == ".jsonl":
        frame = _read_jsonl(path)
    else:
        raise SamplesError(f"{path}: a table of samples is a .jsonl or a .parquet file, not {path.suffix or 'this'}.")
    try:
        return validate_samples(frame)
    except SamplesError as error:
        raise SamplesError(f"{path}: {error}") from None


def _read_jsonl(path: Path) -> pd.DataFrame:
    rows, lines = [], []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                if not line.endswith("\n"):
                    logger.warning(
                        "%s:%d has no end and is no JSON: taken as still being written, left out.", path, number
                    )
                    continue
                raise SamplesError(f"{path}:{number}: no JSON ({error.msg}): repair or remove the line.") from None
            if not isinstance(row, dict):
                raise SamplesError(f"{path}:{number}: {line.strip()[:60]!r} is no object with {', '.join(COLUMNS)}.")
            # `correct` without a value is a verdict that is missing; without the key, the line is of another kind.
            absent = [name for name in COLUMNS if name not in row]
            if absent:
                raise SamplesError(f"{path}:{number}: no {absent[0]!r}: every line needs {', '.join(COLUMNS)}.")
            rows.append([row[name] for name in COLUMNS])
            lines.append(number)
    return pd.DataFrame(rows, columns=list(COLUMNS), index=lines, dtype=object)


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
    for name in COLUMNS:
        if name not in frame.columns:
            near = difflib.get_close_matches(name, map(str, frame.columns), n=1)
            hint = (
                f"rename {near[0]!r}?" if near else f"the columns are {', '.join(map(str, frame.columns)) or 'none'}."
            )
            raise SamplesError(f"column {name!r} is missing: {hint}")
    if frame.empty:
        raise SamplesError("the table has no rows: there is nothing to evaluate.")
    tidy = pd.DataFrame(
        {
            "benchmark": _names(frame["benchmark"]),
            "problem": _names(frame["problem"]),
            "replica": _whole_numbers(frame["replica"]),
            "sample": _whole_numbers(frame["sample"]),
            "correct": _verdicts(frame["correct"]),
        }
    )
    if (tidy["benchmark"] == OVERALL).any():
        raise SamplesError(f"benchmark {OVERALL!r} is what the mean over benchmarks is called: rename the benchmark.")
    twice = tidy.duplicated(_KEY, keep="first")
    if twice.any():
        first = twice.idxmax()
        key = ", ".join(f"{name}={tidy.at[first, name]}" for name in _KEY)
        raise SamplesError(
            f"{int(twice.sum())} rows repeat a sample, row {first} ({key}) first: remove the repetitions."
        )
    return tidy.sort_values(_KEY, ignore_index=True)


def complete_replicas(samples: pd.DataFrame, plan: Plan | None = None) -> Replicas:
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
    samples, plan = validate_samples(samples), plan or Plan()
    grouped = samples.groupby(_REPLICA, sort=True)["correct"]
    table = pd.DataFrame(
        {"samples": grouped.size(), "right": grouped.sum(), "ungraded": grouped.size() - grouped.count()}
    )
    table = table.astype("int64")
    size = int(table["samples"].max()) if plan.samples is None else plan.samples
    if (table["samples"] > size).any():
        key = ", ".join(map(str, table["samples"].idxmax()))
        raise SamplesError(f"replica ({key}) has {table['samples'].max()} samples, more than the {size} planned.")
    complete = table[table["samples"] == size]
    if complete.empty:
        raise SamplesError(
            f"no replica has all {size} samples (the fullest has {table['samples'].max()}): wait for one."
        )
    names = sorted(set(table.index.get_level_values(0)) | set(plan.problems))
    counts = pd.DataFrame(
        [_counts(name, table, complete, plan) for name in names], index=pd.Index(names, name="benchmark")
    )
    _warn(counts)
    return Replicas(complete[["right", "ungraded"]], size, counts)


def _counts(name: str, table: pd.DataFrame, complete: pd.DataFrame, plan: Plan) -> dict[str, int]:
    if plan.problems and name not in plan.problems:
        raise SamplesError(f"benchmark {name!r} is not planned: the plan has {', '.join(map(repr, plan.problems))}.")
    begun = table[table.index.get_level_values(0) == name]
    whole = complete[complete.index.get_level_values(0) == name]
    per_problem = begun.groupby(level=1).size()
    problems = plan.problems.get(name, len(per_problem))
    replicas = plan.replicas or int((per_problem if len(per_problem) else table.groupby(level=[0, 1]).size()).max())
    if len(per_problem) > problems:
        raise SamplesError(f"benchmark {name!r} has {len(per_problem)} problems, more than the {problems} planned.")
    if len(per_problem) and per_problem.max() > replicas:
        which = f"problem {per_problem.idxmax()!r} of benchmark {name!r}"
        raise SamplesError(f"{which} has {per_problem.max()} replicas, more than the {replicas} planned.")
    solved = whole.index.get_level_values(1).nunique()
    incomplete = len(begun) - len(whole)
    here = (solved, len(whole), int(whole["samples"].sum()), int(whole["ungraded"].sum()))
    unused = int(begun["samples"].sum()) - here[2]
    absent = (problems - solved, problems * replicas - len(whole), incomplete, unused)
    return dict(zip((*COUNTS, *MISSING), (*here, *absent), strict=True))


def _warn(counts: pd.DataFrame) -> None:
    total = counts.sum()
    if total["missing_replicas"]:
        logger.warning(
            "%d replicas are missing (%d of them begun, with %d samples), and %d problems have none: numbers are of "
            "the %d complete replicas.",
            *(total[n] for n in ("missing_replicas", "incomplete_replicas", "unused_samples", "missing_problems")),
            total["replicas"],
        )
    if total["ungraded"]:
        logger.warning("%d of %d samples have no verdict: counted as wrong.", total["ungraded"], total["samples"])


def _names(column: pd.Series) -> pd.Series:
    fine = column.map(lambda v: isinstance(v, str | int | np.integer) and not isinstance(v, bool) and v != "")
    _refuse(column, fine, "is no name: give text or a whole number")
    return column.map(str)


def _whole_numbers(column: pd.Series) -> pd.Series:
    fine = column.map(lambda v: _is_number(v) and float(v).is_integer())
    _refuse(column, fine, "is no whole number: number replicas and samples")
    return column.astype("int64")


def _verdicts(column: pd.Series) -> pd.Series:
    missing = column.isna()
    fine = missing | column.map(lambda v: isinstance(v, bool | np.bool_) or (_is_number(v) and v in (0, 1)))
    _refuse(column, fine, "is no verdict: give true, false, or null where grading gave none")
    verdicts = pd.Series(pd.NA, index=column.index, dtype="boolean")
    verdicts[~missing] = column[~missing].astype(bool)
    return verdicts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _refuse(column: pd.Series, fine: pd.Series, why: str) -> None:
    bad = ~fine.astype(bool)
    if bad.any():
        row = bad.idxmax()
        raise SamplesError(f"row {row}: {column.name}={column[row]!r} {why} ({int(bad.sum())} such rows).")

"""The table of graded samples, and its complete replicas: what every number of an evaluation is computed from.

The paper's evaluation ("Evaluation Details") has four benchmarks of 30 problems; each problem is replicated 32 times,
and each replica holds 16 samples. The table is tidy, one row a sample, with the columns :data:`COLUMNS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from subgroup_offset.files import NoJSON, json_object, numbered_lines
from subgroup_offset.nearest import nearest

logger = logging.getLogger(__name__)

COLUMNS = ("benchmark", "problem", "replica", "sample", "correct")
"""`benchmark` and `problem`: names; `replica` and `sample`: whole numbers; `correct`: true, false or missing."""

OVERALL = "overall"
"""Stands for the mean over benchmarks in the tables, so no benchmark may be called this."""

COUNTS = ("problems", "replicas", "samples", "ungraded")
MISSING = ("missing_problems", "missing_replicas", "incomplete_replicas", "unused_samples")

_KEY = list(COLUMNS[:4])


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
    """As objects, with line numbers as the index: pandas would guess numbers and dates from names."""
    rows = {}
    for number, line in numbered_lines(path):
        try:
            row = json_object(line)
        except ValueError as error:
            if isinstance(error, NoJSON) and not line.endswith(b"\n"):
                logger.warning("%s:%d has no end and is no JSON: taken as still being written, left out.", path, number)
                continue
            raise SamplesError(f"{path}:{number}: {error}: repair or remove the line.") from None
        # `correct` without a value is a verdict that is missing; without the key, the line is of another kind.
        if absent := [name for name in COLUMNS if name not in row]:
            raise SamplesError(f"{path}:{number}: no {absent[0]!r}: every line needs {', '.join(COLUMNS)}.")
        rows[number] = [row[name] for name in COLUMNS]
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS), dtype=object)


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
            near = nearest(name, map(str, frame.columns))
            have = ", ".join(map(str, frame.columns)) or "none"
            raise SamplesError(
                f"column {name!r} is missing: " + (f"rename {near[0]!r}?" if near else f"it has {have}.")
            )
    if frame.empty:
        raise SamplesError("the table has no rows: there is nothing to evaluate.")
    for name in ("benchmark", "problem"):
        _refuse(frame[name], _is_name, "is no name: give text or a whole number")
    for name in ("replica", "sample"):
        _refuse(frame[name], _is_whole, "is no whole number: number replicas and samples")
    _refuse(frame["correct"], _is_verdict, "is no verdict: give true, false, or null where grading gave none")
    kinds = {"replica": "int64", "sample": "int64", "correct": "boolean"}
    correct = frame["correct"].astype(object).where(frame["correct"].notna(), pd.NA)
    tidy = frame[list(COLUMNS)].assign(correct=correct).astype(kinds)
    tidy = tidy.assign(benchmark=tidy["benchmark"].map(str), problem=tidy["problem"].map(str))
    if (tidy["benchmark"] == OVERALL).any():
        raise SamplesError(f"benchmark {OVERALL!r} is what the mean over benchmarks is called: rename the benchmark.")
    twice = tidy.duplicated(_KEY)
    if twice.any():
        key = ", ".join(f"{name}={tidy.at[twice.idxmax(), name]}" for name in _KEY)
        raise SamplesError(f"{twice.sum()} rows repeat a sample, row {twice.idxmax()} ({key}) first: remove them.")
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
    grouped = samples.groupby(_KEY[:3], sort=True)["correct"]
    table = pd.DataFrame(
        {"samples": grouped.size(), "right": grouped.sum(), "ungraded": grouped.size() - grouped.count()}
    ).astype("int64")
    most = int(table["samples"].max())
    size = most if plan.samples is None else plan.samples
    if most > size:
        key = ", ".join(map(str, table["samples"].idxmax()))
        raise SamplesError(f"replica ({key}) has {most} samples, more than the {size} planned.")
    complete = table[table["samples"] == size]
    if complete.empty:
        raise SamplesError(f"no replica has all {size} samples (the fullest has {most}): wait for one.")
    counts = _counts(table, complete, plan)
    total = counts.sum()
    if total["missing_replicas"]:
        logger.warning(
            "%d replicas are missing (%d of them begun, with %d samples), and %d problems have none: numbers are of "
            "the %d complete replicas.",
            *total[["missing_replicas", "incomplete_replicas", "unused_samples", "missing_problems", "replicas"]],
        )
    if total["ungraded"]:
        logger.warning("%d of %d samples have no verdict: counted as wrong.", total["ungraded"], total["samples"])
    return Replicas(complete[["right", "ungraded"]], size, counts)


def _counts(table: pd.DataFrame, complete: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """`Replicas.counts`, from all replicas that have begun and the complete ones."""
    per_problem = table.groupby(level=[0, 1]).size()
    begun = per_problem.groupby(level=0).agg(["size", "max"])
    names = pd.Index(sorted({*begun.index, *plan.problems}), name="benchmark")
    for name, (problems, replicas) in begun.iterrows():
        if plan.problems and name not in plan.problems:
            known = ", ".join(map(repr, plan.problems))
            raise SamplesError(f"benchmark {name!r} is not planned: the plan has {known}.")
        if plan.problems and problems > plan.problems[name]:
            raise SamplesError(
                f"benchmark {name!r} has {problems} problems, more than the {plan.problems[name]} planned."
            )
        if plan.replicas and replicas > plan.replicas:
            which = f"problem {per_problem[name].idxmax()!r} of benchmark {name!r}"
            raise SamplesError(f"{which} has {replicas} replicas, more than the {plan.replicas} planned.")
    wanted = pd.DataFrame({"problems": begun["size"] if not plan.problems else pd.Series(plan.problems)}, index=names)
    wanted["replicas"] = plan.replicas or begun["max"].reindex(names, fill_value=begun["max"].max())
    whole = complete.groupby(level=0)
    counts = pd.DataFrame(
        {
            "problems": complete.groupby(level=[0, 1]).size().groupby(level=0).size(),
            "replicas": whole.size(),
            "samples": whole["samples"].sum(),
            "ungraded": whole["ungraded"].sum(),
        }
    ).reindex(names, fill_value=0)
    all_of_them = table.groupby(level=0)["samples"].agg(["size", "sum"]).reindex(names, fill_value=0)
    counts["missing_problems"] = wanted["problems"] - counts["problems"]
    counts["missing_replicas"] = wanted["problems"] * wanted["replicas"] - counts["replicas"]
    counts["incomplete_replicas"] = all_of_them["size"] - counts["replicas"]
    counts["unused_samples"] = all_of_them["sum"] - counts["samples"]
    return counts.astype("int64")


def _refuse(column: pd.Series, fine: Callable[[object], bool], why: str) -> None:
    bad = ~column.map(fine).astype(bool)
    if bad.any():
        row = bad.idxmax()
        raise SamplesError(f"row {row}: {column.name}={column[row]!r} {why} ({int(bad.sum())} such rows).")


def _is_name(value: object) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool) and value != ""


def _is_whole(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and float(value).is_integer()


def _is_verdict(value: object) -> bool:
    return value is None or value is pd.NA or isinstance(value, bool | np.bool_) or _is_bit(value)


def _is_bit(value: object) -> bool:
    return isinstance(value, int | float | np.number) and (value in (0, 1) or value != value)

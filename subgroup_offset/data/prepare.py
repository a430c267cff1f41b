"""From a benchmark's name to its file: what ``subgroup-offset data`` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from subgroup_offset.data.build import Collected, Conflict, collect
from subgroup_offset.data.columns import Columns, choose_columns
from subgroup_offset.data.errors import SHOWN, DataError, RowErrors, listed
from subgroup_offset.data.files import Row
from subgroup_offset.data.locate import Source, locate
from subgroup_offset.data.scoring import check_scores
from subgroup_offset.data.sources import Benchmark, data_source_of, get_benchmark
from subgroup_offset.data.write import verl_rows, write_parquet

_CONFLICT_WIDTH = 60


@dataclass(frozen=True)
class Report:
    """What was read and written."""

    path: Path
    sha256: str  #: of the content, see :func:`~subgroup_offset.data.write.content_sha256`
    rows: int
    problems: int
    replicas: int
    data_source: str
    source: str
    split: str
    columns: Columns
    collected: Collected
    expected: int | None

    def lines(self) -> list[str]:
        """For the terminal; the last is the checksum."""
        read, conflicts = self.collected, len(self.collected.conflicts)
        names = f"{self.columns.problem}, {self.columns.answer}"
        lines = [
            f"source      {self.source}, split {self.split}, columns {names}",
            f"rows read   {read.rows}",
            f"duplicates  {read.duplicates} rows removed",
            f"conflicts   {_problems(conflicts)} left out (rows disagree about the answer)",
            *_conflict_lines(read.conflicts),
        ]
        if read.rewritten and read.rewritten_example:
            where, before, after = read.rewritten_example
            lines.append(f"answers     {read.rewritten} written in plain form, first {where}: {before} -> {after!r}")
        if read.reworded:
            lines.append(f"prompts     {read.reworded} had other instructions, which were replaced")
        if read.ids_repeat:
            lines.append("ids         of the source name more than one problem each: numbered instead")
        if self.expected not in (None, self.problems):
            lines.append(f"WARNING     {self.problems} problems, where the published set has {self.expected}")
        lines.append(
            f"written     {self.problems} problems x {self.replicas} = {self.rows} rows, data_source {self.data_source}"
        )
        return [*lines, f"sha256 {self.sha256}  {self.rows} rows  {self.path}"]


def prepare(
    name: str,
    *,
    source: str | None = None,
    split: str | None = None,
    config: str | None = None,
    problem_column: str | None = None,
    answer_column: str | None = None,
    instruction: str = "dapo",
    replicas: int = 1,
    limit: int | None = None,
    strict: bool = False,
    output: Path = Path("data"),
    token: str | None = None,
    progress: Console | None = None,
) -> Report:
    """Write the parquet file of a benchmark for verl.

    Args:
        name: of :data:`~subgroup_offset.data.sources.BENCHMARKS`.
        source, split, config, token: see :func:`~subgroup_offset.data.locate.locate`.
        problem_column, answer_column: see :func:`~subgroup_offset.data.columns.choose_columns`.
        instruction: ``dapo``, or for GSM8K also ``gsm8k``.
        replicas: how often each problem is repeated (the paper, "Sampling and metrics": 32).
        limit: at most this many problems, the first ones.
        strict: rows that give different answers to one problem are an error.
        output: a directory, or a path that ends in ``.parquet``.
        progress: where a bar is shown; None: nowhere.

    Raises:
        DataError: with a message for the user; nothing was written then.
    """
    benchmark = get_benchmark(name)
    data_source = data_source_of(benchmark, instruction)
    for option, value in (("replicas", replicas), ("limit", limit)):
        if value is not None and value < 1:
            raise DataError(f"--{option} {value} is too small: set it to 1 or above.")
    found = locate(benchmark, source, split, config, token)
    columns = [choose_columns(f.label, f.columns(), problem_column, answer_column) for f in found.files]
    errors = RowErrors()
    counts = [file.count() for file in found.files]
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=progress, disable=progress is None) as bar:
        rows = bar.track(_rows(found, columns), None if None in counts else sum(counts), description=f"Reading {name}")
        collected = collect(rows, benchmark, found.split, instruction, errors)
    errors.raise_if_any()
    if strict and collected.conflicts:
        head = f"{_problems(len(collected.conflicts))} whose rows disagree about the answer (--strict):"
        raise DataError("\n".join([head, *_conflict_lines(collected.conflicts)]))
    problems = collected.problems[:limit]
    if not problems:
        raise DataError(f"{found.name} holds no problem to write ({collected.rows} rows).")
    check_scores(problems, data_source, errors)
    errors.raise_if_any()
    rows = verl_rows(problems, data_source, name, found.split, replicas)
    path = output if output.suffix == ".parquet" else output / f"{benchmark.stem(found.split)}.parquet"
    return Report(
        path=path,
        sha256=write_parquet(rows, path),
        rows=len(rows),
        problems=len(problems),
        replicas=replicas,
        data_source=data_source,
        source=found.name,
        split=found.split,
        columns=columns[0],
        collected=collected,
        expected=_expected(benchmark, limit),
    )


def _problems(count: int) -> str:
    return f"{count} problem{'' if count == 1 else 's'}"


def _expected(benchmark: Benchmark, limit: int | None) -> int | None:
    if benchmark.problems is None:
        return None
    return min(benchmark.problems, limit or benchmark.problems)


def _conflict_lines(conflicts: list[Conflict]) -> list[str]:
    lines = []
    for conflict in conflicts[:SHOWN]:
        given = ", ".join(f"{answer!r} ({where})" for answer, where in conflict.answers.items())
        text = conflict.problem
        lines.append(f"  {text if len(text) <= _CONFLICT_WIDTH else text[: _CONFLICT_WIDTH - 3] + '...'}: {given}")
    return listed(lines, len(conflicts))


def _rows(found: Source, columns: list[Columns]) -> Iterator[tuple[Row, Columns]]:
    for file, chosen in zip(found.files, columns, strict=True):
        for row in file.rows(chosen.roots):
            yield row, chosen

"""From a benchmark's name to its file: what ``subgroup-offset data`` does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from subgroup_offset.data.build import Collected, check_scores, collect, verl_rows
from subgroup_offset.data.errors import DataError, listed, raise_if_any
from subgroup_offset.data.locate import locate
from subgroup_offset.data.read import read_rows
from subgroup_offset.data.sources import data_source_of, get_benchmark
from subgroup_offset.files import whole_file
from subgroup_offset.text import shortened


class Report(NamedTuple):
    """What was read and written."""

    path: Path
    sha256: str  #: of the content, see :func:`content_sha256`
    rows: int
    problems: int
    data_source: str
    lines: tuple[str, ...]  #: for the terminal; the last is the checksum


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

    The arguments are the command's options, see ``command``; ``progress`` is where a bar is shown.

    Raises:
        DataError: with a message for the user; nothing was written then.
    """
    benchmark = get_benchmark(name)
    data_source = data_source_of(benchmark, instruction)
    found = locate(benchmark, source, split, config, token)
    errors: list[str] = []
    rows = read_rows(found.files, problem_column, answer_column, errors)
    shown = track(rows, f"Reading {name}", console=progress, disable=progress is None)
    read = collect(shown, benchmark, found.split, instruction, errors)
    raise_if_any(errors)
    if strict and read.conflicts:
        raise DataError(_conflicts(read, "whose rows disagree about the answer (--strict):"))
    problems = read.problems[:limit]
    if not problems:
        raise DataError(f"{found.name} holds no problem to write ({read.rows} rows).")
    check_scores(problems, data_source, errors)
    raise_if_any(errors)
    path = output if output.suffix == ".parquet" else output / f"{benchmark.stem(found.split)}.parquet"
    count = len(problems) * replicas
    sha256 = write_parquet(verl_rows(problems, data_source, name, found.split, replicas), path)
    expected = benchmark.problems and min(benchmark.problems, limit or benchmark.problems)
    columns = f", columns {read.columns.problem}, {read.columns.answer}" if read.columns else ""
    lines = [
        f"source      {found.name}, split {found.split}{columns}",
        f"rows read   {read.rows}",
        f"duplicates  {read.duplicates} rows removed",
        *_conflicts(read, "left out (rows disagree about the answer)", "conflicts   ").splitlines(),
        *read.notes,
    ]
    if expected not in (None, len(problems)):
        lines.append(f"WARNING     {len(problems)} problems, where the published set has {expected}")
    lines.append(f"written     {len(problems)} problems x {replicas} = {count} rows, data_source {data_source}")
    lines.append(f"sha256 {sha256}  {count} rows  {path}")
    return Report(path, sha256, count, len(problems), data_source, tuple(lines))


def write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> str:
    """Write a file whole or not at all, and return the checksum of what a reader finds in it.

    Raises:
        DataError: if the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with whole_file(path) as draft:
            pq.write_table(pa.Table.from_pylist(list(rows)), draft)
            return content_sha256(pq.read_table(draft).to_pylist())
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}. Choose another --output.") from error


def content_sha256(rows: Sequence[dict[str, Any]]) -> str:
    """SHA-256 of the rows as JSON lines (UTF-8, sorted keys, no spaces): the same whatever wrote the parquet file."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def _conflicts(read: Collected, what: str, before: str = "") -> str:
    lines = []
    for problem, answers in read.conflicts.items():
        given = ", ".join(f"{answer!r} ({where})" for answer, where in answers.items())
        lines.append(f"{shortened(problem, 60)}: {given}")
    return listed(f"{before}{len(lines)} problem{'s' * (len(lines) != 1)} {what}", lines)

"""Samples on disk: written one at a time as they finish, read again by whoever goes on or grades.

A file is a JSON object a line, with the columns :data:`COLUMNS` and what else was known. Each process that writes has a
file of its own, which it only ever appends to: a stop, in whatever way, costs at most the line that was being written.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from subgroup_offset.evaluation.plan import EvaluationError, SampleKey
from subgroup_offset.evaluation.rows import read_rows
from subgroup_offset.files import json_line

logger = logging.getLogger(__name__)

COLUMNS = ("benchmark", "problem", "replica", "sample", "response", "reference")
"""What each line has: which sample it is (see :class:`~subgroup_offset.evaluation.plan.SampleKey`), the whole text that
the model answered, and the reference answer. Our own runs add ``prompt_tokens``, ``response_tokens``, ``truncated``
(whether the response was cut off at its length limit), ``reward`` (the training reward) and ``reward_correct`` (its
verdict, or null)."""


class SampleWriter:
    """Appends samples to a file of this process alone, which is made with the first of them.

    Args:
        directory: made where it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}.jsonl"
        self._file: int | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one sample; if that fails (a full disk), the file ends as it did before."""
        line = json_line(row)
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        before = os.fstat(self._file).st_size
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError:
            os.ftruncate(self._file, before)
            raise

    def sync(self) -> None:
        """Have everything on the disk itself, where it outlives the machine."""
        if self._file is not None:
            os.fsync(self._file)


def read_generations(directory: Path) -> Iterator[tuple[SampleKey, dict[str, Any]]]:
    """All samples in the ``.jsonl`` files of a directory (none where there is none), or of one file, with their rows.

    An unfinished last line is what a stop leaves: it is left out. Of a sample that two files have (a writer was cut off
    from its run and finished after the next had begun) the first counts. Warnings say so.

    Raises:
        EvaluationError: for a line that is no sample, or repeats one of its file, with its place.
    """
    files = [directory] if directory.is_file() else sorted(directory.glob("*.jsonl"))
    seen: dict[SampleKey, Path] = {}
    repeated = 0
    for path in files:
        for number, row in read_rows(path, COLUMNS):
            key = _key(row, f"{path}, line {number}")
            if seen.get(key) == path:
                raise EvaluationError(f"{path}, line {number}: repeats a sample of this file, {tuple(key)}.")
            if key in seen:
                repeated += 1
                continue
            seen[key] = path
            yield key, row
    if repeated:
        logger.warning("%s: %d samples are there more than once; the first counts.", directory, repeated)


def _key(row: Mapping[str, Any], where: str) -> SampleKey:
    for column in ("benchmark", "problem", "response", "reference"):
        if not isinstance(row[column], str):
            raise EvaluationError(f"{where}: {column}={row[column]!r} is no text.")
    for column in ("replica", "sample"):
        if type(row[column]) is not int or row[column] < 0:
            raise EvaluationError(f"{where}: {column}={row[column]!r} is no number: count from 0.")
    return SampleKey(*(row[column] for column in SampleKey._fields))

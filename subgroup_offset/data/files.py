"""Rows of parquet, JSON lines, JSON and CSV files, one at a time, each with its place."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from subgroup_offset.data.errors import BadCell, DataError

SUFFIXES = (".parquet", ".jsonl", ".json", ".csv")
_BATCH = 4096


class Row(NamedTuple):
    """A row of a file. With an ``error`` the row could not be read, and ``cells`` is what there is of it."""

    file: str
    number: int  #: from 1; of JSON lines the line
    cells: Mapping[str, Any]
    error: BadCell | None = None

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.file}, row {self.number}"


@dataclass(frozen=True)
class SourceFile:
    """A file to read and the name that messages call it by."""

    path: Path
    label: str

    def columns(self) -> list[str]:
        """The top-level columns; of JSON those of the first row.

        Raises:
            DataError: for a file that cannot be read, holds no rows, or is of an unknown kind.
        """
        if self.suffix == ".parquet":
            return list(self._parquet().schema_arrow.names)
        first = next(self.rows(), None)
        if first is None:
            raise DataError(f"{self.label} holds no rows.")
        if first.error:
            raise DataError(f"{first.where}: the first row {first.error.what}. {first.error.fix}")
        return list(first.cells)

    def count(self) -> int | None:
        """How many rows there are, where that is known without reading them."""
        return self._parquet().metadata.num_rows if self.suffix == ".parquet" else None

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """All rows in order; of parquet files only ``columns`` are read, if given.

        Raises:
            DataError: for a file that cannot be read; single bad rows come with an ``error``.
        """
        readers = {".jsonl": self._jsonl_rows, ".json": self._json_rows, ".csv": self._csv_rows}
        if self.suffix == ".parquet":
            yield from self._parquet_rows(columns)
        else:
            yield from readers[self.suffix]()

    @property
    def suffix(self) -> str:
        """The kind of file, by its name's end."""
        suffix = Path(self.label).suffix.lower()
        if suffix not in SUFFIXES:
            raise DataError(f"{self.label} is of no kind that can be read: give one of {', '.join(SUFFIXES)}.")
        return suffix

    def _parquet(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _parquet_rows(self, columns: Sequence[str] | None) -> Iterator[Row]:
        import pyarrow as pa

        number = 0
        try:
            for batch in self._parquet().iter_batches(_BATCH, columns=None if columns is None else list(columns)):
                for cells in batch.to_pylist():
                    number += 1
                    yield Row(self.label, number, cells)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _jsonl_rows(self) -> Iterator[Row]:
        try:
            with self.path.open("rb") as file:  # as bytes: a text file also breaks lines where JSON does not
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield self._json_row(number, line)
        except OSError as error:
            raise self._unreadable(error) from error

    def _json_rows(self) -> Iterator[Row]:
        """An array of objects; some files of this name hold lines."""
        try:
            data = self.path.read_bytes().removeprefix(codecs.BOM_UTF8)
        except OSError as error:
            raise self._unreadable(error) from error
        if not data.lstrip().startswith(b"["):
            yield from self._jsonl_rows()
            return
        try:
            objects = json.loads(data)
        except ValueError as error:
            raise self._unreadable(error) from error
        for number, cells in enumerate(objects, start=1):
            yield self._object(number, cells)

    def _json_row(self, number: int, line: bytes) -> Row:
        try:
            return self._object(number, json.loads(line.decode("utf-8-sig")))
        except ValueError as error:
            return Row(self.label, number, {"line": line}, BadCell(f"is no JSON ({error})", "Correct or remove it."))

    def _object(self, number: int, cells: Any) -> Row:
        if isinstance(cells, dict):
            return Row(self.label, number, cells)
        return Row(self.label, number, {"row": cells}, BadCell("is no JSON object", "Give one object a row."))

    def _csv_rows(self) -> Iterator[Row]:
        """All cells as text. Short rows lack their last cells."""
        csv.field_size_limit(2**31 - 1)
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                for number, cells in enumerate(csv.DictReader(file, strict=True), start=1):
                    extra = cells.pop(None, None)
                    if extra is None:
                        yield Row(self.label, number, cells)
                    else:
                        more = BadCell("are more cells than the header has", "Quote commas inside cells.")
                        yield Row(self.label, number, {"row": extra}, more)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(f"{self.label} cannot be read as {self.suffix[1:]}: {error}")

"""Rows in verl's form, into a parquet file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.data.build import Problem
from subgroup_offset.data.errors import DataError

ABILITY = "math"


def verl_rows(
    problems: Sequence[Problem], data_source: str, benchmark: str, split: str, replicas: int = 1
) -> list[dict[str, Any]]:
    """The rows of a file.

    All problems come once before any comes again, so that the first ``len(problems) * r`` rows (verl's
    ``data.val_max_samples``) are r whole replicas. ``extra_info.index`` counts rows, ``id`` names the problem.

    Args:
        problems: in the order they are written in.
        data_source: what verl chooses the reward by, and names validation metrics after.
        benchmark, split: for ``extra_info``.
        replicas: how often each problem is repeated (the paper's evaluation: 32).
    """
    rows = [(replica, problem) for replica in range(replicas) for problem in problems]
    return [
        {
            "data_source": data_source,
            "prompt": [{"role": "user", "content": problem.prompt}],
            "ability": ABILITY,
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {
                "index": index,
                "benchmark": benchmark,
                "split": split,
                "id": problem.id,
                "replica": replica,
            },
        }
        for index, (replica, problem) in enumerate(rows)
    ]


def write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> str:
    """Write a file by way of a temporary one, and return the checksum of what a reader finds in it.

    Raises:
        DataError: if the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema()), draft)
            checksum = content_sha256(pq.read_table(draft).to_pylist())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}. Choose another --output.") from error
    return checksum


def content_sha256(rows: Sequence[dict[str, Any]]) -> str:
    """SHA-256 of the rows as JSON lines (UTF-8, sorted keys, no spaces): the same whatever wrote the parquet file."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def _schema() -> Any:
    """One schema for all benchmarks: verl concatenates the files it is given, which have to agree."""
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    extra = {"index": number, "benchmark": text, "split": text, "id": text, "replica": number}
    return pa.schema(
        {
            "data_source": text,
            "prompt": pa.list_(pa.struct({"role": text, "content": text})),
            "ability": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct(extra),
        }
    )

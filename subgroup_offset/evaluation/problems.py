"""Read benchmarks from the parquet files that ``subgroup-offset data`` writes."""

from __future__ import annotations

import difflib
import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgroup_offset.data.sources import BENCHMARKS as SOURCES
from subgroup_offset.evaluation.grading import reference_problem
from subgroup_offset.evaluation.plan import BenchmarkProblem, EvaluationError

#: The paper's four (Table 1).
BENCHMARKS = ("aime24", "aime25", "aime26", "hmmt25")
#: Files of the toy world, which is beside its model.
TOY = ("toy-train", "toy-val")


def read_problems(data_dir: Path, benchmarks: Sequence[str] = BENCHMARKS) -> list[BenchmarkProblem]:
    """The problems of all benchmarks, each once, however often its file repeats it.

    Args:
        data_dir: of ``<benchmark>.parquet``.
        benchmarks: names, without a repeat.

    Raises:
        EvaluationError: for a file that is not there or is no such file, naming the command that writes it (if one
            does), and for a problem that cannot be graded.
    """
    repeated = sorted({name for name in benchmarks if benchmarks.count(name) > 1})
    if repeated:
        raise EvaluationError(f"--benchmark {repeated[0]} is given twice: name each benchmark once.")
    missing = [name for name in benchmarks if not (data_dir / f"{name}.parquet").is_file()]
    if missing:
        fixes = "\n".join(f"  {how_to_write(name, data_dir)}" for name in missing)
        raise EvaluationError(
            f"{data_dir / missing[0]}.parquet is not there ({len(missing)} of {len(benchmarks)} benchmarks). "
            f"Write the files, or give another --data-dir:\n{fixes}"
        )
    return [problem for name in benchmarks for problem in _read(data_dir / f"{name}.parquet", name)]


def content_hashes(problems: Iterable[BenchmarkProblem]) -> dict[str, str]:
    """For each benchmark, a SHA-256 of what is asked and what is right."""
    digests: dict[str, Any] = {}
    for problem in problems:
        digest = digests.setdefault(problem.benchmark, hashlib.sha256())
        digest.update(json.dumps([problem.id, problem.prompt, problem.reference]).encode() + b"\n")
    return {name: digest.hexdigest() for name, digest in digests.items()}


def how_to_write(name: str, data_dir: Path) -> str:
    """The command that writes ``<name>.parquet``, or why there is none, in one line."""
    stems = {source.stem(split): (source.name, split) for source in SOURCES.values() for split in source.splits}
    if name in stems:
        benchmark, split = stems[name]
        option = f" --split {split}" if name != benchmark else ""
        return f"subgroup-offset data {benchmark}{option} --output {shlex.quote(str(data_dir))}"
    if name in TOY:
        return f'{name} is of the toy world, which this makes: --data-dir "$(python -m subgroup_offset.toy)"'
    closest = difflib.get_close_matches(name, [*stems, *TOY], n=1, cutoff=0.0)[0]
    return f"{name} is no known benchmark (nearest: {closest}): correct --benchmark, or write such a file yourself."


def _read(path: Path, name: str) -> list[BenchmarkProblem]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    problems: dict[str, BenchmarkProblem] = {}
    where = "it cannot be read"
    try:
        for number, row in enumerate(pq.read_table(path).to_pylist()):
            where = f"row {number}"
            problem = _problem(row, name)
            if problems.setdefault(problem.id, problem) != problem:
                raise ValueError(f"two different problems are called {problem.id!r}")
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise EvaluationError(
            f"{path} is no file of `subgroup-offset data`: {where}, {error}. Write it anew:\n"
            f"  {how_to_write(name, path.parent)}"
        ) from None
    return list(problems.values())


def _problem(row: Mapping[str, Any], name: str) -> BenchmarkProblem:
    """The problem of a row; raises what its parts raise."""
    extra, reference = row["extra_info"], row["reward_model"]["ground_truth"]
    if name not in (extra["benchmark"], f"{extra['benchmark']}-{extra['split']}"):
        raise ValueError(f"extra_info.benchmark={extra['benchmark']!r} is not {name!r}")
    if (wrong := reference_problem(reference)) is not None:
        raise ValueError(f"cannot be graded: the answer {reference!r} of {extra['id']!r} {wrong}")
    prompt = tuple((str(message["role"]), str(message["content"])) for message in row["prompt"])
    return BenchmarkProblem(name, extra["id"], row["data_source"], prompt, reference)

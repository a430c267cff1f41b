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
from subgroup_offset.evaluation.plan import EvaluationError, Problem

#: The paper's four (Table 1).
BENCHMARKS = ("aime24", "aime25", "aime26", "hmmt25")
#: Files of the toy world, which is beside its model.
TOY = ("toy-train", "toy-val")


def read_problems(data_dir: Path, benchmarks: Sequence[str] = BENCHMARKS) -> list[Problem]:
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


def content_hashes(problems: Iterable[Problem]) -> dict[str, str]:
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
    nearest = difflib.get_close_matches(name, [*stems, *TOY], n=1, cutoff=0.0)[0]
    return f"{name} is no known benchmark (nearest: {nearest}): correct --benchmark, or write such a file yourself."


def _read(path: Path, name: str) -> list[Problem]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def refuse(what: str) -> EvaluationError:
        return EvaluationError(f"{path} {what}. Write it anew:\n  {how_to_write(name, path.parent)}")

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise refuse(f"cannot be read ({error})") from None
    if not rows:
        raise refuse("has no rows")
    problems: dict[str, Problem] = {}
    for number, row in enumerate(rows):
        try:
            problem = _problem(row, name)
        except (KeyError, TypeError, ValueError) as error:
            raise refuse(f"is no file of `subgroup-offset data`: row {number}, {error}") from None
        known = problems.setdefault(problem.id, problem)
        if known != problem:
            raise refuse(f"has two different problems called {problem.id!r}, the second in row {number}")
    for problem in problems.values():
        if (wrong := reference_problem(problem.reference)) is not None:
            raise refuse(f"cannot be graded: the answer {problem.reference!r} of {problem.id!r} {wrong}")
    return list(problems.values())


def _problem(row: Mapping[str, Any], name: str) -> Problem:
    extra = row["extra_info"]
    if name not in (extra["benchmark"], f"{extra['benchmark']}-{extra['split']}"):
        raise ValueError(f"extra_info.benchmark={extra['benchmark']!r} is not {name!r}")
    texts = {"extra_info.id": extra["id"], "data_source": row["data_source"]}
    texts["reward_model.ground_truth"] = row["reward_model"]["ground_truth"]
    for column, text in texts.items():
        if not isinstance(text, str) or not text:
            raise ValueError(f"{column}={text!r} is no text")
    prompt = tuple((str(message["role"]), str(message["content"])) for message in row["prompt"])
    if not prompt:
        raise ValueError("prompt has no message")
    return Problem(name, extra["id"], row["data_source"], prompt, row["reward_model"]["ground_truth"])

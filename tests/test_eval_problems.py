"""Benchmarks as ``subgroup-offset data`` writes them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from subgroup_offset.cli import app
from subgroup_offset.data.prepare import prepare
from subgroup_offset.data.sources import BENCHMARKS as SOURCES
from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.problems import BENCHMARKS, content_hashes, how_to_write, read_problems


def write_benchmark(directory: Path, name: str, replicas: int = 1, answers: tuple[str, ...] = ("56", "7")) -> Path:
    source = directory / f"{name}-source.jsonl"
    rows = [{"problem": f"Which number is {answer}?", "answer": answer} for answer in answers]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return prepare(name, source=str(source), replicas=replicas, output=directory).path


def test_the_four_benchmarks(tmp_path):
    for name in BENCHMARKS:
        write_benchmark(tmp_path, name)
    problems = read_problems(tmp_path)
    assert [p.benchmark for p in problems] == [name for name in BENCHMARKS for _ in range(2)]
    assert {p.data_source for p in problems} == {"aime24", "aime25", "aime26", "aime_style_hmmt25"}
    assert all(p.prompt[0][0] == "user" and "Answer: $Answer" in p.prompt[0][1] for p in problems)
    assert sorted(content_hashes(problems)) == sorted(BENCHMARKS)


def test_a_file_with_replicas_has_the_same_problems(tmp_path):
    for replicas, directory in ((1, tmp_path / "one"), (3, tmp_path / "three")):
        directory.mkdir()
        write_benchmark(directory, "aime24", replicas)
    one, three = (read_problems(tmp_path / name, ["aime24"]) for name in ("one", "three"))
    assert one == three and len(one) == 2
    assert content_hashes(one) == content_hashes(three)


def test_another_answer_is_another_benchmark(tmp_path):
    hashes = []
    for answer in ("7", "8"):
        write_benchmark(tmp_path, "aime24", answers=("56", answer))
        hashes.append(content_hashes(read_problems(tmp_path, ["aime24"])))
    assert hashes[0] != hashes[1]


def test_missing_files_say_the_commands(tmp_path):
    write_benchmark(tmp_path, "aime24")
    with pytest.raises(EvaluationError) as error:
        read_problems(tmp_path, ["aime24", "aime25", "gsm8k-test"])
    text = str(error.value)
    assert f"{tmp_path}/aime25.parquet is not there (2 of 3 benchmarks)" in text
    assert f"subgroup-offset data aime25 --output {tmp_path}" in text and "data aime24" not in text
    assert f"subgroup-offset data gsm8k --split test --output {tmp_path}" in text


def test_each_file_of_the_data_command_is_written_by_the_command_that_is_named(tmp_path):
    """Said by the parser of the command line, and by what `data` would write: see test_suggestions for the others."""
    command = get_command(app).commands["data"]
    directory = tmp_path / "a directory"
    for source in SOURCES.values():
        for split in source.splits:
            program, verb, *arguments = shlex.split(how_to_write(source.stem(split), directory))
            given = command.make_context(verb, arguments).params
            assert (program, verb, given["output"]) == ("subgroup-offset", "data", directory)
            named = SOURCES[given["name"]]
            assert named.stem(given["split"] or named.splits[0]) == source.stem(split)


def test_files_that_no_data_command_writes(tmp_path):
    with pytest.raises(EvaluationError, match=r'--data-dir "\$\(python -m subgroup_offset\.toy\)"'):
        read_problems(tmp_path, ["toy-val"])
    with pytest.raises(EvaluationError, match=r"aime27 is no known benchmark \(nearest: aime2\d\)") as error:
        read_problems(tmp_path, ["aime27"])
    assert "subgroup-offset data" not in str(error.value)


def test_a_benchmark_given_twice(tmp_path):
    with pytest.raises(EvaluationError, match="--benchmark aime24 is given twice"):
        read_problems(tmp_path, ["aime24", "aime25", "aime24"])


def test_files_of_another_kind(tmp_path):
    path = write_benchmark(tmp_path, "aime24")
    rows = pq.read_table(path).to_pylist()

    def refused(changed, message):
        pq.write_table(pa.Table.from_pylist(changed), path)
        with pytest.raises(EvaluationError, match=message) as error:
            read_problems(tmp_path, ["aime24"])
        assert f"subgroup-offset data aime24 --output {tmp_path}" in str(error.value)

    refused([{"question": "?"}], "row 0, 'extra_info'")
    refused([row | {"extra_info": row["extra_info"] | {"benchmark": "aime25"}} for row in rows], "is not 'aime24'")
    refused(
        [row | {"extra_info": row["extra_info"] | {"id": "same"}} for row in rows], "row 1, two different .* 'same'"
    )
    refused([rows[0] | {"reward_model": {"ground_truth": "", "style": "rule"}}], "cannot be graded.*is empty")
    refused([rows[0] | {"reward_model": {"ground_truth": " ", "style": "rule"}}], "cannot be graded.*is empty")
    path.write_bytes(b"nothing")
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_problems(tmp_path, ["aime24"])

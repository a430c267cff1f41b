"""Samples on disk: whole or not there, and each once, in whatever way their writer ends."""

from __future__ import annotations

import errno
import json
import logging
import os
import tempfile
from pathlib import Path

import pytest
from eval_samples import plan, row, write
from hypothesis import given, settings
from hypothesis import strategies as st

from subgroup_offset.evaluation.generations import SampleWriter, read_generations
from subgroup_offset.evaluation.plan import EvaluationError, SampleKey

KEY = SampleKey("a", "a-0", 0, 0)


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())), min_size=1, max_size=5))
def test_any_text_comes_back(texts):
    keys = [KEY._replace(sample=i) for i in range(len(texts))]
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), [row(key, text) for key, text in zip(keys, texts, strict=True)])
        found = dict(read_generations(Path(directory)))
    assert list(found) == keys
    assert [found[key]["response"] for key in keys] == texts


@settings(max_examples=50)
@given(st.data())
def test_any_interruptions(data):
    """Every start writes some of what remains, in any order, and is cut off at any byte of what it wrote."""
    whole = plan(replicas=2, samples=2, a=2, b=1)
    with tempfile.TemporaryDirectory() as directory:
        samples = Path(directory)
        for _ in range(data.draw(st.integers(0, 4), label="interruptions")):
            before = dict(read_generations(samples))
            remaining = data.draw(st.permutations(sorted(set(whole.keys()) - set(before))))
            known = set(samples.iterdir())
            write(samples, [row(key, f"start {len(known)}") for key in remaining])
            if written := set(samples.iterdir()) - known:
                (file,) = written
                os.truncate(file, data.draw(st.integers(0, file.stat().st_size), label="cut"))
            after = dict(read_generations(samples))
            assert before.items() <= after.items()
        left = whole.remaining(dict(read_generations(samples)))
        write(samples, [row(key) for key in left])
        found = [key for key, _ in read_generations(samples)]
    assert len(found) == whole.total and set(found) == set(whole.keys())


def test_unfinished_and_repeated_samples_are_counted(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "subgroup_offset")
    (tmp_path / "a.jsonl").write_text(json.dumps(row(KEY, "first")) + '\n{"benchmark": "a"')
    (tmp_path / "b.jsonl").write_text(json.dumps(row(KEY, "second")) + "\n")
    ((key, found),) = read_generations(tmp_path)
    assert key == KEY and found["response"] == "first"
    assert "a.jsonl, line 2 is unfinished" in caplog.text and "1 samples are there more than once" in caplog.text


def test_a_last_line_without_a_newline_counts_if_it_is_whole(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(row(KEY)))
    assert [key for key, _ in read_generations(path)] == [KEY]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{", "{}"], r"f.jsonl, line 1: no JSON .*: remove or mend the line"),
        (["[1]"], "line 1: no JSON object, but list"),
        ([json.dumps({k: v for k, v in row(KEY).items() if k != "replica"})], "line 1: no 'replica': every line needs"),
        ([json.dumps(row(KEY) | {"sample": -1})], "sample=-1 is no number"),
        ([json.dumps(row(KEY) | {"sample": True})], "sample=True is no number"),
        ([json.dumps(row(KEY) | {"response": None})], "response=None is no text"),
        ([json.dumps(row(KEY))] * 2, r"line 2: repeats a sample of this file, \('a', 'a-0', 0, 0\)"),
    ],
)
def test_lines_that_are_no_samples(tmp_path, lines, message):
    (tmp_path / "f.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(EvaluationError, match=message):
        list(read_generations(tmp_path))


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    writer = SampleWriter(tmp_path)
    writer.write(row(KEY))
    real = os.write

    def full(file: int, line: bytes) -> int:
        if len(line) > 10:
            return real(file, line[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        writer.write(row(KEY._replace(sample=1)))
    monkeypatch.setattr(os, "write", real)
    writer.write(row(KEY._replace(sample=2)))
    assert [key.sample for key, _ in read_generations(tmp_path)] == [0, 2]

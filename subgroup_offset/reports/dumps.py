"""verl's rollout dumps (``trainer.rollout_data_dir``): one JSONL file a step, one row a rollout, read as a stream.

A step of the paper's size (8192 rollouts of up to 20,480 tokens) is hundreds of megabytes, so that only rows of wanted
prompts are decoded, and only as many files are read as a number of bytes allows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DumpRow:
    """One rollout of a dump. verl's key is ``{prompt}_{session}_{output}``."""

    prompt: str
    session: int
    #: Number of the row among those of its session; above 0 in sessions of several outputs.
    output: int
    input: str
    text: str
    score: float | None


@dataclass
class DumpProblems:
    """Lines of a dump that could not be used, counted."""

    half_written: int = 0
    unreadable: int = 0
    without_uid: int = 0

    def text(self) -> str:
        """In words; empty if there was none."""
        parts = {
            "a half-written last line": self.half_written,
            f"{self.unreadable} lines that are no rollout": self.unreadable,
            f"{self.without_uid} rows without a uid, which says whose rollout it is": self.without_uid,
        }
        return ", ".join(what for what, count in parts.items() if count)


def read_dump(path: Path, wanted: Collection[str] | None, problems: DumpProblems) -> Iterator[DumpRow]:
    """The rows of one step.

    Args:
        path: the file.
        wanted: prompts whose rows to read; None for all. Padding rows are never among them.
        problems: lines that cannot be used are counted here.
    """
    marks = None if wanted is None else [prompt.encode("utf-8", "surrogatepass") for prompt in wanted]
    with path.open("rb") as file:
        for line in file:
            if not line.strip() or (marks is not None and not any(mark in line for mark in marks)):
                continue
            row = _row(line, problems)
            if row is not None and not row.prompt.startswith("pad") and (wanted is None or row.prompt in wanted):
                yield row


def within_bytes(files: Mapping[int, Path], limit: int) -> set[int]:
    """Steps whose files may be read: all, or evenly spread ones with the last among them, up to ``limit`` bytes."""
    sizes = {step: path.stat().st_size for step, path in files.items()}
    backwards, stride = sorted(sizes, reverse=True), 1
    while stride < 2 * len(backwards):
        chosen = backwards[::stride]
        if sum(sizes[step] for step in chosen) <= limit:
            return set(chosen)
        stride *= 2
    return set()


def _row(line: bytes, problems: DumpProblems) -> DumpRow | None:
    try:
        row = json.loads(line)
        text, given, score = str(row["output"]), str(row["input"]), row["score"]
    except (ValueError, KeyError, TypeError):
        if line.endswith(b"\n"):
            problems.unreadable += 1
        else:
            problems.half_written += 1
        return None
    parts = str(row.get("uid", "")).rsplit("_", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():
        problems.without_uid += 1
        return None
    value = float(score) if isinstance(score, int | float) else None
    return DumpRow(parts[0], int(parts[1]), int(parts[2]), given, text, value)

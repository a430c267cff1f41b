"""README.md and docs/*.md as tests read them: fenced blocks, prose, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
_FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is written in, the file that it is to be (or none), its text."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(*match.groups(default="")) for match in _FENCE.finditer(PAGES[page].read_text("utf-8"))]


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", PAGES[page].read_text("utf-8"))


def tables(page: str) -> Iterator[list[str]]:
    """The cells of every table row that is no ruler."""
    for line in prose(page).splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]

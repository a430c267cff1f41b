"""A report as Markdown (GitHub's dialect), with its figures as PNG files next to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from subgroup_offset.reports.grid import (
    NOTHING,
    Block,
    Browser,
    Cell,
    Document,
    Figure,
    Folded,
    Listing,
    Papers,
    Prose,
    Row,
    Table,
)
from subgroup_offset.reports.inspect import PLAIN_PROMPT
from subgroup_offset.strategy.preview import IDEA

_ARROWS = {"": "", "up": " ↑", "down": " ↓"}
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
# What makes something else of a paragraph that begins with it.
_OPENING = re.compile(r"^(\d*)([#>+=.)-])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def to_markdown(document: Document, picture: Callable[[Figure], str]) -> str:
    """The whole report.

    Args:
        document: what to write.
        picture: gives the name of a figure's file.
    """
    lines = [f"# {escaped(document.title)}", "", paragraph(document.summary)]
    for chapter in document.chapters:
        lines += ["", f"## {escaped(chapter.title)}"]
        for block in chapter.blocks:
            lines += ["", *_block(block, document, picture)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def paragraph(text: str) -> str:
    """Text as a paragraph of its own, which is neither a list nor a heading whatever it begins with."""
    return _OPENING.sub(r"\1\\\2", escaped(text))


def _block(block: Block, document: Document, picture: Callable[[Figure], str]) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Figure):
        yield f"![{escaped(block.caption)}]({picture(block)})"
        yield from ("", paragraph(block.caption))
    elif isinstance(block, Prose):
        yield paragraph(block.text)
    elif isinstance(block, Listing):
        yield from (f"- {paragraph(item)}" for item in block.items)
    elif isinstance(block, Papers | Folded):
        yield f"### {escaped(block.title)}"
        for inner in block.blocks:
            yield ""
            yield from _block(inner, document, picture)
    elif isinstance(block, Browser):
        yield from _prompts(document.browser or {"runs": []})


def _table(table: Table) -> Iterator[str]:
    """One row of headings is all that Markdown has: a benchmark's name is put before its metrics."""
    yield f"**{escaped(table.caption)}**"
    yield ""
    yield _line([escaped(text) for text in _headings(table)])
    yield _line(["---", *(["---" if table.text else "---:"] * (table.width - 1))])
    for row in table.rows:
        yield _line([_cell(cell, row) for cell in row.cells] + [""] * (table.width - len(row.cells)))
    if table.notes:
        yield ""
        yield " ".join(f"*{escaped(note)}*" for note in table.notes)


def _headings(table: Table) -> list[str]:
    above = [head.text for head in table.heads[0] for _ in range(head.span)] if len(table.heads) > 1 else []
    last = [head.text for head in table.heads[-1]]
    if not above:
        return last
    return [f"{top}: {text}" if top else text for top, text in zip(above, last, strict=True)]


def _cell(cell: Cell, row: Row) -> str:
    text = escaped(cell.text)
    if row.kind == "heading" or cell.emphasis == "best":
        text = f"**{text}**"
    elif cell.emphasis == "second":
        text = f"<ins>{text}</ins>"
    if row.kind == "reference":
        text = f"*{text}*"
    return f"{text}{_ARROWS[cell.arrow]}{f' {escaped(cell.small)}' if cell.small else ''}"


def _line(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"


def _prompts(browser: dict[str, Any]) -> Iterator[str]:
    """The most informative prompt of each run's last step that has some, as Table 6."""
    yield "Of each run's last recorded step the prompt whose subgroups differ most; the HTML report has all others."
    for run in browser["runs"]:
        steps = [step for step in run["steps"] if step["prompts"]]
        if not steps:
            continue
        prompt = steps[-1]["prompts"][0]
        span = NOTHING if prompt["span"] is None else f"{prompt['span']:.2f}"
        head, left, tail = prompt["problem"]
        problem = head if not left else f"{head} … {left:,} characters left out … {tail}"
        yield ""
        name = escaped(f"{run['label']} ({run['name']}), step {steps[-1]['step']}, span {span}:")
        yield f"**{name}** {escaped(problem)}"
        yield ""
        yield _line(["Slot", "Key idea of the preview", "Successes", "Mean reward"])
        yield _line(["---", "---", "---:", "---:"])
        for slot in sorted(prompt["slots"], key=lambda s: -(s["successes"] or 0) / max(s["rollouts"], 1)):
            won = NOTHING if slot["successes"] is None else slot["successes"]
            reward = NOTHING if slot["reward"] is None else f"{slot['reward']:.2f}"
            yield _line([str(slot["slot"]), _idea(slot["preview"]), f"{won}/{slot['rollouts']}", reward])


def _idea(preview: str | None) -> str:
    if preview is None:
        return PLAIN_PROMPT
    _, header, idea = preview.partition(IDEA)
    lines = (idea if header else preview).strip().splitlines()
    return "<br>".join(escaped(line) for line in lines)

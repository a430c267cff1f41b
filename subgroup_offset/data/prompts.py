"""A problem in the words that tell a model how to answer, and a problem out of them."""

from __future__ import annotations

from typing import Any

from subgroup_offset.data.answers import require_utf8
from subgroup_offset.data.errors import BadCell
from subgroup_offset.strategy.instructions import PREFIXES, SUFFIXES, split_instructions

_DAPO_PREFIX, _DAPO_SUFFIX, _GSM8K_SUFFIX = PREFIXES[0], SUFFIXES[0], SUFFIXES[1]


def wrap(problem: str, instruction: str) -> str:
    """The prompt of a problem.

    Args:
        problem: without instructions; white space at its ends is dropped.
        instruction: ``dapo``: as DAPO-Math-17k publishes its prompts; ``gsm8k``: as verl's preprocessing of GSM8K does.
    """
    if instruction == "gsm8k":
        return f"{problem.strip()} {_GSM8K_SUFFIX}"
    return f"{_DAPO_PREFIX}\n\n{problem.strip()}\n\n{_DAPO_SUFFIX}"


def unwrap(text: str) -> tuple[str, str | None]:
    """A problem and the instruction around it: ``dapo``, ``gsm8k``, ``other`` or None.

    Raises:
        BadCell: for a text with one part of DAPO's wrapper and not the other. It is a variant nobody here knows, and
            wrapping it would give two sets of instructions.
    """
    prefix, problem, suffix = split_instructions(text)
    found = (prefix.strip(), suffix.strip())
    if found == (_DAPO_PREFIX, _DAPO_SUFFIX):
        return problem, "dapo"
    if _DAPO_PREFIX in text or _DAPO_SUFFIX in text:
        raise BadCell("has only a part of DAPO's instructions: give the problem alone, or in the exact wrapper.")
    if not any(found):
        return problem.strip(), None
    inner, around = unwrap(problem)  # some sets carry the same instruction twice
    return inner, "gsm8k" if found == ("", _GSM8K_SUFFIX) and around is None else "other"


def prompt_text(cell: Any) -> str:
    """The text of a problem's cell: a string, or a conversation of one user message, as verl's files have it.

    Raises:
        BadCell: for anything else, a missing or an empty text.
    """
    if isinstance(cell, list):
        if len(cell) != 1 or not isinstance(cell[0], dict) or cell[0].get("role") != "user":
            raise BadCell("is not one user message: give that, or the problem's text.")
        cell = cell[0].get("content")
    if not isinstance(cell, str | float | None):
        raise BadCell(f"is a {type(cell).__name__}, no text: name another --problem-column.")
    if not isinstance(cell, str) or not cell.strip():
        raise BadCell("is empty: add the problem, or remove the row.")
    require_utf8(cell)
    return cell

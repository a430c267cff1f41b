"""A response in steps: where each ends among its tokens, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """Tokens up to ``end`` (exclusive) from where the step before ends, and their text without blanks around it."""

    end: int
    text: str


def split_steps(ids: Sequence[int], tokenizer: Any, separator: str) -> list[Step]:
    """The steps of a response (T,), parted by ``separator``; the separator's tokens belong to the step before.

    A step is a whole number of tokens: where a separator ends inside a token, so does its step. What has no text of
    its own (further separators, a blank end) is part of the step before; the last step is whatever is there.
    """
    ids = list(ids)
    # Token by token: a character of several bytes may be broken here, a separator of plain characters is not.
    pieces = {token: tokenizer.decode([token]) for token in set(ids)}
    ends, text, place = [], "", 0
    for position, token in enumerate(ids):
        text += pieces[token]
        while (found := text.find(separator, place)) >= 0:
            place = found + len(separator)
            if not ends or ends[-1] != position + 1:
                ends.append(position + 1)
    if not ends or ends[-1] != len(ids):
        ends.append(len(ids))
    steps: list[Step] = []
    start = 0
    for end in ends:
        said = tokenizer.decode(ids[start:end], skip_special_tokens=True).strip()
        said = said.removesuffix(separator.strip()).rstrip()
        if said:
            steps.append(Step(end, said))
        elif steps:
            steps[-1] = Step(end, steps[-1].text)
        start = end if said or steps else start
    return steps

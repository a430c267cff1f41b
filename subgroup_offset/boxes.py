r"""The contents of ``\boxed{...}`` and ``\fbox{...}`` in a text, whatever braces are inside."""

from __future__ import annotations

import re

# A doubled backslash is an escaped command: verl's math_dapo finds the box there too. Possessive, and bounded, because
# a run of spaces or backslashes would otherwise be read again from each of them.
OPENING = r"\\{1,2}(?:boxed|fbox)\s*+\{"
# What brace matching has to see; an escaped brace is text.
_TOKEN = re.compile(rf"(?P<box>{OPENING})|\\.|[{{}}]", re.DOTALL)


def boxes(text: str) -> list[tuple[int, int]]:
    """Start and end of the contents of all closed boxes, in the order in which they open.

    One pass with a stack, so linear in the text.
    """
    open_braces: list[int | None] = []  # where a box's contents start; None: a brace of another kind
    found = []
    for token in _TOKEN.finditer(text):
        if token["box"]:
            open_braces.append(token.end())
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            start = open_braces.pop()
            if start is not None:
                found.append((start, token.start()))
    return sorted(found)

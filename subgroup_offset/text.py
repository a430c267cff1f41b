"""Settings and values as text: flattened, shortened, named. Pure: no import but the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Control characters, which steer a terminal and which HTML cannot hold, and lone surrogates, which have no UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """The text with the replacement character for each one that no terminal and no page can show."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(text: str, characters: int) -> str:
    """At most so many characters, the last of them an ellipsis where something was cut off."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of every leaf of nested mappings; an empty mapping is a leaf."""
    for name, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def shortest_endings(names: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Of each name its last parts, as few as no other name ends with; equal names stay whole.

    >>> shortest_endings([("runs", "a", "0"), ("runs", "b", "0"), ("runs", "b", "1")])
    [('a', '0'), ('b', '0'), ('1',)]
    """
    short = []
    for own in names:
        count = 1
        while count < len(own) and sum(tuple(other[-count:]) == tuple(own[-count:]) for other in names) > 1:
            count += 1
        short.append(tuple(own[-count:]))
    return short

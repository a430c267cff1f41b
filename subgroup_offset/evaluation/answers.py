r"""Find the final answer in a response: the last line ``Answer: ...``, or a box that comes after it.

The recipe's prompt asks for the line. Nothing else is an answer: "so the result is 34" states none, as in verl's
``math_dapo``, which trained the policy to write it. Takes time linear in the response.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from subgroup_offset.boxes import OPENING, boxes

Source = Literal["answer line", "box"]

MAX_ANSWER = 1000  #: Characters. What is longer is no final answer; the longest one in MATH-500 has 159.

# The colon may stand outside of the markdown or TeX around the word; of several in a line the last counts.
_MARKER = re.compile(r"^.*(?:(?<![a-z])answers?(?:\(s\))?|答案)[*_} \t]{0,8}[:：]", re.IGNORECASE | re.MULTILINE)
# What surrounds an answer and is none: a line of only these is empty.
_BLANK = re.compile(r"(?:[\s*_`#>$}\u200b\ufeff]|\\[\[\]()])*+")
# A formula of several lines that opens where the answer does.
_DISPLAY = re.compile(
    r"[\s*_`#>]*+(?:\$\$.{1,1000}?\$\$|\\\[.{1,1000}?\\\]"
    r"|\$?(?:\\boxed\s*\{)?\s*\\begin\{([a-z]{1,12}\*?)\}.{1,1000}?\\end\{\1\}\s?\}?)",
    re.DOTALL,
)
# Tokens of chat templates end an answer, HTML and XML tags only surround it.
_ENDS = re.compile(r"(?:<[|｜][A-Za-z_]{3}|</s>|\[/?INST\]).*", re.DOTALL)
_TAGS = re.compile(r"</?(?:answer|think|br|b|i|p|div|span|strong|em|eos|pad|bos|s)\b[^<>]{0,40}>", re.IGNORECASE)
_EDGES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "*"
_OPENING = re.compile(OPENING)
_SPACE = r"(?:[\s$.}]|\\[()\[\], ])*+"
_AND = r"(?:[,;、]|(?:[,;]\s*)?(?:\\text\s?\{\s*)?(?:\b(?:and|or)\b|和|或))"
MAX_BETWEEN = 60  #: Characters between boxes that are one answer.
# Boxes with only this between them are one answer of several values; a value after it belongs to the box before.
_BETWEEN = re.compile(rf"(?:[^\S\n]|[$.}}])*+(?:{_SPACE}{_AND}{_SPACE}(?:[a-zA-Z]\w?\s?=\s?)?)?")
_MORE = re.compile(rf"{_SPACE}{_AND}{_SPACE}[-+\d\\]|[\s$]*(?:hundred|thousand|[mb]illion|dozen|percent|or)\b")
# Words before a box that change what it answers, and a value that is joined to it.
_CHANGED = re.compile(r"\b(?:not|never|isn't|cannot|least|most|about|than)\b[^.]*\Z|\d\W*\b(?:or|and)\b\W*\Z", re.I)


@dataclass(frozen=True)
class FoundAnswer:
    """The answer as the response spells it."""

    text: str
    source: Source
    #: How many different answer lines, or answers in boxes, the response has. The last one counts, also where it goes
    #: on with a second problem after it has answered: so does the training reward, and to stop is part of the task.
    candidates: int


def find_answer(response: str) -> FoundAnswer | None:
    r"""The last answer line's answer, or that of closed boxes after it or without one, or None.

    An answer line is ``Answer:`` in any case, with markdown or TeX around it, and what follows up to the end of the
    line, or of the display formula or environment that opens there. If the line is empty, it is the next line with
    something in it (``math_dapo`` reads on likewise). Boxes with only ``,`` or ``or`` between them are one answer of
    several values. Words after a box are a remark, but not ``or 4`` after ``\boxed{3}``.
    """
    response = re.sub("\r\n?|[\u2028\u2029]", "\n", response)
    spans = map(_after, _MARKER.finditer(response))
    lines = [(end, text) for start, end in spans if (text := _line(response[start:end]))]
    groups = [(start, text) for start, text in _boxed(response) if text]
    if groups and groups[-1][0] >= (lines[-1][0] if lines else 0):
        return FoundAnswer(groups[-1][1], "box", len({text for _, text in groups}))
    return FoundAnswer(lines[-1][1], "answer line", len({text for _, text in lines})) if lines else None


def _after(marker: re.Match[str]) -> tuple[int, int]:
    """Start and end of what follows a marker."""
    response, start = marker.string, marker.end()
    if display := _DISPLAY.match(response, start):
        return display.span()
    first = _BLANK.match(response, start).end()  # type: ignore[union-attr]  # it matches the empty text
    end = response.find("\n", first)
    return first if "\n" in response[start:first] else start, end if end >= 0 else len(response)


def _line(text: str) -> str:
    """The answer on a line: of boxes in it their contents, unless the words around them change what they answer."""
    text = _clean(text)
    groups = _boxed(text)
    if len(groups) == 1 and not _CHANGED.search(_OPENING.split(text, maxsplit=1)[0][-200:]):
        return groups[0][1]
    return _clean(_OPENING.sub(" {", text))


def _boxed(text: str) -> list[tuple[int, str]]:
    """Where the outermost boxes with something in them start, and their contents; neighbours count as one.

    The rest of the line belongs to them where it adds a value or a factor.
    """
    groups: list[list[tuple[int, int]]] = []
    last = -1
    for start, end in boxes(text):
        if start < last or not text[start:end].strip():
            continue
        between = text[last + 1 : start]
        if not (groups and len(between) < MAX_BETWEEN and _BETWEEN.fullmatch(_OPENING.sub("", between))):
            groups.append([])
        groups[-1].append((start, end))
        last = end
    found = []
    for group in groups:
        values = ", ".join(dict.fromkeys(text[start:end] for start, end in group))
        rest = text[group[-1][1] + 1 : group[-1][1] + MAX_ANSWER].split("\n", 1)[0]
        found.append((group[0][0], _clean(values + (f" {rest.lstrip('$ ')}" if _MORE.match(rest) else ""))))
    return found


def _clean(text: str) -> str:
    """Without tokens and tags, and without white space and bold marks at the ends."""
    return _TAGS.sub(" ", _ENDS.sub("", text)).strip(_EDGES)

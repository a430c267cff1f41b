r"""Find the final answer in a response: the last line ``Answer: ...``, or a box that comes after it.

The recipe's prompt asks for the line. Nothing else is an answer: "so the result is 34" states none, as in verl's
``math_dapo``, which trained the policy to write it. Takes time linear in the response.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from subgroup_offset.boxes import OPENING, boxes

Source = Literal["answer line", "box"]

MAX_ANSWER = 1000  #: Characters. What is longer is no final answer; the longest one in MATH-500 has 159.

# The colon may stand outside of the markdown or TeX around the word, and the word anywhere in its line.
_MARKER = re.compile(r"(?:(?<![a-z])answers?(?:\(s\))?|答案)[*_} \t]{0,8}[:：]", re.IGNORECASE)
_LINE_END = re.compile(r"[\r\n\u2028\u2029]|\Z")
# What surrounds an answer and is none: a line of only these is empty.
_BLANK = re.compile(r"(?:[\s*_`#>$}\u200b\ufeff]|\\[\[\]()])*+")
_DISPLAY = re.compile(r"\$\$|\\\[|\\begin\s{0,2}\{([a-z]{1,12}\*?)\}")
# Tokens of chat templates end an answer, HTML and XML tags only surround it.
_ENDS = re.compile(r"(?:<[|｜][A-Za-z_]{3}|</s>|\[/?INST\]).*", re.DOTALL)
_TAGS = re.compile(r"</?(?:answer|think|br|b|i|p|div|span|strong|em|eos|pad|bos|s)\b[^<>]{0,40}>", re.IGNORECASE)
_EDGES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "*"
_OPENING = re.compile(OPENING)
_SPACE = r"(?:[\s$.}]|\\[()\[\], ])*+"
_AND = r"(?:[,;、]|(?:[,;]\s*)?(?:\\text\s?\{\s*)?(?:\b(?:and|or)\b|和|或))"
MAX_BETWEEN = 60  #: Characters between boxes that are one answer.
# Boxes with only this between them are one answer of several values; a value after it belongs to the box before.
_BETWEEN = re.compile(rf"(?:[^\S\r\n]|[$.}}])*+(?:{_SPACE}{_AND}{_SPACE}(?:[a-zA-Z]\w?\s?=\s?)?)?")
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
    line, or of the display formula, environment or box that opens there. If the line is empty, it is the next line with
    something in it (``math_dapo`` reads on likewise). Boxes with only ``,`` or ``or`` between them are one answer of
    several values. Words after a box are a remark, but not ``or 4`` after ``\boxed{3}``.
    """
    lines = [(end, text) for start, end in _answer_lines(response) if (text := _line(response[start:end]))]
    after = lines[-1][0] if lines else 0
    groups = [(group[0][0], text) for group in _groups(response) if (text := _clean(_joined(response, group)))]
    if groups and groups[-1][0] >= after:
        return FoundAnswer(groups[-1][1], "box", len({text for _, text in groups}))
    return FoundAnswer(lines[-1][1], "answer line", len({text for _, text in lines})) if lines else None


def _answer_lines(response: str) -> list[tuple[int, int]]:
    """Start and end of what follows each marker; of several markers in a line only the last counts."""
    ends = [match.start() for match in _LINE_END.finditer(response)]
    found = []
    markers = [(match.start(), match.end()) for match in _MARKER.finditer(response)]
    for (_, start), (following, _) in pairwise([*markers, (len(response) + 1, 0)]):
        first = _BLANK.match(response, start).end()  # type: ignore[union-attr]  # it matches the empty text
        same_line = first <= ends[bisect_left(ends, start)]
        end = ends[bisect_left(ends, first)]
        if first < len(response) and following >= end:
            found.append((start if same_line else first, _display_end(response, start, first, end)))
    return found


def _display_end(response: str, start: int, first: int, line_end: int) -> int:
    """The line's end, or the end of the formula or box that was opened before or at ``first`` and not closed in it."""
    limit = first + MAX_ANSWER
    if _OPENING.match(response, first):
        return max([line_end, *(first + end + 1 for _, end in boxes(response[first:limit])[:1])])
    opened = _DISPLAY.search(response, start, first) or _DISPLAY.match(response, first)
    if not opened:
        return line_end
    closing = {"$$": "$$", r"\[": r"\]"}.get(opened[0], rf"\end{{{opened[1]}}}")
    found = response.find(closing, max(first, opened.end()), limit)
    return max(line_end, found + (len(closing) if opened[1] else 0))


def _line(text: str) -> str:
    """The answer on a line: of boxes in it their contents, unless the words around them change what they answer."""
    text = _clean(text)
    groups = _groups(text)
    if not groups:
        return text
    if len(groups) == 1 and not _CHANGED.search(_OPENING.split(text, 1)[0][-200:]):
        return _clean(_joined(text, groups[0]))
    return _clean(_OPENING.sub(" {", text))


def _groups(text: str) -> list[list[tuple[int, int]]]:
    """The outermost boxes with something in them; neighbours with only a separator between them are together."""
    groups: list[list[tuple[int, int]]] = []
    last = -1
    for start, end in boxes(text):
        if start < last or not text[start:end].strip():
            continue
        between = _OPENING.sub("", text[last + 1 : start])
        if groups and start - last < MAX_BETWEEN and _BETWEEN.fullmatch(between):
            groups[-1].append((start, end))
        else:
            groups.append([(start, end)])
        last = end
    return groups


def _joined(text: str, group: list[tuple[int, int]]) -> str:
    """The contents of boxes, and of the rest of the line where it adds to them."""
    values = ", ".join(dict.fromkeys(text[start:end] for start, end in group))
    last = group[-1][1] + 1
    rest = _LINE_END.split(text[last : last + MAX_ANSWER], 1)[0]
    return values + (f" {rest.lstrip('$ ')}" if _MORE.match(rest) else "")


def _clean(text: str) -> str:
    """Without tokens and tags, and without white space and bold marks at the ends."""
    return _TAGS.sub(" ", _ENDS.sub("", text)).strip(_EDGES)

r"""Find the final answer in a response.

The recipe's prompt asks for a last line ``Answer: $Answer``, so an answer line comes before a box. Nothing else is an
answer: "so the result is 34" and "The answer is 34." state none, as in verl's ``math_dapo``, which trained the policy
to write the line. Takes time linear in the response.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from subgroup_offset.boxes import OPENING, boxes

Source = Literal["answer line", "box"]

MAX_ANSWER = 1000  #: Characters. What is longer is no final answer; the longest one in MATH-500 has 159.

# The colon may stand outside of the markdown or TeX around the word. "Answer" may be anywhere in its line.
_MARKER = re.compile(r"(?<![a-z])answers?(?:\(s\))?[*_} \t]{0,8}[:：]", re.IGNORECASE)
_LINE_END = re.compile(r"[\r\n\u2028\u2029]|\Z")
# What surrounds an answer and is none: a line of only these is empty.
_BLANK = re.compile(r"(?:[\s*_`#>$}\u200b\ufeff]|\\[\[\]()])*+")
_CLOSING = {"$$": "$$", r"\[": r"\]"}
# Tokens of chat templates end an answer, HTML and XML tags only surround it.
_ENDS = re.compile(r"(?:<[|｜][A-Za-z_]{3}|</s>|\[/?INST\]).*", re.DOTALL)
_TAGS = re.compile(r"</?(?:answer|think|br|b|i|p|div|span|strong|em|eos|pad|bos|s)\b[^<>]{0,40}>", re.IGNORECASE)
_EDGES = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "*"
_OPENING = re.compile(OPENING)
_DELIMITERS = re.compile(rf"\\[\[\]()]|\\displaystyle|{OPENING}")
# Text beside a box that may change what is answered.
_MORE = re.compile(r"[\d=<>\\]|\b(?:or|and|not)\b", re.IGNORECASE)


@dataclass(frozen=True)
class FoundAnswer:
    """The answer as the response spells it."""

    text: str
    source: Source
    #: How many different answer lines (or boxes) the response has. The last one counts, also where a response goes on
    #: with a second problem after it has answered: so does the training reward, and to stop is part of the task.
    candidates: int
    #: The last box that comes after the answer line: it counts where the line turns out to hold no mathematics, as in
    #: "Answer: let us first count the paths", written before the solution.
    later_box: str | None = None


def find_answer(response: str) -> FoundAnswer | None:
    r"""The last answer line's answer, else the content of the last closed box, else None.

    An answer line is ``Answer:`` in any case, with markdown or TeX around it, and what follows it: up to the end of the
    line, or of the display formula or box that opens there. If the line is empty, it is the next line with something in
    it (``math_dapo`` reads on likewise); with nothing after it, it is no answer line. Of a line that holds one box, the
    box's content counts, unless there is more beside it, as in ``\boxed{3} or 4``: then all of it does.

    Args:
        response: what the model wrote, any text of any length.
    """
    boxed = [(start, text) for start, end in boxes(response) if (text := _clean(response[start:end]))]
    lines = [(end, text) for end, line in _answer_lines(response) if (text := _unboxed(_clean(line)))]
    if lines:
        end, text = lines[-1]
        later = [box for start, box in boxed if start > end]
        return FoundAnswer(text, "answer line", len({line for _, line in lines}), later[-1] if later else None)
    if boxed:
        return FoundAnswer(boxed[-1][1], "box", len({box for _, box in boxed}))
    return None


def _answer_lines(response: str) -> Iterator[tuple[int, str]]:
    """The text after each marker, and where it ends; of several markers in a line only the last counts."""
    ends = [match.start() for match in _LINE_END.finditer(response)]
    markers = list(_MARKER.finditer(response))
    for marker, following in zip_longest(markers, markers[1:]):
        start = marker.end()
        # The pattern matches everywhere, if only the empty text.
        first = _BLANK.match(response, start).end()  # type: ignore[union-attr]
        same_line = first <= ends[bisect_left(ends, start)]
        end = ends[bisect_left(ends, first)]
        if first == len(response) or (following and following.start() < end):
            continue
        end = _display_end(response, start, first, end)
        yield end, response[start if same_line else first : end]


def _display_end(response: str, start: int, first: int, line_end: int) -> int:
    """The line's end, or the end of the formula or box that was opened before or at ``first`` and not closed in it."""
    limit = first + MAX_ANSWER
    for opening, closing in _CLOSING.items():
        if opening in response[start:first]:
            return max(line_end, response.find(closing, first, limit))
    if _OPENING.match(response, first):
        opened = boxes(response[first:limit])[:1]
        return max([line_end, *(first + end + 1 for _, end in opened)])
    return line_end


def _unboxed(text: str) -> str:
    """The content of the only box of an answer, or the answer with the boxes taken off."""
    boxed = boxes(text)
    if not boxed:
        return text
    (start, end), *more = boxed
    around = _DELIMITERS.sub("", text[:start]) + _DELIMITERS.sub("", text[end:])
    if not more and not _MORE.search(around):
        return text[start:end].strip(_EDGES)
    return _OPENING.sub(" {", text).strip(_EDGES)


def _clean(text: str) -> str:
    """Without tokens and tags, and without white space and bold marks at the ends."""
    return _TAGS.sub(" ", _ENDS.sub("", text)).strip(_EDGES)

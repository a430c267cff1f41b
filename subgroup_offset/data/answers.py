"""From an answer's cell to the ground truth that verl compares with: one rule per kind of benchmark.

verl compares texts (``math_dapo``, ``gsm8k``), so that a ground truth has to be written the one way models write it:
"033" or "33.0" would make every right solution wrong.
"""

from __future__ import annotations

import math
import re
from typing import Any

from subgroup_offset.boxes import OPENING, boxes
from subgroup_offset.data.errors import BadCell, require_utf8

MARK = "####"  #: Stands before the final number in GSM8K's worked solutions.
_BOX = re.compile(OPENING)
_INTEGER = re.compile(r"([+-]?)0*([0-9]+)(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?")
_DEGREES = re.compile(r"\s*(?:\^\s*(?:\\circ|\{\s*\\circ\s*\})|°)\s*$")


def aime_answer(value: Any) -> str:
    """An integer from 0 to 999, without leading zeros: 33, 33.0, "033", "33.0", "$33$" and "\\boxed{33}" give "33".

    A degree sign after it is dropped: AIME asks for a number, and copies of the 2025 set carry the unit of one.

    Raises:
        BadCell: for anything else.
    """
    text = _DEGREES.sub("", _unwrapped(_text(value)))
    integer = _integer(text)
    if integer is None:
        raise BadCell("is no integer", "AIME answers are integers from 0 to 999: correct the row.")
    if not re.fullmatch("[0-9]{1,3}", integer):
        raise BadCell("is not between 0 and 999", "AIME answers are integers from 0 to 999: correct the row.")
    return integer


def final_number(value: Any) -> str:
    """The number after the last "####", or the whole value where there is none; commas between thousands removed.

    Integers lose leading zeros and a fraction of zeros; other decimals lose trailing zeros.

    Raises:
        BadCell: if that is no number.
    """
    text = _unwrapped(_text(value).rpartition(MARK)[2].strip())
    if not _NUMBER.fullmatch(text):
        raise BadCell("ends in no number", "Give '#### 42' at its end, or the number alone.")
    number = text.replace(",", "")
    return _integer(number) or number.removeprefix("+").rstrip("0")


def expression(value: Any) -> str:
    """Any answer on one line: an integer in its plain form, everything else (LaTeX) as it stands.

    Of a text with "\\boxed{...}" the last box's content is the answer; "$" around the whole is removed. Commas stay,
    for "1,200" may be a list.

    Raises:
        BadCell: for a missing or empty value, or one of several lines.
    """
    text = _unwrapped(_text(value))
    if "\n" in text:
        raise BadCell("has several lines", "Give the final answer alone, or in \\boxed{}.")
    return _integer(text) or text


def _text(value: Any) -> str:
    """A cell as text; integral floats, which CSV readers and tables make of integers, as integers."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadCell("is missing", "Add the answer, or remove the row.")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadCell(f"is a {type(value).__name__}, neither text nor a number", "Name another --answer-column.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadCell("is not finite", "Correct the row.")
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(value).strip()
    if not text:
        raise BadCell("is empty", "Add the answer, or remove the row.")
    require_utf8(text)
    return text


def _unwrapped(text: str) -> str:
    """Without box and dollar signs around the whole answer."""
    if opened := list(_BOX.finditer(text)):
        closed = boxes(text)
        if not closed or closed[-1][0] < opened[-1].end():
            raise BadCell("has a \\boxed{ that is not closed", "Close it, or give the final answer alone.")
        text = text[slice(*closed[-1])].strip()
    if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text.strip("$"):
        text = text.strip("$")
    text = text.strip()
    if not text:
        raise BadCell("is empty inside its markup", "Add the answer, or remove the row.")
    return text


def _integer(text: str) -> str | None:
    """In its plain form, or None; not by way of int(), which refuses to read thousands of digits."""
    match = _INTEGER.fullmatch(text)
    if not match:
        return None
    return f"-{match[2]}" if match[1] == "-" and match[2] != "0" else match[2]

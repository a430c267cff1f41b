"""From an answer's cell to the ground truth that verl compares with: one rule per kind of benchmark.

verl compares texts (``math_dapo``, ``gsm8k``), so that a ground truth has to be written the one way models write it:
"033" or "33.0" would make every right solution wrong.
"""

from __future__ import annotations

import math
import re
from typing import Any

from subgroup_offset.boxes import OPENING, boxes
from subgroup_offset.data.errors import BadCell

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
    integer = _integer(_DEGREES.sub("", _bare(_text(value))))
    if integer is None or not re.fullmatch("[0-9]{1,3}", integer):
        raise BadCell("is no integer from 0 to 999, as AIME's are: correct the row.")
    return integer


def final_number(value: Any) -> str:
    """The number after the last "####", or the whole value where there is none; commas between thousands removed.

    Integers lose leading zeros and a fraction of zeros; other decimals lose trailing zeros.

    Raises:
        BadCell: if that is no number.
    """
    text = _bare(_text(value).rpartition(MARK)[2].strip())
    if not _NUMBER.fullmatch(text):
        raise BadCell("ends in no number: give '#### 42' at its end, or the number alone.")
    number = text.replace(",", "")
    return _integer(number) or number.removeprefix("+").rstrip("0")


def expression(value: Any) -> str:
    """Any answer on one line: an integer in its plain form, everything else (LaTeX) as it stands.

    Of a text with "\\boxed{...}" the last box's content is the answer; "$" around the whole is removed. Commas stay,
    for "1,200" may be a list.

    Raises:
        BadCell: for a missing or empty value, or one of several lines.
    """
    text = _bare(_text(value))
    if "\n" in text:
        raise BadCell("has several lines: give the final answer alone, or in \\boxed{}.")
    return _integer(text) or text


def require_utf8(text: str) -> None:
    """Raise :class:`BadCell` for half of a surrogate pair, which JSON can hold and no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadCell("has half of a surrogate pair: write it whole, or remove it.") from None


def _text(value: Any) -> str:
    """A cell as text; integral floats, which tables make of integers beside missing values, as integers."""
    if value is None or value != value:
        raise BadCell("is missing: add the answer, or remove the row.")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadCell(f"is a {type(value).__name__}, neither text nor a number: name another --answer-column.")
    if value in (math.inf, -math.inf):
        raise BadCell("is not finite: correct the row.")
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    require_utf8(text)
    return text


def _bare(text: str) -> str:
    """Without box and dollar signs around the whole answer."""
    if opened := list(_BOX.finditer(text)):
        closed = boxes(text)
        if not closed or closed[-1][0] < opened[-1].end():
            raise BadCell("has a \\boxed{ that is not closed: close it, or give the final answer alone.")
        text = text[slice(*closed[-1])].strip()
    if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text.strip("$"):
        text = text.strip("$").strip()
    if not text:
        raise BadCell("is empty: add the answer, or remove the row.")
    return text


def _integer(text: str) -> str | None:
    """In its plain form, or None; not by way of int(), which refuses to read thousands of digits."""
    match = _INTEGER.fullmatch(text)
    if not match:
        return None
    return f"-{match[2]}" if match[1] == "-" and match[2] != "0" else match[2]

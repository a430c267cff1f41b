r"""What an answer is made of: one value, or a list, tuple, set, interval or union of values.

``3, 5``, ``3 or 5`` and ``\pm 3`` are lists, ``\{3, 5\}`` is a set, ``(3, 5)`` is a tuple (and an open interval, which
is spelled alike), ``[3, 5)`` is an interval. Of a chain of equalities the last side is the value: ``x = 3``,
``a + b = 1 + 2 = 3``. What follows ``\approx`` only comments on the exact value before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from subgroup_offset.evaluation.normalize import MAX_DEPTH, NotMathematics
from subgroup_offset.evaluation.prose import THOUSANDS

GroupKind = Literal["list", "tuple", "set", "interval", "union"]
#: Which equations are compared as such: none of an answer to a question for a value; those with an expression on the
#: left, as ``x^{2}+y^{2}=1``, of a reference; all of an answer to such a reference.
Equations = Literal["last side", "compound", "all"]

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_OPENERS = frozenset(("(", "[", "{", "\\{", "\\begin"))
_CLOSERS = frozenset((")", "]", "}", "\\}", "\\end"))
_SEPARATORS = (",", ";", "\\\\")
_SIGN = re.compile(r"\\(pm|mp)(?![A-Za-z]) ?")
_RELATIONS = ("<", ">", "\\le", "\\ge", "\\neq")
_NAME = re.compile(r"(?:\\[A-Za-z]+|[A-Za-z]{1,3}'*)(?:_\{[^{}]*\})?(?:\([A-Za-z]\))?")


@dataclass(frozen=True)
class Value:
    """A single value; ``name`` is what stands before its equals sign, if that is one variable."""

    text: str
    name: str | None = None


@dataclass(frozen=True)
class Relation:
    """An inequality, or an equation that states no value, such as ``x^{2}+y^{2}=1``."""

    text: str


@dataclass(frozen=True)
class Group:
    """Several values. ``brackets``: the opening and the closing one, of intervals and tuples."""

    kind: GroupKind
    items: tuple[Answer, ...]
    text: str
    brackets: str = ""


Answer = Value | Relation | Group


def structure(text: str, *, lists: bool = False, equations: Equations = "last side") -> Answer:
    r"""The structure of an answer in normal form.

    Args:
        text: as :func:`~subgroup_offset.evaluation.normalize.normalize` gives it.
        lists: read ``1,234`` as the list of 1 and 234, not as 1234.
        equations: which equations stay relations; the others are their last side.

    Raises:
        NotMathematics: for no text, and for brackets that do not match.
    """
    parts = [part for part in _split(text, (*_SEPARATORS, THOUSANDS) if lists else _SEPARATORS) if part]
    if not parts:
        raise NotMathematics("there is nothing that could be a value")
    if len(parts) == 1:
        return _item(parts[0], equations)
    return _group("list", parts, text, equations)


def _item(text: str, equations: Equations) -> Answer:
    text = _split(text, ("\\approx",))[0]
    text = _split(text, ("\\in",))[-1].strip()
    sides = _split(text, ("=",))
    name = sides[0] if len(sides) > 1 and _NAME.fullmatch(sides[0]) else None
    whole = len(sides) > 1 and (equations == "all" or (equations == "compound" and not name and _compound(sides[0])))
    if whole or len(_split(text, _RELATIONS)) > 1:
        return Relation(text.replace(THOUSANDS, ""))
    return _side(sides[-1].strip().removeprefix("+"), name, equations)


def _compound(side: str) -> bool:
    """Whether a side of an equation is an expression in variables, and no tuple of them."""
    return bool(re.search("[A-Za-z]", side)) and not _around(side)[0]


def _side(text: str, name: str | None, equations: Equations) -> Answer:
    if not text:
        raise NotMathematics("a side of an equation is empty")
    if _SIGN.search(text):
        upper = _SIGN.sub(lambda sign: "+" if sign[1] == "pm" else "-", text)
        lower = _SIGN.sub(lambda sign: "-" if sign[1] == "pm" else "+", text)
        return _group("list", [upper, lower], text, equations)
    parts = _split(text, ("\\cup",))
    if len(parts) > 1:
        return _group("union", parts, text, equations)
    opening, closing = _around(text)
    if not opening:
        return Value(text.replace(THOUSANDS, ""), name)
    parts = _split(text[len(opening) : len(text) - len(closing)], (*_SEPARATORS, THOUSANDS))
    brackets = opening + closing
    if text == r"\{\}":
        return Value(r"\emptyset", name)
    if len(parts) == 1 and brackets in ("()", "[]", "{}"):
        inner = _item(parts[0], equations)
        return Value(inner.text, name or inner.name) if isinstance(inner, Value) else inner
    if brackets in (r"\{\}", "{}"):
        return _group("set", parts, text, equations)
    if brackets == "()":
        return _group("tuple", parts, text, equations, brackets)
    if len(parts) == 2:
        return _group("interval", parts, text, equations, brackets)
    if brackets == "[]":
        return _group("list", parts, text, equations)
    raise NotMathematics(f"no interval has {len(parts)} ends")


def _group(kind: GroupKind, parts: list[str], text: str, equations: Equations, brackets: str = "") -> Group:
    items: list[Answer] = []
    for part in filter(None, parts):
        item = _item(part, equations)
        # "1, \pm 2" is a list of three.
        nested = isinstance(item, Group) and item.kind == "list" and kind in ("list", "set")
        items.extend(item.items if nested else [item])  # type: ignore[union-attr]
    if not items:
        raise NotMathematics("there is nothing between brackets and separators")
    return Group(kind, tuple(items), text.replace(THOUSANDS, ","), brackets)


def _around(text: str) -> tuple[str, str]:
    """The brackets that open with the text and close with its end; empty texts if there are none."""
    tokens = _TOKEN.findall(text)
    if tokens[0] not in ("(", "[", "{", "\\{") or tokens[-1] not in _CLOSERS:
        return "", ""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token in _OPENERS) - (token in _CLOSERS)
        if depth == 0:
            return (tokens[0], tokens[-1]) if i == len(tokens) - 1 else ("", "")
    return "", ""


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """The parts between separators that stand in no brackets."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in _OPENERS) - (token in _CLOSERS)
        if depth < 0 or depth > MAX_DEPTH:
            raise NotMathematics("the brackets do not match, or are nested too deeply")
        if depth == 0 and token in separators:
            parts.append("")
        else:
            parts[-1] += token
    if depth:
        raise NotMathematics("the brackets do not match")
    return parts

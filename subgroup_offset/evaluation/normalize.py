r"""One spelling for answers that differ in spelling only.

:func:`normalize` gives TeX without spaces, delimiters, words, sizes or optional braces: ``\dfrac12``, ``\frac {1} {2}``
and ``$\tfrac{1}{2}$`` all become ``\frac{1}{2}``. Values are not touched: ``1/2`` and ``0.5`` stay what they are.
"""

from __future__ import annotations

import re

from subgroup_offset.evaluation.prose import THOUSANDS, mathematics

MAX_DEPTH = 30  #: of nested groups


class NotMathematics(ValueError):
    """A text that cannot be read as mathematics; the message says why."""


_DROPPED = frozenset(
    r"""
    \left \right \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl \Biggr \displaystyle
    \textstyle \scriptstyle \limits \nolimits \quad \qquad \thinspace \nobreak \therefore \, \; \: \! \> \$ ~
    \text \textrm \textbf \textit \mbox \mathrm \mathbf \mathit \bm \boldsymbol \blacksquare \square \Box \qed
    """.split()  # noqa: SIM905
) | {r"\ "}
_RENAMED = {
    **dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac", r"\sfrac", r"\nicefrac"), r"\frac"),
    **dict.fromkeys((r"\dbinom", r"\tbinom"), r"\binom"),
    **dict.fromkeys((r"\times", r"\ast", r"\centerdot", "*"), r"\cdot"),
    **dict.fromkeys((r"\vert", r"\lvert", r"\rvert", r"\mid"), "|"),
    **dict.fromkeys((r"\langle", r"\lparen"), "("),
    **dict.fromkeys((r"\rangle", r"\rparen"), ")"),
    **{r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\div": "/", r"\%": "%"},
    **{r"\leq": r"\le", r"\geq": r"\ge", r"\leqslant": r"\le", r"\geqslant": r"\ge", r"\ne": r"\neq", r"\lt": "<"},
    **{r"\gt": ">", r"\varnothing": r"\emptyset", r"\simeq": r"\approx", r"\degree": r"^\circ", r"\infin": r"\infty"},
}
#: Commands and the number of their arguments, which TeX lets stand without braces.
_ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1, "^": 1, "_": 1}
_TOKEN = re.compile(rf"\\[A-Za-z]+|\\.|\d[\d{THOUSANDS}]*(?:\.\d+)?|\.\d+|\s+|.", re.DOTALL)
_MIXED = re.compile(r"(?:(?<=\\cdot)|(?<![\d.A-Za-z)\]}!\\]))(\d+)\\frac\{(\d+)\}\{(\d+)\}(?![\^!])")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
#: Words of letters only: no product of that many variables is an answer.
WORD = re.compile(r"(?<![\\A-Za-z])(?<!\\begin\{)(?<!\\end\{)[A-Za-z]{4,}")


def normalize(answer: str) -> str:
    r"""The normal form of an answer.

    Args:
        answer: as found in a response or a data set.

    Returns:
        TeX with braces around all arguments and powers; empty if there is no mathematics at all. Mixed numbers are
        sums, ``2^10`` has the power 10, degrees are radians inside trigonometric functions and units elsewhere, and
        thousands separators that could also part a list stay as :data:`THOUSANDS`.

    Raises:
        NotMathematics: for unbalanced or too deeply nested braces and for missing arguments.
    """
    text = mathematics(answer)
    text = re.sub(r"(?<=\d)\*\*(?=[\d(-])", "^", text).replace("!=", r"\neq ").replace(":=", "=")
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ")
    text = re.sub(r"\\(?:left|right)\s*\.|\\(?:tag|label)\{[^{}]*\}", "", text)
    # Plain roots have the whole number under them; TeX's have one token.
    text = re.sub(r"(\\sqrt)\s+(\d+(?:\.\d+)?)", r"\1{\2}", text)
    reader = _Reader([_RENAMED.get(token, token) for token in _TOKEN.findall(text) if token not in _DROPPED])
    text = reader.sequence(None)
    while (inner := _inside(text)) is not None:
        text = inner
    text = _MIXED.sub(r"(\1+\\frac{\2}{\3})", text)
    if not _TRIGONOMETRY.search(text):
        return text.replace(r"^{\circ}", "")
    text = re.sub(r"(\d+(?:\.\d+)?)\^\{\\circ\}", r"(\1\\cdot\\frac{\\pi}{180})", text)
    return text.replace(r"^{\circ}", r"\cdot\frac{\pi}{180}")


def _inside(text: str) -> str | None:
    """The content of braces around the whole text that hold no list."""
    if not (text.startswith("{") and text.endswith("}") and not text.endswith(r"\}")):
        return None
    depth = 0
    for match in re.finditer(r"\\.|[{},;]", text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if (depth == 0 and match.end() < len(text)) or (depth == 1 and match[0] in ",;"):
            return None
    return text[1:-1]


class _Reader:
    """Walks over TeX tokens and writes them in normal form."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    def sequence(self, closing: str | None) -> str:
        """Everything up to the closing token, which is taken as well, or up to the end."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotMathematics("the groups are nested too deeply")
        written = ""
        while (token := self._next()) != closing:
            if token is None or token == "}":
                raise NotMathematics("the braces or brackets are not balanced")
            if token in _ARGUMENTS:
                piece = self._with_arguments(token)
            elif token == "{":
                piece = "{" + self.sequence("}") + "}"
            else:
                piece = token
            if piece[:1].isalpha() and re.search(r"\\[A-Za-z]+\Z", written):
                written += " "
            written += piece
        self.depth -= 1
        return written

    def _next(self) -> str | None:
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            self.position += 1
            if not token.isspace():
                return token
        return None

    def _with_arguments(self, command: str) -> str:
        written = command
        if command == r"\sqrt" and self._peek() == "[":
            self._next()
            degree = self.sequence("]")
            written += "" if degree == "2" else f"[{degree}]"
        for _ in range(_ARGUMENTS[command]):
            written += "{" + self._argument(whole=command == "^") + "}"
        return written

    def _peek(self) -> str | None:
        position = self.position
        token = self._next()
        self.position = position
        return token

    def _argument(self, whole: bool) -> str:
        """A group's content, or one token; ``whole``: with its sign, and all digits of a number."""
        token = self._next()
        if token is None or token == "}":
            raise NotMathematics("an argument is missing")
        if token == "{":
            return self.sequence("}")
        if token == "(" and not whole:
            return self.sequence(")")
        if whole and token in "+-":
            return token + self._argument(whole)
        if not whole and token[0].isdigit() and len(token) > 1:
            self.position -= 1
            self.tokens[self.position] = token[1:]
            return token[0]
        return token

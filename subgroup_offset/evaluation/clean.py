r"""One spelling of an answer's mathematics: TeX without words, units, typefaces, sizes or optional braces.

``There are $34$ ways.`` becomes ``34``, ``x = 3 or x = 5`` becomes ``x=3,x=5``, ``√2 cm`` becomes ``\sqrt{2}``. Values
are not touched: ``1/2`` and ``0.5`` stay what they are. Words that may change what is answered (``at most 34``, ``half
of 34``) stay, and what holds words is no number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from fractions import Fraction

Rule = tuple[str, str | Callable[[re.Match[str]], str]]  #: a pattern and what takes its place

#: A word; no product of that many variables is an answer.
WORD = re.compile(r"(?<![\\A-Za-z])(?<!\\begin\{)(?<!\\end\{)[A-Za-z]{4,}")
THOUSANDS = "{,}"  #: The comma of ``1,234``; where a list is asked for it parts a list.

# Each with the plain character or the command that it stands for.
_UNICODE = r"""
− - – - — - ‒ - × \cdot ⋅ \cdot · \cdot ∙ \cdot ∗ \cdot ÷ / ∕ / ⁄ / 、 , ， , ； ; 。 . “ " ” " ’ ' ′ ' ⟨ ( ⟩ )
≤ \le ≥ \ge ≠ \ne ≈ \approx π \pi ∞ \infty ° ^{\circ} º ^{\circ} ± \pm ∓ \mp ∪ \cup ∩ \cap ∈ \in ∅ \emptyset
ℝ \mathbb{R} ℤ \mathbb{Z} √ \sqrt ∛ \sqrt[3] ⌊ \lfloor ⌋ \rfloor ⌈ \lceil ⌉ \rceil θ \theta φ \phi
""".split()  # noqa: SIM905
_SYMBOLS = {ord(one): other + " " * (other > "A") for one, other in zip(_UNICODE[::2], _UNICODE[1::2], strict=True)}
_SYMBOLS |= dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff€£¥₹¢₩∎□■✓✔✅"), "")
_SMALL = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ₀₁₂₃₄₅₆₇₈₉", "0123456789-+n0123456789")
# What math-verify does not read, and second names of what is looked for here.
_SYNONYMS = r"""
<= \le >= \ge != \neq := = \leq \le \geq \ge \leqslant \le \geqslant \ge \ne \neq \lt < \gt > \lor , \vee , \land ,
\dfrac \frac \tfrac \frac \cfrac \frac \dbinom \binom \times \cdot \ast \cdot * \cdot \div / \% % \mid | \lg \log_{10}
\langle ( \lparen ( \rangle ) \rparen ) \lbrack [ \rbrack ] \lbrace \{ \rbrace \} \varnothing \emptyset
\simeq \approx \sim \approx
""".split()  # noqa: SIM905
_NAMES = dict(zip(_SYNONYMS[::2], _SYNONYMS[1::2], strict=True))
# Spaces, sizes, colours and other looks of TeX.
_LOOKS = (
    r"\\(?:[hv]space\*?|color|phantom|tag|label|textcolor)\s*\{[^{}]*\}|\\(?:left|right)\s*\.|\\[>$,;: ]|(?<=[\w}$])~|"
    r"\\(?:left|right|middle|[bB]igg?[lrm]?|(?:display|text)style|q?quad|thinspace|(?:no)?limits|therefore|[lL]arge|"
    r"huge|small|blacksquare|[sS]quare|Box|qed|checkmark|newline|bf|it|rm|sf|tt)(?![A-Za-z])"
)
_FACE = (
    r"\\(?:text(?:rm|sf|tt|normal|up|bf|it|sl)?|math(?:rm|bf|it|sf|tt|normal)|[mhf]?box|boxed|operatorname\*?|bm|"
    r"boldsymbol|emph|underline)\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_ROWS = r"\\(?:begin|end)\s*\{(?:align(?:ed)?|gather(?:ed)?|equation|split|cases)\*?\}"
_FUNCTION = (
    r"(?<![\\A-Za-z])(?:(?:sqrt|pi|infinity|infty|(?:arc)?(?:sin|cos|tan)h?|cot|csc|log|ln|lg|binom)(?![A-Za-z])"
    r"|(?:exp|lcm|gcd|max|min|sec)(?=\s*\(|\s*\\[{(]|\s*_))"
)
_CJK = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+"
_DENIAL = r"\b(?:not|no|cannot|never|impossible|\w+n't|wrong|incorrect|false|unless|except|if)\b"
# Words that no unit or noun phrase has: the number beside them is not, or not all of, the answer.
_CLAIM = (
    rf"(?:{_DENIAL}|\b(?:hal(?:f|ves)|thirds?|quarters?|(?:fif|six|seven|eigh|nin|ten|hundred|thousand)ths?|tens|"
    r"hundreds?|thousands?|\w+illions?|dozens?|scores?|twice|thrice|double|triple|negative|minus|plus|times|over|divided|"
    r"by|of|to|than|mod|modulo|base|choose|factorial|squared|cubed|power|root|less|more|fewer|greater|least|most|up|from|"
    r"between|approx\w*|about|around|nearly|roughly|almost|or|and|but|when|with|without|then|else|maybe|perhaps)\b)"
)
# What follows a complete answer: another sentence or a reason.
_REMARK = re.compile(
    r"(?:(?<=[\w})\]!%$])\.\s+(?=[A-Z])(?!(?:Or|And|Also|But|However|Wait|No|Actually|Not)\b)"
    r"|[,;]?\s*[\s(]\(?(?:because|since|where|attained|achieved|for all|for any)(?![a-z])).*",
    re.S,
)
# What introduces a value: any phrase before `is`, and words alone.
_PHRASE = rf"(?i)^(?!.*{_DENIAL})(?:[a-z']++,?\s++)*(?:is|are|equals|be)\s*:?\s+(?=\S)"
_INTRODUCTION = rf"(?i)^(?!.*{_CLAIM})(?:(?:[a-z']{{2,}}+|a)[,:]?\s++|{_CJK}[:：]?\s*+)++(?=[-+\d(\[{{\\.])"
# Plain words of three letters could be products of variables, so without a space before them they are no unit.
_ONE_UNIT = (
    r"(?:(?<![A-Za-z\\])(?:[A-Za-z][A-Za-z']{2,}+|[cmkdn]m|[km]g|m[lLs]|ft|in|mi|hr|[kM]?Hz|[kM]?Pa|k[WJN]|sq|cu"
    r"|[mghsdLJNAVWKCF-])(?![A-Za-z(])\.?(?:\s*\^\s*\{?-?\d\}?)?)"
)
_GLUED = r"(?<=\d)(?:[cmk]m|kg|ml|ft|mph)(?![A-Za-z])(?:\^\{?[23]\}?)?"
_UNITS = rf"(?:{_GLUED}|\s+{_ONE_UNIT})(?:[\s/·-]*(?:\\cdot)?\s*{_ONE_UNIT})*+"
_NOUNS = rf"(?:(?<=[\d}})\]!%|])|(?<=\\pi))\s*(?:{_UNITS}|\(\s*[A-Za-z][A-Za-z ',-]+\s*\)|{_CJK})\s*(?=[,;]|\Z)"
_ONE = r"(\d|[A-Za-z]|\\(?!frac|sqrt|binom)[A-Za-z]+)"
_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"


_TYPESET: tuple[Rule, ...] = (
    (r"(?<=[\d)])\*\*(?=[\d(-])", "^"),
    (r"\*\*", " "),
    (r"\\!", ""),
    (_LOOKS, " "),
    *[(_FACE, r" \1 ")] * 2,
)
_WORDS: tuple[Rule, ...] = (
    (r"(?<=[\d}])\s*(?:percent|pct)(?![A-Za-z])", "%"),
    (r"\s*,?\s*(?<![\\A-Za-z])(?:and|or)(?![A-Za-z])\s*|\s*[或和]\s*", ", "),
    (_PHRASE, ""),
    (_INTRODUCTION, ""),
    (_NOUNS, lambda match: match[0] if re.search(_CLAIM, match[0], re.I) else ""),
)
_FORMULA: tuple[Rule, ...] = (
    (r"\\\{\s*\\\}", r"\\emptyset "),
    (r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)[eE]([-+]?\d+)(?![\w.])", r"\1\\cdot10^{\2}"),
    # Plain roots have the whole number under them; TeX's have one token.
    (r"(\\sqrt(?:\[\d+\])?)\s+(\d+(?:\.\d+)?)", r"\1{\2}"),
    (r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)", lambda match: match[0].replace(",", THOUSANDS)),
    (r"(?<![\d./])\d{1,3}(?: +\d{3})+(?![\d/])", lambda match: match[0].replace(" ", "")),
    (r"(?<![\d./])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])", r"(\1+\\frac{\2}{\3})"),
    (r"(?<=\d)(?<![_^]\d)(?<!frac\d)\s+(?=\d)", ","),
    (r"\\[A-Za-z]+|\\.|[<>!:]=|\*", lambda match: _NAMES.get(match[0], match[0]) + " "),
    (r"([\^_]|\\sqrt\s*(?:\[\d+\])?)\s*\(((?:[^()]|\([^()]*\))*)\)", r"\1{\2}"),
    (r"\^\s*([-+]?\d+|[-+][A-Za-z])", r"^{\1}"),
    (rf"(\^|_|\\(?:frac|binom|sqrt\s*(?:\[[^\]]*\])?))\s*{_ONE}", r"\1{\2}"),
    (rf"(\\(?:frac|binom)\s*{_GROUP})\s*{_ONE}", r"\1{\2}"),
    (r"(\\[A-Za-z]+ )\s*(?=[A-Za-z])|\s+", lambda match: match[1] or ""),
)


def clean(answer: str) -> str:
    """The mathematics of an answer of at most a few thousand characters, without white space.

    Arguments and powers have braces, ``2^10`` and ``2^(10)`` have the power 10, and degrees are radians in
    trigonometric functions and units elsewhere.
    """
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]+", lambda match: "^{" + match[0].translate(_SMALL) + "}", answer)
    text = re.sub("[₀-₉]+", lambda match: "_{" + match[0].translate(_SMALL) + "}", text)
    text = re.sub("[¼-¾⅐-⅞]", r" \g<0>", text).translate(_SYMBOLS)
    text = unicodedata.normalize("NFKC", text).translate(_SYMBOLS)
    if re.search(_ROWS, text):
        text = re.sub(r"\\\\\s*&?\s*=", "=", re.sub(_ROWS, " ", text)).replace(r"\\", ",").replace("&", " ")
    text = _strip(_REMARK.sub("", _strip(_applied(_TYPESET, text))))
    text = " ".join(re.sub(r"(?<!\\)\$|\\[()]|\\\[|(?<!\\)\\\]", " ", text).split())
    text = re.sub(_FUNCTION, lambda match: "\\" + match[0].replace("infinity", "infty"), _strip(text))
    text = _applied(_FORMULA, _strip(_applied(_WORDS, text)))
    if not re.search(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])", text):
        return text.replace(r"^{\circ}", "")
    return re.sub(r"(\d+(?:\.\d+)?)\^\{\\circ\}", r"(\1\\cdot\\frac{\\pi}{180})", text)


def _applied(rules: Iterable[Rule], text: str) -> str:
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def _strip(text: str) -> str:
    """Without white space, markdown, quotation marks and punctuation at the ends, and without unmatched closers."""
    text = re.sub(r"^(?:[\s*`\"“”:=,#]|>\s|_(?=[_*\s\d$\\])|\}(?!\}))+", "", text)
    text = re.sub(r"(?:[\s*`\"“”,;:&?]|(?<!\.)\.|(?<!\\)_|\\\\|\\(?=\s*\Z))+\Z", "", text)
    while text.endswith("}") and text.count("}") > text.count("{"):
        text = text[:-1].rstrip(" .$")
    return text


class NotMathematics(ValueError):
    """A text that cannot be read as mathematics; the message says why."""


_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.S)
_OPENERS, _CLOSERS = ("(", "[", "{", "\\{", "\\begin"), (")", "]", "}", "\\}", "\\end")
_NUMBER = re.compile(r"([-+]?)(?:\\frac\{(\d+)\}\{0*([1-9]\d*)\}|(\d*\.?\d+|\d+\.)(?:/0*([1-9]\d*))?)(%?)")
_HALF = re.compile(r"\A[/^_)\]}=]|(?:[-+=^_<>/]|\\(?:cdot|le|ge|neq|cup|cap|in|approx|pm|frac|sqrt|frac\{[^{}]*\}))\Z")


def split(text: str, *separators: str) -> list[str]:
    """The parts of clean TeX between separators that stand in no brackets, unless these do not match."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in _OPENERS) - (token in _CLOSERS)
        if depth < 0:
            break
        if depth == 0 and token in separators:
            parts.append("")
        else:
            parts[-1] += token
    if depth:
        raise NotMathematics("the brackets do not match")
    return parts


def around(text: str) -> str:
    """The brackets that open with the text and close with its end; empty if there are none."""
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2 or tokens[0] not in _OPENERS[:-1] or tokens[-1] not in _CLOSERS[:-1]:
        return ""
    try:
        split("".join(tokens[1:-1]))
    except NotMathematics:
        return ""
    return tokens[0] + tokens[-1] if len(tokens[0]) == len(tokens[-1]) else ""


def check(text: str) -> str:
    """The clean text of a reference, unless it is neither words nor a whole formula, as far as is seen here."""
    split(text)
    if not re.search(r"[\dA-Za-z]", text):
        raise NotMathematics("it has no number, letter or word")
    if _HALF.search(text):
        raise NotMathematics("it begins or ends with half a formula")
    return text


def number(text: str) -> Fraction | None:
    """The value of an integer (also in a base), a decimal or a plain fraction, per cent or not; else None."""
    if based := re.fullmatch(r"(\d+)_\{([2-9]|10)\}", text):
        return Fraction(int(based[1], int(based[2]))) if int(max(based[1])) < int(based[2]) else None
    if not (found := _NUMBER.fullmatch(text.replace(THOUSANDS, ""))):
        return None
    sign, top, bottom, plain, slashed, percent = found.groups()
    value = Fraction(top or plain) / int(bottom or slashed or 1) / (100 if percent else 1)
    return -value if sign == "-" else value

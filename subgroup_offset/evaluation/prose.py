r"""Take an answer's mathematics out of the words, markdown and Unicode around it.

``There are $34$ ways.`` becomes ``34``, ``3 or 5`` becomes ``3, 5``, ``√2 cm`` becomes ``\sqrt 2``. Words that may
change what is answered (``34 million``, ``at most 34``, ``not 34``) stay, and what still holds words is no mathematics.
"""

from __future__ import annotations

import re
import unicodedata

#: Stands for a comma between groups of three digits, ``1,234``: a thousands separator, unless a list is asked for.
THOUSANDS = "\ue002"

_SYMBOLS = {
    **dict.fromkeys("−–—‒﹣", "-"),
    **dict.fromkeys("×⋅·∙∗", r"\cdot "),
    **dict.fromkeys("，、", ","),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
    **dict.fromkeys("€£¥₹", ""),
    **dict.fromkeys("∎□■✓✔✅", ""),
    **{"÷": "/", "⁄": "/", "∕": "/", "；": ";", "≤": r"\le ", "≥": r"\ge ", "≠": r"\neq ", "≈": r"\approx "},
    **{"π": r"\pi ", "∞": r"\infty ", "°": r"^{\circ}", "º": r"^{\circ}", "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup "},
    **{"∈": r"\in ", "∅": r"\emptyset ", "√": r"\sqrt ", "∛": r"\sqrt[3]", "θ": r"\theta ", "φ": r"\phi "},
    **{"ω": r"\omega ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "⟨": r"\langle ", "⟩": r"\rangle "},
    **{"⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "′": "'"},
}
_TRANSLATE = str.maketrans(_SYMBOLS)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_VULGAR = re.compile("(\\d*)\\s*([¼-¾⅐-⅞])")

# Text inside of formulas; in the second kind only the typeface differs.
_TEXT = re.compile(r"\\(?:text(?:rm|sf|tt|normal|up)?|mbox|hbox|mathrm|operatorname\*?|rm)\s*\{([^{}]*)\}")
_FACE = re.compile(r"\\(?:text(?:bf|it|sl)|math(?:bf|it|sf|tt|normal)|bm|boldsymbol|emph|underline)\s*\{([^{}]*)\}")
_UNIT_OPEN, _UNIT_CLOSE = "\ue000", "\ue001"
_SEPARATOR_WORDS = re.compile(r"\s*,?\s*(?<![\\A-Za-z])(?:and|or)(?![A-Za-z])\s*|\\(?:lor|vee|land|wedge)(?![A-Za-z])")

_SEGMENT = re.compile(
    r"\$\$([^$]++)\$\$|\\\[((?:[^\\]|\\[^\]])++)\\\]|\\\(((?:[^\\]|\\[^)])++)\\\)"
    r"|(?<!\\)\$((?:[^$\\]|\\.)++)\$",
    re.DOTALL,
)
_DELIMITER = re.compile(r"(?<!\\)\$|\\[()]|\\\[|(?<!\\)\\\]")
_ONLY_WORDS = re.compile(r"[\sA-Za-z'’:.,;=*_()\"“”]*")
# A lone letter before a formula multiplies it, as in n$\sqrt{2}$, unless it is an article or a left side.
_FACTOR = re.compile(r"(?<![A-Za-z])[b-hj-zB-HJ-Z](?![A-Za-z'’]|\s*[=:(])")
# What may follow a sentence's end: words without numbers or formulas.
_NEXT_SENTENCE = re.compile(r"(?<=[\w})\]!%])\.\s+[A-Z][^\d$\\=]*\Z")
_INTRODUCTION = re.compile(r"^(?:[A-Za-z'’]+\s+){1,20}(?:is|are|equals|be)\s*:?\s+(?=\S)")

_FUNCTIONS = "sqrt|pi|infinity|infty|sin|cos|tan|cot|csc|arcsin|arccos|arctan|sinh|cosh|tanh|log|ln|exp|lcm|gcd|binom"
_FUNCTION = re.compile(rf"(?<![\\A-Za-z])({_FUNCTIONS})(?![A-Za-z])")
_MARKED = f"{_UNIT_OPEN}[^{_UNIT_CLOSE}]*{_UNIT_CLOSE}"
# Plain words of three letters could be products of variables.
_WORD = r"(?<![A-Za-z])(?:[A-Za-z][A-Za-z'’]{3,}|cm|mm|km|kg|mg|ml|ft|in|mi|sec|min|day|men|way)(?![A-Za-z])"
_UNIT = rf"(?:\s*{_MARKED}|\s+{_WORD}|(?<=\d)(?:cm|mm|km|kg|ml|ft)(?![A-Za-z]))(?:[\s-]*{_MARKED}|[\s-]+{_WORD})*"
_LEADING = re.compile(rf"\A\s*({_MARKED})\s*(?=\S)")
_TRAILING = re.compile(
    rf"(?:(?<=[\d}})\]!%|])|(?<=\\pi))(?:({_UNIT})\.?(?:\^\{{?-?[1-3]\}}?)?|\s+\(([A-Za-z '’-]{{4,}})\))\s*(?=[,;]|\Z)"
)
# Words after which a number is not what is answered.
_DENYING = frozenset("not no cannot never impossible isn doesn wrong incorrect false unless except if".split())  # noqa: SIM905
# Words that no unit or noun phrase has: the number beside them is not, or not all of, the answer.
_MEANINGFUL = _DENYING | frozenset(
    """
    hundred thousand million billion trillion hundreds thousands millions dozen dozens score percent percentage half
    halves third thirds quarter quarters fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth
    tenths hundredth hundredths thousandth thousandths twice thrice double triple negative times plus minus over
    divided by of to than mod modulo base choose factorial squared cubed power root less more fewer greater least most
    up between from approximately about around nearly roughly almost or and but when where with without then else
    """.split()  # noqa: SIM905
)


def mathematics(answer: str) -> str:
    """The mathematics of an answer, as TeX or plain text without delimiters.

    Args:
        answer: as found in a response or a data set, at most a few thousand characters.
    """
    text = _typeface(_unicode(_strip(answer)))
    text = _NEXT_SENTENCE.sub("", text)
    text = _strip(" ".join(_one_segment(text).split()))
    text = _FUNCTION.sub(lambda match: "\\" + {"infinity": "infty"}.get(match[1], match[1]), text)
    text = re.sub(r"(?<=\d|\})\s*(?:percent|pct)(?![A-Za-z])", "%", text)
    text = re.sub(r"(?<=\d|\})\s*degrees?(?![A-Za-z])", r"^{\\circ}", text)
    text = _SEPARATOR_WORDS.sub(", ", _INTRODUCTION.sub(_drop_introduction, text))
    text = _TRAILING.sub(_drop_unit, _LEADING.sub(_drop_unit, text))
    return _spaces(_strip(text.replace(_UNIT_OPEN, " ").replace(_UNIT_CLOSE, " ")))


def _strip(text: str) -> str:
    """Without white space, markdown, quotation marks and punctuation at the ends, and without unmatched closers."""
    text = re.sub(r"^(?:[\s*`\"“”:=,]|_(?=[_*\s\d$\\])|\}(?!\}))+", "", text)
    while True:
        shorter = re.sub(r"(?:[\s*`\"“”,;:。]|(?<!\.)\.|(?<!\\)_|\\\\|\\(?=\s*\Z))+\Z", "", text)
        shorter = re.sub(r"(?<=\S)\s*\\[,;! ]?\Z", "", shorter)
        if shorter.endswith("}") and not shorter.endswith("\\}") and _excess(shorter) > 0:
            shorter = shorter[:-1]
        if shorter == text:
            return text
        text = shorter


def _excess(text: str) -> int:
    """Closing minus opening braces, escaped ones left aside."""
    plain = re.sub(r"\\.", "", text)
    return plain.count("}") - plain.count("{")


def _unicode(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = _VULGAR.sub(lambda match: f"{match[1]} " + unicodedata.normalize("NFKC", match[2]), text)
    return unicodedata.normalize("NFKC", text.translate(_TRANSLATE)).translate(_TRANSLATE)


def _typeface(text: str) -> str:
    r"""Bold and italic text as it is, upright text of words between marks, so that ``\text{m}`` is no variable m."""
    for _ in range(3):
        text = _FACE.sub(r" \1 ", text)
    return _TEXT.sub(lambda match: _upright(match[1]), text)


def _upright(content: str) -> str:
    words = content.strip(" .~")
    if not words:
        return " "
    if re.search(r"[\d\\$]", words) or _SEPARATOR_WORDS.fullmatch(words) or _FUNCTION.fullmatch(words):
        return f" {words} "
    if words.lower() in ("percent", "degrees", "degree"):
        return f" {words.lower()} "
    return f"{_UNIT_OPEN}{words}{_UNIT_CLOSE}"


def _one_segment(text: str) -> str:
    """The only formula, where words alone surround it; else the whole without delimiters."""
    segments = list(_SEGMENT.finditer(text))
    if len(segments) == 1:
        (match,) = segments
        before, after = text[: match.start()], text[match.end() :]
        around = f"{before} {after}"
        if _ONLY_WORDS.fullmatch(around) and not _meaningful(around) and not _FACTOR.search(before):
            return next(filter(None, match.groups()))
    return _DELIMITER.sub(" ", text)


def _meaningful(words: str, meaningful: frozenset[str] = _MEANINGFUL) -> bool:
    return not meaningful.isdisjoint(re.findall(r"[a-z]+", words.lower()))


def _drop_introduction(match: re.Match[str]) -> str:
    return match[0] if _meaningful(match[0], _DENYING) else ""


def _drop_unit(match: re.Match[str]) -> str:
    return match[0] if any(map(_meaningful, filter(None, match.groups()))) else ""


def _spaces(text: str) -> str:
    """Spaces between digits: groups of thousands, mixed numbers, or a list."""
    text = re.sub(r"(\\[dtc]?frac|\\[dt]?binom)\s*(\d)\s*(\d)", r"\1{\2}{\3}", text)
    text = re.sub(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)", lambda match: match[0].replace(",", THOUSANDS), text)
    text = re.sub(r"(?<=\d)(?:\\[,;:! ]|\{,\}|~)+(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<![\d./])\d{1,3}(?: \d{3})+(?![\d/])", lambda match: match[0].replace(" ", ""), text)
    text = re.sub(r"(?<![\d./])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])", r"(\1+\\frac{\2}{\3})", text)
    return re.sub(r"(?<=\d)(?<![_^]\d)(?<![_^]\d\d)\s+(?=\d)", ",", text)

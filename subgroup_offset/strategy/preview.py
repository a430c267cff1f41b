"""Recover the first well-formed solution preview from a raw strategy-stage generation.

Paper, appendix "Strategy prompt and extraction": at temperature 1.0 a model often does not stop at the sketch. It goes
on into a second block, drifts into solving, or leaks role and template tokens, so the raw text is never used.

Every pattern here is possessive (``*+``) or starts at a character that owns the spaces after it, so that no text,
however long or odd, takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

CONDITIONS = "[KEY CONDITIONS]"
IDEA = "[KEY IDEA]"
#: The line that parts the two previews of a paired generation.
PAIR_MARKER = "[ANOTHER APPROACH]"

# Brackets as models write them: plain, escaped as in markdown, full-width.
_OPEN, _CLOSE = r"\\?[\[【［]", r"\\?[\]】］]"
# What may stand around a header without changing its meaning: spaces (zero-width ones too), markdown.
_DECORATION = "\\s\ufeff\u200b\u2060#*_>`"
_INNER = rf"{_OPEN}\s*+key\s*+(?:(?P<conditions>conditions?)|ideas?)\s*+{_CLOSE}"
_HEADER = re.compile(rf"[{_DECORATION}]*+{_INNER}[{_DECORATION}:：]*+", re.IGNORECASE)
_MARKER = re.compile(rf"{_OPEN}\s*+another\s*+approach\s*+{_CLOSE}", re.IGNORECASE)
# A header or the marker inside other text: the sketch has ended and a new block has begun within the bullet.
_INNER_HEADER = re.compile(rf"{_INNER}|{_MARKER.pattern}", re.IGNORECASE)
# A mark that needs no space after it is one that begins no word, number or formula.
_BULLET = re.compile(
    "[\\s\ufeff\u200b\u2060]*+"
    r"(?:(?:[-*–—·]|\(?\d{1,2}[.)])(?:\s++|$)|[•‣◦▪●]\s*+|\d{1,2}[、．]\s*+|（\d{1,2}）\s*+)(?P<content>.*)"
)
_WORD = re.compile(r"\w")
# What a header cut out of a bullet leaves in front of itself: white space and markdown.
_TRAILING = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "#*_>`"

# Tokens and turns that a chat template leaves in the text. None looks at what follows it, so that what is left after
# the first one holds no other.
_LEAKED = re.compile(
    r"<\|[a-z][^|<>]{2,40}\|>|<\|(?:im|eo|end|start|begin|assistant|user|system|human|pad)|<｜[^｜<>]{1,40}｜>"
    r"|</?(?:s|think|answer|tool_call|assistant|user|system|human|bos|eos|pad|unk|(?:end|start)_of_turn)>"
    r"|\[/?INST\]|<</?SYS>>|(?:assistant|(?<![a-z])(?:user|human)|(?-i:User|Human))\s*+[:：]"
    r"|(?-i:(?<=[a-z.!?;。！？；)\]])(?:Assistant|User|Human|System))",
    re.IGNORECASE,
)
_ROLES = ("assistant", "system", "human", "user")
_SENTENCE_ENDS = frozenset(".!?;。！？；")
_AFTER_ROLE = _SENTENCE_ENDS | frozenset(":：")
_CLOSING = frozenset(')]}$*"”’）】')
# A bullet that states the result. "The answer is asked as a sum" does not: only a value after it does.
_ANSWER = re.compile(
    r"\\(?:boxed|fbox)|####|^\W*+(?:the\s++)?(?:final\s++)?(?:answer|答案)[\s*_]*+[:：=]"
    r"|(?:\banswer\s*+(?:is|equals|[:：=])|答案(?:是|为|[:：=]))[\s$\\({\[*]*+[-+−]?\d",
    re.IGNORECASE,
)


def extract_preview(text: str) -> str | None:
    """The first well-formed preview in a raw generation, in canonical form, or None where there is none.

    Starting at the first ``[KEY CONDITIONS]`` line, header, bullet and blank lines are read. The preview ends before
    the first line that is none of these and before a second header of either kind. Inside a bullet it ends at a
    header or marker, at a role or end token (what stands before is kept) and before a bullet that states an answer.
    Both sections need a bullet with a word in it. Case, spaces, markdown, full-width brackets and the bullets' style
    do not matter: numbered and nested bullets become plain ones, blank lines and empty bullets are dropped.

    The rules are structural (paper, appendix "Strategy prompt and extraction"); what a bullet says is not judged
    beyond that. Ending at stated answers, and cutting at tokens inside a bullet, are additions of ours.

    Args:
        text: what the model emitted, any text of any length; takes time linear in it.

    Returns:
        The preview, with canonical headers and ``- `` bullets (extracting it again gives the same), or None for an
        unusable candidate.
    """
    return _extract(text.splitlines())


def extract_pair(text: str) -> tuple[str, str] | None:
    """The two previews of a paired generation, or None unless both can be extracted.

    The text is split at the first :data:`PAIR_MARKER` after the first ``[KEY CONDITIONS]`` line (what a model says
    before may quote the marker); each half is then read by the rules of :func:`extract_preview`.

    Args:
        text: what the model emitted; takes time linear in it.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _header(line) == CONDITIONS), len(lines))
    for i in range(start, len(lines)):
        marker = _MARKER.search(lines[i])
        if marker:
            first = _extract([*lines[start:i], lines[i][: marker.start()]])
            second = _extract([lines[i][marker.end() :], *lines[i + 1 :]])
            return (first, second) if first and second else None
    return None


def _extract(lines: Iterable[str]) -> str | None:
    sections: dict[str, list[str]] = {}
    bullets: list[str] | None = None  # those of the section being read; None: the preview has not begun
    for line in lines:
        name = _header(line)
        if bullets is None and name != CONDITIONS:
            continue
        if name:
            if name in sections:
                break
            bullets = sections.setdefault(name, [])
            continue
        if not line.strip():
            continue
        bullet, ended = _read_bullet(line)
        if bullet and bullets is not None:
            bullets.append(bullet)
        if ended:
            break
    if not sections.get(CONDITIONS) or not sections.get(IDEA):
        return None
    return "\n".join(part for name in (CONDITIONS, IDEA) for part in (name, *(f"- {b}" for b in sections[name])))


def _header(line: str) -> str | None:
    """The canonical header a line stands for; a header behind a bullet mark is none, it has leaked into a bullet."""
    match = None if _BULLET.match(line) else _HEADER.fullmatch(line)
    if not match:
        return None
    return CONDITIONS if match["conditions"] else IDEA


def _read_bullet(line: str) -> tuple[str | None, bool]:
    """A bullet line's text (None: it has none) and whether the preview ends in or before this line."""
    match = _BULLET.match(line)
    if not match:
        return None, True
    whole = content = match["content"].strip()
    inner = _INNER_HEADER.search(content)
    if inner:
        content = content[: inner.start()].rstrip(_TRAILING)
    leaked = _LEAKED.search(content)
    if leaked:
        content = content[: leaked.start()].rstrip()
    content = _without_role(content)
    if _ANSWER.search(content):
        return None, True
    return (content if _WORD.search(content) else None), content != whole


def _without_role(content: str) -> str:
    """Cut bare role words off the end: ``... by parity. user``, ``... by parityassistant``.

    "Solve the system" stays: a role word counts only alone, after a sentence's end, or glued to what cannot be the
    first part of a word. Walks back by index, because cutting a copy each time would be quadratic.
    """
    end = len(content)
    while True:
        stop = end
        while stop and (content[stop - 1].isspace() or content[stop - 1] in _AFTER_ROLE):
            stop -= 1
        tail = content[max(0, stop - 9) : stop].lower()
        role = next((r for r in _ROLES if tail.endswith(r)), None)
        if role is None:
            return content[:end]
        start = before = stop - len(role)
        while before and content[before - 1].isspace():
            before -= 1
        last = content[before - 1] if before else ""
        glued = before == start and (
            last in _CLOSING or "\u4e00" <= last <= "\u9fff" or (role == "assistant" and last.isalpha())
        )
        if before and not glued and last not in _SENTENCE_ENDS:
            return content[:end]
        end = before

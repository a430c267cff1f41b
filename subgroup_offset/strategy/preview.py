"""Recover the first well-formed solution preview from a raw strategy-stage generation.

Paper, appendix "Strategy prompt and extraction": at temperature 1.0 a model often does not stop at the sketch. It goes
on into a second block, drifts into solving, or leaks role and template tokens, so the raw text is never used.

Every pattern here is possessive (``*+``) or starts at a character that owns the spaces after it, so that no text,
however long or odd, takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from subgroup_offset.strategy.thoughts import without_tags, without_thoughts

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

# Tokens and turns that a chat template leaves in the text. None looks at what follows it, so that what is left in front
# of the first one holds no other. A role in lower case before a colon is an ordinary word ("each user: two tickets")
# unless a turn can begin there: at the bullet's start, behind a sentence's end, glued to what begins no word.
_LEAKED = re.compile(
    r"<\|[a-z][^|<>]{2,40}\|>|<\|(?:im|eo|end|start|begin|assistant|user|system|human|pad)|<｜[^｜<>]{1,40}｜>"
    r"|</?(?:s|answer|tool_call|assistant|user|system|human|bos|eos|pad|unk|(?:end|start)_of_turn)>"
    r"|\[/?INST\]|<</?SYS>>"
    r"|(?:^[\s*_]*+|(?<=[.!?;。！？；])[\s*_]*+|(?<=[)\]}$”’）】\u4e00-\u9fff]))(?:user|human|assistant)[\s*_]*+[:：]"
    r"|(?<=\w)assistant\s*+[:：]|(?-i:(?<![a-z])(?:USER|HUMAN|ASSISTANT)|User|Human|Assistant)\s*+[:：]"
    r"|(?-i:(?<=[a-z.!?;。！？；)\]])(?:Assistant|User|Human|System))",
    re.IGNORECASE,
)
# A line with which the next user turn begins: what follows is about another problem.
_USER_TURN = re.compile(
    r"^[\s*#>_]*+(?:user|human)\s*+(?:$|[:：])|<(?:\|im_start\||\|start_header_id\||start_of_turn)>\s*+(?:user|human)"
    r"|<[|｜](?:user|human)[|｜]>|\[INST\]",
    re.IGNORECASE,
)
_ROLES = ("assistant", "system", "human", "user")
_SENTENCE_ENDS = frozenset(".!?;。！？；")
_AFTER_ROLE = _SENTENCE_ENDS | frozenset(":：")
_CLOSING = frozenset(')]}$*"”’）】')
# What a box is shown with that is not filled in: nothing, dots, the word "answer".
_BLANK_BOX = r"\{(?:[\s.…_?]|\\[lc]?dots)*+(?:\\text\s*+\{)?(?:(?:your|the|final)\s++)*+(?:answer|result)?\s*+\}"
# A bullet that states the result. "The answer is asked as a sum" does not, nor does "put it in \boxed{} after ####":
# only a value does. A line that begins with "Answer:" states one whatever follows.
_ANSWER = re.compile(
    rf"\\(?:boxed|fbox)\s*+(?:\d|(?!{_BLANK_BOX})\{{)"
    r"|####[\s$({\[*]*+(?:[-+−.]?\d|\\(?:[dt]?frac|sqrt|pi))"
    r"|^\W*+(?:the\s++)?(?:final\s++)?(?:answer|答案)[\s*_]*+[:：=]"
    r"|(?:\banswer\s*+(?:is|equals|[:：=])|答案(?:是|为|[:：=]))[\s$\\({\[*]*+[-+−]?\d++(?![-\s]*+(?:times|digits?)\b)",
    re.IGNORECASE,
)


def extract_preview(text: str) -> str | None:
    """The first well-formed preview in a raw generation, in canonical form, or None where there is none.

    Thoughts are not read (:func:`without_thoughts`). From a ``[KEY CONDITIONS]`` line on, header, bullet and blank
    lines are. The preview ends before the first line that is none of these and before a second header of either kind.
    Inside a bullet it ends at a header or marker, at a role or end token (what stands before is kept) and before a
    bullet that states an answer. Both sections need a bullet with a word in it; where one has none, reading starts
    again at the next ``[KEY CONDITIONS]`` line, but not beyond the start of another user turn. Case, spaces, markdown,
    full-width brackets and the bullets' style do not matter: numbered and nested bullets become plain ones, blank
    lines and empty bullets are dropped.

    The rules are structural (paper, appendix "Strategy prompt and extraction"); what a bullet says is not judged
    beyond that. Ending at stated answers, cutting at tokens inside a bullet, leaving out thoughts and going on behind
    a block that is not well formed are additions of ours.

    Args:
        text: what the model emitted, any text of any length; takes time linear in it.

    Returns:
        The preview, with canonical headers and ``- `` bullets (extracting it again gives the same), or None for an
        unusable candidate.
    """
    return next((p for part in without_thoughts(text) for p in _previews(_first_turn(part))), None)


def extract_pair(text: str) -> tuple[str, str] | None:
    """The two previews of a paired generation, or None unless there are two on different sides of a marker.

    The text outside thoughts is split at every :data:`PAIR_MARKER`, and each part read by the rules of
    :func:`extract_preview`; the first two parts with a preview make the pair. So a marker quoted before, or a format
    repeated with dots in it, is passed over.

    Args:
        text: what the model emitted; takes time linear in it.
    """
    for part in without_thoughts(text):
        halves = (next(_previews(lines), None) for lines in _parted(_first_turn(part)))
        first, second = [*islice(filter(None, halves), 2), None, None][:2]
        if first and second:
            return first, second
    return None


def all_previews(text: str) -> list[str]:
    """Every well-formed preview in a text, in order and in canonical form, in thoughts as well."""
    return list(_previews(without_tags(text).splitlines()))


def _parted(lines: Iterable[str]) -> list[list[str]]:
    """The lines between one marker and the next."""
    parts: list[list[str]] = [[]]
    for line in lines:
        first, *others = _MARKER.split(line)
        parts[-1].append(first)
        parts.extend([other] for other in others)
    return parts


def _previews(lines: Iterable[str]) -> Iterator[str]:
    sections: dict[str, list[str]] = {}
    bullets: list[str] | None = None  # those of the section being read; None: no block has begun
    for line in lines:
        name = _header(line)
        if name:
            if name in sections or bullets is None:
                yield from _well_formed(sections)
                sections = {}
            # An idea before any conditions begins no block.
            bullets = sections.setdefault(name, []) if sections or name == CONDITIONS else None
        elif bullets is not None and line.strip():
            bullet, ended = _read_bullet(line)
            if bullet:
                bullets.append(bullet)
            if ended:
                yield from _well_formed(sections)
                sections, bullets = {}, None
    yield from _well_formed(sections)


def _well_formed(sections: dict[str, list[str]]) -> Iterator[str]:
    if sections.get(CONDITIONS) and sections.get(IDEA):
        yield "\n".join(part for name in (CONDITIONS, IDEA) for part in (name, *(f"- {b}" for b in sections[name])))


def _first_turn(text: str) -> Iterator[str]:
    """The lines of a text up to the user's next turn; what stands before the first block may be a prompt."""
    begun = False
    for line in text.splitlines():
        begun = begun or _header(line) == CONDITIONS
        if begun and _USER_TURN.search(line) and not _BULLET.match(line):
            return
        yield line


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

"""Recover the first well-formed solution preview from a raw strategy-stage generation.

Paper, appendix "Strategy prompt and extraction": at temperature 1.0 a model often does not stop at the sketch. It goes
on into a second block, drifts into solving, or leaks role and template tokens, so the raw text is never used.
"""

from __future__ import annotations

import re

CONDITIONS = "[KEY CONDITIONS]"
IDEA = "[KEY IDEA]"

# Headers are compared without the decoration that does not change their meaning: case, spaces, markdown, a colon.
_HEADER = re.compile(r"^[\s#*_>]*\[\s*key\s+(conditions?|ideas?)\s*\][\s*_:]*$", re.IGNORECASE)
# A header standing inside a line of other text: the sketch has ended and a new block has begun within the bullet.
_INNER_HEADER = re.compile(r"\[\s*key\s+(?:conditions?|ideas?)\s*\]", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+(\S.*)$")
# Role and end tokens that a chat template leaves glued to the last bullet.
_LEAKED = re.compile(
    r"(?:<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<(?:end|start)_of_turn>|\[/?INST\]"
    r"|(?:^|(?<=[.!?;:)\]]))\s*(?:assistant|user|system)\s*:?\s*$)",
    re.IGNORECASE,
)


def extract_preview(text: str) -> str | None:
    """The first well-formed preview in a raw generation, in canonical form, or None where there is none.

    Starting at the first ``[KEY CONDITIONS]`` line, header, bullet and blank lines are kept. The preview ends before
    the first line that is none of these, before a second ``[KEY CONDITIONS]`` and at a header inside a bullet; a role
    or end token glued to a bullet is cut off and ends it too. Both sections need at least one bullet.

    Args:
        text: what the model emitted, any text of any length; takes time linear in it.

    Returns:
        The preview, with canonical headers and ``- `` bullets, or None for an unusable candidate.
    """
    sections: dict[str, list[str]] = {}
    bullets: list[str] | None = None  # those of the section being read
    for line in text.splitlines():
        header = _HEADER.match(line) if len(line) < 200 else None
        if header:
            name = CONDITIONS if header[1].lower().startswith("condition") else IDEA
            if bullets is None and name != CONDITIONS:
                continue  # a stray idea header before the preview has begun
            if name in sections:
                break
            bullets = sections.setdefault(name, [])
            continue
        if bullets is None or not line.strip():
            continue
        bullet, ended = _read_bullet(line)
        if bullet:
            bullets.append(bullet)
        if ended or not bullet:
            break
    if not sections.get(CONDITIONS) or not sections.get(IDEA):
        return None
    return "\n".join(part for name in (CONDITIONS, IDEA) for part in (name, *(f"- {b}" for b in sections[name])))


def _read_bullet(line: str) -> tuple[str | None, bool]:
    """A bullet line's text (None: not a bullet) and whether something leaked into it, which ends the preview."""
    match = _BULLET.match(line)
    if not match:
        return None, True
    content = match[1]
    inner = _INNER_HEADER.search(content)
    leaked = _LEAKED.search(content)
    cuts = [m.start() for m in (inner, leaked) if m]
    kept = content[: min(cuts)].strip() if cuts else content.strip()
    return (kept or None), bool(cuts)

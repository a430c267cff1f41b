"""What a generation says outside its thoughts.

A reasoning model thinks first, between tags, and may draft there what it then answers otherwise. The tags are often
ordinary tokens (Qwen3's are), so that they stand in the decoded text.
"""

from __future__ import annotations

import re

# The spellings of Qwen3, DeepSeek-R1 and SmolLM3 (<think>), their variants, Magistral, OpenThinker, Kimi and Seed-OSS.
# A tag holds no "<", so that each "<" of a text is looked at once.
_TAG = re.compile(
    r"<\|?(?P<close>/)?(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)\|?>"
    r"|\[(?P<close_bracket>/)?think\]|◁(?P<close_kimi>/)?think▷|<\|(?:begin|(?P<end>end))_of_thought\|>",
    re.IGNORECASE,
)
#: Stands where a thought or a tag stood, on a line of its own: no preview goes on across it.
_GAP = "\n</think>\n"


def without_thoughts(text: str) -> tuple[str, ...]:
    """What stands outside the thoughts of a text, as one or two texts, the one to read first in front.

    A thought goes from its opening tag to the next closing one, or to the end where it was never closed: a model that
    ran out of tokens while it thought has not answered, whatever it drafted. A closing tag without an opening one ends
    a thought that the chat template had opened, or one that mentioned a tag, so what stands behind it is read first.
    It may also be a token that leaked into the answer: then what stands before it, read second, is all there is.

    Args:
        text: any text; takes time linear in it.
    """
    before: list[str] = []
    outside: list[str] = []
    start, thinking = 0, False
    for tag in _TAG.finditer(text):
        closes = tag.lastgroup is not None
        if not thinking:
            outside.append(text[start : tag.start()])
            if closes:
                before, outside = before + outside, []
        start, thinking = tag.end(), not closes
    if not thinking:
        outside.append(text[start:])
    return tuple(_GAP.join(parts) for parts in (outside, before) if parts)


def without_tags(text: str) -> str:
    """The text with its thoughts, but each tag on a line of its own."""
    return _TAG.sub(_GAP, text)

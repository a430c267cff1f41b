"""Whether a preview only repeats what the prompt shows: its placeholder block or one of its examples.

A model that copies them has said nothing about the problem; a diverse selection would even prefer such copies, since
they are far from all that the other candidates say.
"""

from __future__ import annotations

from collections.abc import Iterable

from subgroup_offset.strategy.preview import CONDITIONS, IDEA
from subgroup_offset.strategy.selection import jaccard_distance, words

#: Word-set Jaccard distance up to which a preview repeats a block of its prompt. Two previews of one approach to two
#: seating problems are 0.64 apart; a copy in which every fourth word is replaced is 0.4.
NEAR = 0.4
#: Share of a preview's words in one block of its prompt from which it is a part of it, as a copy that was cut off is.
CONTAINED = 0.9
#: Fewer different words may all stand in a block by chance, so that they are never taken for a part of it.
LEAST_WORDS = 8


def is_echo(preview: str, examples: Iterable[str]) -> bool:
    """Whether a preview (nearly) repeats one of the blocks that its prompt shows, or a part of it.

    Only the bullets are compared, because headers are alike in all previews.

    Args:
        preview: an extracted preview.
        examples: the blocks of the template that asked for it (:meth:`PromptTemplates.examples`).
    """
    text = _bullets(preview)
    return any(_repeats(text, _bullets(example)) for example in examples)


def _repeats(text: str, example: str) -> bool:
    said = words(text)
    part = len(said) >= LEAST_WORDS and len(said & words(example)) >= CONTAINED * len(said)
    return part or jaccard_distance(text, example) <= NEAR


def _bullets(preview: str) -> str:
    return "\n".join(line for line in preview.splitlines() if line not in (CONDITIONS, IDEA))

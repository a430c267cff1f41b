"""The four strategies of the world: how often each succeeds and the words of its preview."""

import random
from dataclasses import dataclass

CONDITIONS_HEADER = "[KEY CONDITIONS]"
IDEA_HEADER = "[KEY IDEA]"
PAIR_MARKER = "[ANOTHER APPROACH]"  # The line between the two previews of a pair.

Bullet = tuple[str, ...]  # Wording variants of one bullet.


@dataclass(frozen=True)
class Strategy:
    """A strategy: its name in a response's Method line, success rate, share in plain responses, and bullets.

    Variants of a bullet differ in a word or two, and strategies share almost no content words, so the word-set
    Jaccard distance is small within a strategy and large between strategies.
    """

    name: str
    success: float
    plain_share: float
    conditions: tuple[Bullet, Bullet]
    idea: tuple[Bullet, Bullet]


# Success rates follow the paper's Table 6 (6/8, 4/8, 1/8, 0/8). The plain shares make plain accuracy about 0.29.
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "recall",
        0.75,
        0.2,
        (
            ("two whole numbers are given", "two small numbers are given", "two whole numbers are stated"),
            ("their product is wanted", "their product is needed", "the product is wanted"),
        ),
        (
            ("recall the times table", "remember the times table", "recall the known table"),
            ("read off the product", "read the product off", "look up the product"),
        ),
    ),
    Strategy(
        "split",
        0.5,
        0.2,
        (
            ("one factor splits into easy parts", "one factor breaks into easy parts", "one factor splits into parts"),
            ("each part stays short", "each part stays simple", "each part remains short"),
        ),
        (
            ("multiply every part alone", "multiply every part separately", "scale every part alone"),
            ("then add partial sums", "then add partial results", "finally add partial sums"),
        ),
    ),
    Strategy(
        "estimate",
        0.125,
        0.3,
        (
            ("both values lie near ten", "both values sit near ten", "both values lie around ten"),
            ("only a rough size matters", "only a coarse size matters", "just a rough size matters"),
        ),
        (
            ("round both values to ten", "push both values to ten", "round both values up"),
            ("adjust a rough guess by feel", "adjust a coarse guess by feel", "correct a rough guess by feel"),
        ),
    ),
    Strategy(
        "pattern",
        0.02,
        0.3,
        (
            ("some digits look alike", "some digits seem alike", "many digits look alike"),
            ("odd shapes repeat here", "odd shapes recur here", "odd curves repeat here"),
        ),
        (
            ("compare digits by shape", "match digits by shape", "compare digits by outline"),
            (
                "choose whichever shape fits nicely",
                "choose whichever shape fits best",
                "pick whichever shape fits nicely",
            ),
        ),
    ),
)


def by_name(name: str) -> Strategy:
    """The strategy called `name`; KeyError names the known ones."""
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    raise KeyError(f"strategy {name!r} is unknown; use one of {[s.name for s in STRATEGIES]}")


def sample_plain_strategy(rng: random.Random) -> Strategy:
    """The strategy a plain response follows, drawn with the plain shares."""
    return rng.choices(STRATEGIES, weights=[s.plain_share for s in STRATEGIES])[0]

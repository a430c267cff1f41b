"""Previews of a strategy, alone or in pairs: well-formed ones, and the malformed ones an extractor has to deal with."""

import random

from .problems import ToyProblem
from .responses import solve
from .strategies import CONDITIONS_HEADER, IDEA_HEADER, PAIR_MARKER, STRATEGIES, Bullet, Strategy

MALFORMED_SHARE = 0.04
CHATTER = "Sure, here is a preview:"


def _section(rng: random.Random, header: str, bullets: tuple[Bullet, ...]) -> str:
    return "\n".join([header, *(f"- {rng.choice(variants)}" for variants in bullets)])


def preview(rng: random.Random, strategy: Strategy) -> str:
    """A well-formed preview of `strategy`: two sections of two bullets, no numbers, no final newline."""
    conditions = _section(rng, CONDITIONS_HEADER, strategy.conditions)
    return f"{conditions}\n{_section(rng, IDEA_HEADER, strategy.idea)}"


def malformed_preview(rng: random.Random, strategy: Strategy, problem: ToyProblem) -> str:
    """What models write instead of a sketch: drift into solving, a missing section, chatter, a second block.

    Drift after the sketch, chatter before it and a second block leave a sketch to be recovered; drift in place of
    the key idea and a missing section do not.
    """
    solving = solve(rng, problem, strategy).text.partition("\n")[2]  # Without the Method line.
    conditions = _section(rng, CONDITIONS_HEADER, strategy.conditions)
    whole = preview(rng, strategy)
    kinds = (
        f"{whole}\n{solving}",
        f"{conditions}\n{solving}",
        conditions,
        f"{CHATTER}\n{whole}",
        f"{whole}\n{conditions}",
    )
    return rng.choice(kinds)


def strategy_response(rng: random.Random, problem: ToyProblem) -> str:
    """The warm start's answer to a strategy prompt: each strategy equally likely, a few previews malformed."""
    strategy = rng.choice(STRATEGIES)
    if rng.random() < MALFORMED_SHARE:
        return malformed_preview(rng, strategy, problem)
    return preview(rng, strategy)


def malformed_pair(rng: random.Random, first: Strategy, second: Strategy) -> str:
    """A pair that cannot be extracted: the marker is missing, or a section of the second preview."""
    head = preview(rng, first)
    conditions = _section(rng, CONDITIONS_HEADER, second.conditions)
    idea = _section(rng, IDEA_HEADER, second.idea)
    kinds = (
        f"{head}\n{conditions}\n{idea}",
        f"{head}\n{PAIR_MARKER}\n{conditions}",
        f"{head}\n{PAIR_MARKER}\n{idea}",
    )
    return rng.choice(kinds)


def paired_response(rng: random.Random) -> str:
    """The warm start's answer to a paired prompt: two different strategies, drawn uniformly, a few pairs malformed."""
    first, second = rng.sample(STRATEGIES, 2)
    if rng.random() < MALFORMED_SHARE:
        return malformed_pair(rng, first, second)
    return f"{preview(rng, first)}\n{PAIR_MARKER}\n{preview(rng, second)}"

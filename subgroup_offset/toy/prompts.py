"""The prompts of the three templates, each the content of a single user message."""

from functools import lru_cache

from jinja2 import Environment, StrictUndefined, Template

from .strategies import PAIR_MARKER
from .templates import EXECUTION_TEMPLATE, PAIRED_TEMPLATE, STRATEGY_TEMPLATE


@lru_cache
def _template(text: str) -> Template:
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text)


def strategy_prompt(problem: str) -> str:
    """Asks for a preview of `problem`."""
    return _template(STRATEGY_TEMPLATE).render(problem=problem)


def paired_prompt(problem: str) -> str:
    """Asks for previews of two strategies for `problem`."""
    return _template(PAIRED_TEMPLATE).render(problem=problem, marker=PAIR_MARKER)


def execution_prompt(problem: str, preview: str) -> str:
    """Asks to solve `problem` by `preview`."""
    return _template(EXECUTION_TEMPLATE).render(problem=problem, preview=preview)


def messages(content: str) -> list[dict[str, str]]:
    """A chat of one user message."""
    return [{"role": "user", "content": content}]

"""The two prompts of two-stage generation, as Jinja2 templates that a run may replace.

Written after the paper's description (appendix "Strategy prompt and extraction" and "Execution prompt"); the paper
omits its own templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, meta

from subgroup_offset.config import ConfigError, StrategyConfig

Message = dict[str, Any]

_ENVIRONMENT = Environment(undefined=StrictUndefined, keep_trailing_newline=False)


@dataclass(frozen=True)
class PromptTemplates:
    """The compiled templates of one run."""

    strategy: Template
    execution: Template

    def strategy_messages(self, messages: Sequence[Message]) -> list[Message]:
        """The chat that asks for a preview of the problem in ``messages`` (the last user turn holds it)."""
        return replace_problem(messages, self.strategy.render(problem=problem_text(messages)).strip())

    def execution_messages(self, messages: Sequence[Message], preview: str) -> list[Message]:
        """The chat that asks to solve the problem along ``preview``."""
        text = self.execution.render(problem=problem_text(messages), preview=preview)
        return replace_problem(messages, text.strip())


def load_templates(config: StrategyConfig) -> PromptTemplates:
    """Compile the templates a run has configured, or the built-in ones.

    Raises:
        ConfigError: for a template that does not parse, misses a variable it needs or uses an unknown one.
    """
    key = "algorithm.subgroup.strategy"
    return PromptTemplates(
        strategy=_compile(f"{key}.strategy_template", config.strategy_template, "strategy.jinja", {"problem"}),
        execution=_compile(
            f"{key}.execution_template", config.execution_template, "execution.jinja", {"problem", "preview"}
        ),
    )


def problem_text(messages: Sequence[Message]) -> str:
    """The text of the last user turn. For a turn of several parts: its last text part.

    Raises:
        ValueError: where no user turn holds any text.
    """
    return _locate_problem(messages)[2]


def replace_problem(messages: Sequence[Message], text: str) -> list[Message]:
    """A copy of the chat whose last user turn says ``text`` instead; images and other turns stay."""
    turn, part, _ = _locate_problem(messages)
    copy = [dict(message) for message in messages]
    if part is None:
        copy[turn]["content"] = text
    else:
        parts = [dict(p) for p in copy[turn]["content"]]
        parts[part]["text"] = text
        copy[turn]["content"] = parts
    return copy


def _locate_problem(messages: Sequence[Message]) -> tuple[int, int | None, str]:
    """Where the problem stands: the turn, the part inside it (None: the turn is plain text), the text."""
    for turn in reversed(range(len(messages))):
        if messages[turn].get("role") != "user":
            continue
        content = messages[turn].get("content")
        if isinstance(content, str):
            return turn, None, content
        for part in reversed(range(len(content or ()))):
            if content[part].get("type") == "text":
                return turn, part, content[part]["text"]
    raise ValueError(f"prompt={list(messages)!r} has no user turn with text: the strategy stage needs one.")


def _compile(key: str, source: str | None, builtin: str, required: set[str]) -> Template:
    text = _template_text(key, source, builtin)
    try:
        used = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
        template = _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        raise ConfigError(f"{key}={source!r} is not a Jinja2 template ({error}): correct it.") from error
    for name in sorted(required - used):
        raise ConfigError(f"{key}={source!r} does not use the variable {name}: write {{{{ {name} }}}} into it.")
    for name in sorted(used - required):
        known = ", ".join(sorted(required))
        raise ConfigError(f"{key}={source!r} uses the unknown variable {name}: use only {known}.")
    return template


def _template_text(key: str, source: str | None, builtin: str) -> str:
    if source is None:
        return resources.files("subgroup_offset.strategy").joinpath("templates", builtin).read_text("utf-8")
    if "{{" in source or "\n" in source:
        return source
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"{key}={source!r} is neither a template (it has no {{{{ variable }}}}) nor a file that can be read: "
            "give the text itself or the path of a file that every node can read."
        )
    return path.read_text("utf-8")

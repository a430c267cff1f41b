"""The prompts of two-stage generation, as Jinja2 templates that a run may replace.

Written after the paper's description (appendix "Strategy prompt and extraction", "Execution prompt" and "Strategy
sampling"); the paper omits its own templates.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, meta

from subgroup_offset.config import ConfigError, StrategyConfig
from subgroup_offset.strategy.instructions import only_instructions, split_instructions
from subgroup_offset.strategy.preview import CONDITIONS, IDEA, PAIR_MARKER, all_previews

Message = dict[str, Any]

_ENVIRONMENT = Environment(undefined=StrictUndefined, keep_trailing_newline=False)
# What a template is tried with at start-up.
_SAMPLES = {
    "problem": "What is the sum of the two numbers?",
    "preview": f"{CONDITIONS}\n- two numbers are given\n{IDEA}\n- add them",
    "marker": PAIR_MARKER,
}


@dataclass(frozen=True)
class PromptTemplates:
    """The compiled templates of one run."""

    strategy: Template
    paired: Template
    execution: Template

    def strategy_messages(self, messages: Sequence[Message], paired: bool = False) -> list[Message]:
        """The chat that asks for a preview of the problem in ``messages`` (the last user turn holds it).

        The dataset's answer-format instructions would pull the model into solving, so those that are recognised
        (:func:`split_instructions`) are left out, as is a system turn that says nothing else.

        Args:
            messages: the dataset's chat.
            paired: ask for two previews, separated by :data:`PAIR_MARKER`, instead of one.
        """
        problem = split_instructions(problem_text(messages))[1]
        text = self._ask(problem, paired)
        return [m for m in replace_problem(messages, text.strip()) if not _is_instruction_turn(m)]

    def examples(self, paired: bool = False) -> tuple[str, ...]:
        """The well-formed previews that the strategy prompt itself shows: its placeholder block, its examples.

        What a model copies of them is no preview of its problem (``echo.py``). A template without any gives none.
        """
        return tuple(all_previews(self._ask(_SAMPLES["problem"], paired)))

    def execution_messages(self, messages: Sequence[Message], preview: str) -> list[Message]:
        """The chat that asks to solve the problem along ``preview``; the dataset's text goes in whole."""
        text = self.execution.render(problem=problem_text(messages), preview=preview)
        return replace_problem(messages, text.strip())

    def _ask(self, problem: str, paired: bool) -> str:
        if paired:
            return self.paired.render(problem=problem, marker=PAIR_MARKER)
        return self.strategy.render(problem=problem)


def load_templates(config: StrategyConfig) -> PromptTemplates:
    """Compile the templates a run has configured, or the built-in ones.

    Raises:
        ConfigError: for a template that cannot be read, parsed or rendered, misses a variable it needs or uses an
            unknown one.
    """
    return PromptTemplates(
        strategy=_compile("strategy", config.strategy_template, {"problem"}),
        paired=_compile("paired", config.paired_template, {"problem", "marker"}),
        execution=_compile("execution", config.execution_template, {"problem", "preview"}),
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


def _is_instruction_turn(message: Message) -> bool:
    content = message.get("content")
    return message.get("role") == "system" and isinstance(content, str) and only_instructions(content)


def _compile(name: str, source: str | None, required: set[str]) -> Template:
    if source is None:
        text = resources.files("subgroup_offset.strategy").joinpath("templates", f"{name}.jinja").read_text("utf-8")
    else:
        text = source
    samples = {variable: _SAMPLES[variable] for variable in required}
    return compile_template(f"algorithm.subgroup.strategy.{name}_template", text, samples)


def compile_template(key: str, source: str, samples: Mapping[str, str], optional: Container[str] = ()) -> Template:
    """Compile a template that a run may have replaced, and try it.

    Args:
        key: the setting, for messages.
        source: the text itself, or the path of a file.
        samples: a value for each variable that there is.
        optional: the variables that it need not use.

    Raises:
        ConfigError: it cannot be read, parsed or rendered, misses a variable it needs or uses an unknown one.
    """
    text = _template_text(key, source)
    try:
        used = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
        template = _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        raise ConfigError(f"{key}={source!r} is not a Jinja2 template ({error}): correct it.") from error
    for variable in sorted(v for v in set(samples) - used if v not in optional):
        raise ConfigError(f"{key}={source!r} does not use the variable {variable}: write {{{{ {variable} }}}} into it.")
    for variable in sorted(used - set(samples)):
        known = ", ".join(sorted(samples))
        raise ConfigError(f"{key}={source!r} uses the unknown variable {variable}: use only {known}.")
    try:
        template.render(samples)
    except Exception as error:  # a template runs filters and expressions, which raise what they like
        raise ConfigError(f"{key}={source!r} cannot be rendered ({error!r}): correct it.") from error
    return template


def _template_text(key: str, source: str) -> str:
    if "{{" in source or "\n" in source:
        return source
    try:
        return Path(source).expanduser().read_text("utf-8")
    except (OSError, ValueError, RuntimeError) as error:  # not there, not UTF-8 or no path at all, no such home
        raise ConfigError(
            f"{key}={source!r} is neither a template (it has no {{{{ variable }}}}) nor a file that can be read "
            f"({type(error).__name__}): give the text itself or the path of a UTF-8 file that every node can read."
        ) from error

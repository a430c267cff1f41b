"""Prompts as token ids, in the way in which the run's agent loops make them, so that lengths here are lengths there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from subgroup_offset.strategy.prompts import Message


def initial_tokens(worker: Any) -> Callable[[list[Message]], list[int]]:
    """A function from a chat to its token ids, generation prompt and tool schemas included.

    Args:
        worker: verl's agent loop worker.
    """
    template_kwargs = worker.config.data.get("apply_chat_template_kwargs", {})
    tools = [t.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for t in worker.tools] or None
    if not hasattr(worker, "hf_model_type"):
        return _by_chat_template(worker.tokenizer, template_kwargs, tools)
    builder = create_continuous_token_builder(
        worker.tokenizer,
        hf_model_type=worker.hf_model_type,
        chat_template_kwargs=template_kwargs,
        mm_processor_kwargs=worker.mm_processor_kwargs,
        processor=worker.processor,
    )
    return lambda messages: builder.build_initial_tokens(messages, tools=tools)


def _by_chat_template(
    tokenizer: Any, template_kwargs: Any, tools: list[dict[str, Any]] | None
) -> Callable[[list[Message]], list[int]]:
    """verl 0.9.0, whose agent loops call the chat template themselves."""
    from verl.utils.tokenizer import normalize_token_ids
    from verl.utils.tokenizer.chat_template import apply_chat_template

    def tokenize(messages: list[Message]) -> list[int]:
        rendered = apply_chat_template(
            tokenizer, messages, tools=tools, add_generation_prompt=True, tokenize=True, **template_kwargs
        )
        return list(normalize_token_ids(rendered))

    return tokenize

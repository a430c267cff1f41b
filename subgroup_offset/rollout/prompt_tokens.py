"""Chats as the run's agent loops see them: token ids and media, so that lengths here are lengths there."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, DictConfigWrap

from subgroup_offset.strategy.prompts import Message

# Some tokenizers hold these for special tokens; what they enclose is part of the turn.
_THINK_TAG = re.compile(r"<\|?/?(?:think|thinking|thought|reasoning)\|?>|\[/?THINK\]", re.IGNORECASE)


@dataclass
class Media:
    """The images, videos and audios of a chat, as verl's agent loops load them."""

    data: dict[str, Any]
    mm_processor_kwargs: dict[str, Any]
    #: What SGLang is given for videos; known once the chat is tokenized.
    processor_output: Any = field(default=None, compare=False)

    def inputs(self) -> dict[str, Any]:
        """Arguments of verl's token builder."""
        return {name: self.data.get(name) for name in ("images", "videos", "audios")}

    def request(self) -> dict[str, Any]:
        """Arguments of ``LLMServerClient.generate``."""
        return {
            "image_data": self.data.get("images"),
            "video_data": self.data.get("videos"),
            "audio_data": self.data.get("audios"),
            "mm_processor_output": self.processor_output,
            "mm_processor_kwargs": self.mm_processor_kwargs,
        }


class Chat:
    """Tokenizes chats, generation prompt and tool schemas included.

    Args:
        worker: verl's agent loop worker.
    """

    def __init__(self, worker: Any) -> None:
        self._loop = _Loop(
            trainer_config=DictConfigWrap(worker.config),
            server_manager=worker.llm_client,
            tokenizer=worker.tokenizer,
            processor=worker.processor,
            dataset_cls=worker.dataset_cls,
            data_config=DictConfigWrap(worker.config.data),
            **({"hf_model_type": worker.hf_model_type} if hasattr(worker, "hf_model_type") else {}),
        )
        self._tools = [t.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for t in worker.tools] or None
        self._template_kwargs = worker.config.data.get("apply_chat_template_kwargs", {})
        tokenizer = worker.tokenizer
        names = zip(tokenizer.all_special_ids, tokenizer.convert_ids_to_tokens(tokenizer.all_special_ids), strict=True)
        #: Token ids at which a turn ends or another begins.
        self.turn_ends = frozenset(token for token, name in names if not _THINK_TAG.fullmatch(name))

    async def media(self, messages: list[Message]) -> Media | None:
        """The media of a chat; None for one of text alone.

        Raises:
            ValueError: verl's, for a model that cannot take them; ours with verl 0.9.0, which loads them another way.
        """
        contents = (message.get("content") for message in messages)
        parts = [part for content in contents if isinstance(content, list) for part in content]
        if all(part.get("type") == "text" for part in parts):
            return None
        if not hasattr(self._loop, "_assert_mm_supported"):
            raise ValueError("This chat has images or other media, which two-stage rollouts hand on with verl 0.9.1.")
        self._loop._assert_mm_supported(True)
        data = await self._loop.process_multi_modal_info(messages)
        return Media(data, self._loop._get_mm_processor_kwargs(data.get("audios")))

    async def tokens(self, messages: list[Message], media: Media | None = None) -> list[int]:
        """A chat's token ids."""
        return await asyncio.to_thread(self.build, messages, media)

    def build(self, messages: list[Message], media: Media | None = None) -> list[int]:
        """The same, without leaving the thread."""
        builder = getattr(self._loop, "continuous_token_builder", None)
        if builder is None:
            return self._by_chat_template(messages)
        seen: dict[str, Any] = {}
        extra = {**media.inputs(), "mm_inputs_out": seen} if media else {}
        ids = builder.build_initial_tokens(messages, tools=self._tools, **extra)
        if media is not None:
            media.processor_output = self._loop.build_sglang_video_payload(media.data.get("videos"), seen)
        return ids

    def _by_chat_template(self, messages: list[Message]) -> list[int]:
        """verl 0.9.0, whose agent loops call the chat template themselves."""
        from verl.utils.tokenizer import normalize_token_ids
        from verl.utils.tokenizer.chat_template import apply_chat_template

        rendered = apply_chat_template(
            self._loop.tokenizer,
            messages,
            tools=self._tools,
            add_generation_prompt=True,
            tokenize=True,
            **self._template_kwargs,
        )
        return list(normalize_token_ids(rendered))


class _Loop(AgentLoopBase):
    """Never run: it is asked how verl's agent loops load media and build tokens."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        raise NotImplementedError

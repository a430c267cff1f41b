"""The strategy stage of one prompt: sample candidates, extract, select, lay out the K slots.

Knows no Ray and no verl: what generates and what tokenizes is passed in.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.logs import WarnOnce
from subgroup_offset.strategy.echo import is_echo
from subgroup_offset.strategy.preview import extract_pair, extract_preview
from subgroup_offset.strategy.prompts import Message, PromptTemplates
from subgroup_offset.strategy.selection import mean_pairwise_distance, select_pairs, select_previews
from subgroup_offset.strategy.stats import StageStats

logger = logging.getLogger(__name__)
_warn_once = WarnOnce(logger)  # the metrics count every one


@dataclass(frozen=True)
class Candidate:
    """One raw generation of the strategy stage: its text and how many tokens were generated for it."""

    text: str
    tokens: int


#: Generates candidate ``i`` from the strategy prompt's token ids and the chat's media (images and videos, or None).
Generate = Callable[[list[int], int, Any], Awaitable[Candidate]]
#: Renders and tokenizes a chat with its media, generation prompt included.
Tokenize = Callable[[list[Message], Any], Awaitable[list[int]]]
#: What one candidate yielded: its preview, both of a pair, or nothing.
Previews = tuple[str, ...]
#: Why a candidate was kept or not. ``too long``: it was selected, but a prompt conditioned on it exceeds the limit.
#: ``echo``: it repeats what the strategy prompt shows.
Reason = Literal["kept", "not selected", "unusable", "echo", "duplicate", "request failed", "too long"]
#: Of an unusable candidate, so much is shown to people.
_SAMPLE_CHARACTERS = 400


@dataclass(frozen=True)
class CandidateRecord:
    """What became of one call of the strategy stage, for people to look at."""

    #: The raw generation; empty for a failed request.
    text: str
    #: The preview, or both of a pair; empty unless usable: all of them could be extracted and none is an echo.
    previews: Previews
    #: The slot of each preview, empty unless selected; None where the prompt conditioned on it was too long, or where
    #: an odd number of slots had none left for the second of a pair.
    slots: tuple[int | None, ...]
    reason: Reason

    @property
    def kept(self) -> bool:
        """Whether rollouts are conditioned on it, or on one of its halves."""
        return any(slot is not None for slot in self.slots)


@dataclass(frozen=True)
class SlotPlan:
    """The slots of a prompt, K unless fewer were asked for."""

    #: (K,) each slot's preview, None for an empty slot. In paired sampling slots 2i and 2i + 1 belong to one pair.
    previews: list[str | None]
    #: (K,) each slot's chat, the dataset's own for an empty slot.
    messages: list[list[Message]]
    stats: StageStats
    #: (K,) each slot's subgroup: its own number, or with ``merge_empty`` that of the first empty slot for all of these.
    subgroups: list[int]
    #: One for each call in the order of the calls; none if the stage was skipped.
    candidates: list[CandidateRecord]


class StrategyStage:
    """Runs the strategy stage (paper, appendix "Two-stage generation") of one prompt after another or side by side.

    Args:
        config: the run's settings; ``config.strategy`` says how many candidates and slots.
        templates: the run's prompts.
        generate: draws one candidate; an exception of it makes that candidate unusable.
        tokenize: gives the token ids of a prompt as the agent loop will build it.
        prompt_length: tokens a prompt may have; verl cuts longer ones from the left, which would lose the problem.
        context_length: tokens that prompt and response may have together.
    """

    def __init__(
        self,
        config: SubgroupConfig,
        templates: PromptTemplates,
        generate: Generate,
        tokenize: Tokenize,
        prompt_length: int,
        context_length: int,
    ) -> None:
        self._seed = config.seed
        self._config = config.strategy
        self._templates = templates
        self._examples = templates.examples(config.strategy.paired)
        self._generate = generate
        self._tokenize = tokenize
        self._prompt_length = prompt_length
        self._context_length = context_length

    async def run(
        self, messages: Sequence[Message], step: int, index: object, slots: int | None = None, media: Any = None
    ) -> SlotPlan:
        """Plan the slots of one prompt.

        Args:
            messages: the dataset's chat.
            step: training step, for the seed of random selection.
            index: the prompt's index in the dataset, likewise.
            slots: how many slots the prompt has, 1 or more; None: K. Pairs fill two each, the last one only one if
                the number is odd.
            media: the chat's images and videos, handed on to ``generate`` and ``tokenize`` as it is; None: only text.
        """
        started = time.perf_counter()
        slots = self._config.num_strategies if slots is None else slots
        stats = StageStats(prompts=1, slots=slots)
        sampled = await self._sample(messages, media, stats)
        extracted = [self._extract(candidate) for candidate in sampled]
        echoes = self._drop_echoes(extracted, stats)
        pool = self._pool(extracted, stats)
        chosen = self._select(extracted, pool, slots, step, index)
        kept = [p for i in chosen for p in extracted[i]][:slots]
        if len(kept) < slots:
            stats.sample = _first_unusable(sampled, extracted)
        previews, chats = await self._lay_out(list(messages), media, kept, stats)
        records = self._records(sampled, extracted, echoes, pool, chosen, previews)
        stats.seconds_sum = stats.seconds_max = time.perf_counter() - started
        return SlotPlan(previews, chats, stats, self._subgroups(previews), records)

    async def _sample(self, messages: Sequence[Message], media: Any, stats: StageStats) -> list[Candidate | None]:
        """One candidate for each call, None for a failed request; no calls if the prompt leaves no room."""
        prompt_ids = await self._tokenize(self._templates.strategy_messages(messages, self._config.paired), media)
        if len(prompt_ids) + self._config.max_tokens > self._context_length:
            _warn_once(
                "no room",
                f"A strategy prompt of {len(prompt_ids)} tokens leaves no room for strategy.max_tokens="
                f"{self._config.max_tokens} in a context of {self._context_length}: its prompt runs single-stage "
                "(counted in strategy/skipped_prompts). Raise data.max_prompt_length to avoid it.",
            )
            stats.skipped_prompts = 1
            return []
        count = self._config.num_candidates
        calls = (self._generate(prompt_ids, i, media) for i in range(count))
        results = await asyncio.gather(*calls, return_exceptions=True)
        stats.candidates = count
        candidates: list[Candidate | None] = []
        for result in results:
            if isinstance(result, Candidate):
                candidates.append(result)
                stats.strategy_tokens += result.tokens
            elif isinstance(result, Exception):
                _warn_once(
                    "failed",
                    f"A strategy request failed ({type(result).__name__}: {result}): its candidate is unusable "
                    "(counted in strategy/failed_requests).",
                )
                stats.failed_requests += 1
                candidates.append(None)
            else:
                raise result  # cancellation and the like are not a failed candidate
        return candidates

    def _extract(self, candidate: Candidate | None) -> Previews:
        if candidate is None:
            return ()
        if self._config.paired:
            return extract_pair(candidate.text) or ()
        preview = extract_preview(candidate.text)
        return () if preview is None else (preview,)

    def _drop_echoes(self, extracted: list[Previews], stats: StageStats) -> set[int]:
        """Take back what only repeats the prompt, a pair as soon as one half does; the indices of those calls."""
        echoes = {i for i, previews in enumerate(extracted) if any(is_echo(p, self._examples) for p in previews)}
        for i in echoes:
            extracted[i] = ()
        if echoes:
            _warn_once(
                "echo",
                "A candidate repeats a preview that the strategy prompt shows: it is unusable (counted in "
                "strategy/echoed_previews).",
            )
        stats.echoes = len(echoes)
        return echoes

    def _pool(self, extracted: list[Previews], stats: StageStats) -> list[int]:
        """The candidates to select from; counts the usable ones and the duplicates among them."""
        usable = [i for i, previews in enumerate(extracted) if previews]
        distinct, seen = [], set()
        for i in usable:
            content = frozenset(extracted[i])
            if content not in seen and len(content) == len(extracted[i]):
                distinct.append(i)
            seen.add(content)
        stats.usable, stats.duplicates = len(usable), len(usable) - len(distinct)
        return distinct if self._config.deduplicate else usable

    def _select(self, extracted: list[Previews], pool: list[int], slots: int, step: int, index: object) -> list[int]:
        """The calls whose previews fill the slots."""
        seed = zlib.crc32(f"{self._seed}/{step}/{index}".encode())
        method = self._config.selection
        if self._config.paired:
            chosen = select_pairs([(extracted[i][0], extracted[i][1]) for i in pool], (slots + 1) // 2, method, seed)
        else:
            chosen = select_previews([extracted[i][0] for i in pool], slots, method, seed)
        return [pool[c] for c in chosen]

    async def _lay_out(
        self, plain: list[Message], media: Any, kept: list[str], stats: StageStats
    ) -> tuple[list[str | None], list[list[Message]]]:
        """The preview and the chat of each slot; a preview whose chat is too long leaves its slot empty."""
        conditioned = [self._templates.execution_messages(plain, preview) for preview in kept]
        lengths = await asyncio.gather(*(self._tokenize(chat, media) for chat in conditioned))
        previews: list[str | None] = [None] * stats.slots
        chats = [plain] * stats.slots
        for k, (preview, chat, ids) in enumerate(zip(kept, conditioned, lengths, strict=True)):
            if len(ids) > self._prompt_length:
                _warn_once(
                    "overlong",
                    f"A conditioned prompt of {len(ids)} tokens exceeds data.max_prompt_length={self._prompt_length}: "
                    "its slot runs the plain prompt (counted in strategy/overlong_prompts).",
                )
                stats.overlong_prompts += 1
                continue
            previews[k], chats[k] = preview, chat
        used = [p for p in previews if p is not None]
        stats.empty_slots = stats.slots - len(used)
        distance = mean_pairwise_distance(used)
        if distance is not None:
            stats.distance_sum, stats.distance_prompts = distance, 1
        return previews, chats

    def _subgroups(self, previews: list[str | None]) -> list[int]:
        if not self._config.merge_empty or None not in previews:
            return list(range(len(previews)))
        empty = previews.index(None)
        return [empty if preview is None else k for k, preview in enumerate(previews)]

    def _records(
        self,
        sampled: list[Candidate | None],
        extracted: list[Previews],
        echoes: set[int],
        pool: list[int],
        chosen: list[int],
        previews: list[str | None],
    ) -> list[CandidateRecord]:
        slots: dict[int, tuple[int | None, ...]] = {}
        too_long = set()
        filled = 0
        for i in chosen:
            places = range(filled, filled + len(extracted[i]))
            there = [k for k in places if k < len(previews)]
            slots[i] = tuple(k if k in there and previews[k] is not None else None for k in places)
            if any(previews[k] is None for k in there):
                too_long.add(i)
            filled = places.stop

        def reason(i: int) -> Reason:
            if sampled[i] is None:
                return "request failed"
            if i in echoes:
                return "echo"
            if not extracted[i]:
                return "unusable"
            if i not in pool:
                return "duplicate"
            if i not in slots:
                return "not selected"
            return "too long" if i in too_long else "kept"

        return [
            CandidateRecord(candidate.text if candidate else "", extracted[i], slots.get(i, ()), reason(i))
            for i, candidate in enumerate(sampled)
        ]


def _first_unusable(sampled: list[Candidate | None], extracted: list[Previews]) -> str | None:
    """How the first candidate begins that said something but no preview."""
    texts = (c.text for c, previews in zip(sampled, extracted, strict=True) if c and c.text and not previews)
    return next((text[:_SAMPLE_CHARACTERS] for text in texts), None)

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

from subgroup_offset.config import SubgroupConfig
from subgroup_offset.strategy.preview import extract_preview
from subgroup_offset.strategy.prompts import Message, PromptTemplates
from subgroup_offset.strategy.selection import mean_pairwise_distance, select_previews
from subgroup_offset.strategy.stats import StageStats

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """One raw generation of the strategy stage: its text and how many tokens were generated for it."""

    text: str
    tokens: int


#: Generates candidate ``i`` from the strategy prompt's token ids.
Generate = Callable[[list[int], int], Awaitable[Candidate]]
#: Renders and tokenizes a chat, generation prompt included.
Tokenize = Callable[[list[Message]], Awaitable[list[int]]]


@dataclass(frozen=True)
class Plan:
    """The K slots of a prompt. ``messages[k]`` is slot k's chat, the plain one where ``previews[k]`` is None."""

    previews: list[str | None]
    messages: list[list[Message]]
    stats: StageStats


class StrategyStage:
    """Runs the strategy stage (paper, appendix "Two-stage generation") of one prompt after another or side by side.

    Args:
        config: the run's settings; ``config.strategy`` says how many candidates and slots.
        templates: the two prompts.
        generate: draws one candidate; an exception of it makes that candidate unusable.
        tokenize: gives the length of a prompt as the agent loop will build it.
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
        self._generate = generate
        self._tokenize = tokenize
        self._prompt_length = prompt_length
        self._context_length = context_length

    async def run(self, messages: Sequence[Message], step: int, index: object) -> Plan:
        """Plan the slots of one prompt.

        Args:
            messages: the dataset's chat.
            step: training step, for the seed of random selection.
            index: the prompt's index in the dataset, likewise.
        """
        started = time.perf_counter()
        stats = StageStats(prompts=1, slots=self._config.num_strategies)
        candidates = await self._sample(messages, stats)
        previews = [preview for c in candidates if (preview := extract_preview(c.text)) is not None]
        stats.usable = len(previews)
        stats.duplicates = len(previews) - len(set(previews))
        kept = self._select(previews, step, index)
        plan = await self._lay_out(list(messages), kept, stats)
        stats.seconds_sum = stats.seconds_max = time.perf_counter() - started
        return plan

    async def _sample(self, messages: Sequence[Message], stats: StageStats) -> list[Candidate]:
        prompt_ids = await self._tokenize(self._templates.strategy_messages(messages))
        if len(prompt_ids) + self._config.max_tokens > self._context_length:
            _warn_once(
                f"A strategy prompt of {len(prompt_ids)} tokens leaves no room for strategy.max_tokens="
                f"{self._config.max_tokens} in a context of {self._context_length}: its prompt runs single-stage "
                "(counted in strategy/skipped_prompts). Raise data.max_prompt_length to avoid it."
            )
            stats.skipped_prompts = 1
            return []
        count = self._config.num_candidates
        results = await asyncio.gather(*(self._generate(prompt_ids, i) for i in range(count)), return_exceptions=True)
        stats.candidates = count
        candidates = []
        for result in results:
            if isinstance(result, Candidate):
                candidates.append(result)
            elif isinstance(result, Exception):
                _warn_once(
                    f"A strategy request failed ({type(result).__name__}: {result}): its candidate is unusable "
                    "(counted in strategy/failed_requests)."
                )
                stats.failed_requests += 1
            else:
                raise result  # cancellation and the like are not a failed candidate
        stats.strategy_tokens = sum(c.tokens for c in candidates)
        return candidates

    def _select(self, previews: list[str], step: int, index: object) -> list[str]:
        seed = zlib.crc32(f"{self._seed}/{step}/{index}".encode())
        chosen = select_previews(previews, self._config.num_strategies, self._config.selection, seed)
        return [previews[i] for i in chosen]

    async def _lay_out(self, plain: list[Message], kept: list[str], stats: StageStats) -> Plan:
        slots = self._config.num_strategies
        conditioned = [self._templates.execution_messages(plain, preview) for preview in kept]
        lengths = await asyncio.gather(*(self._tokenize(chat) for chat in conditioned))
        previews: list[str | None] = [None] * slots
        messages = [plain] * slots
        for k, (preview, chat, ids) in enumerate(zip(kept, conditioned, lengths, strict=True)):
            if len(ids) > self._prompt_length:
                _warn_once(
                    f"A conditioned prompt of {len(ids)} tokens exceeds data.max_prompt_length={self._prompt_length}: "
                    "its slot runs the plain prompt (counted in strategy/overlong_prompts)."
                )
                stats.overlong_prompts += 1
                continue
            previews[k], messages[k] = preview, chat
        used = [p for p in previews if p is not None]
        stats.empty_slots = slots - len(used)
        distance = mean_pairwise_distance(used)
        if distance is not None:
            stats.distance_sum, stats.distance_prompts = distance, 1
        return Plan(previews, messages, stats)


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    """Warn about one kind of event once per process; the metrics count every one."""
    kind = message.split(" (", 1)[0].split(" of ", 1)[0]
    if kind not in _warned:
        _warned.add(kind)
        logger.warning(message)

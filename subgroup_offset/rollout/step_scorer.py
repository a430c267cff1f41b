"""What scores the steps of a rollout: a process reward model behind a URL, or any async callable."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from subgroup_offset.settings import ConfigError

#: (problem, steps) -> one score for each step, higher for better.
StepScorer = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


class ScorerError(RuntimeError):
    """The scorer gave no scores for a rollout; the message says why."""


@dataclass
class PoolingServer:
    """A client of vLLM's pooling server, ``vllm serve MODEL --runner pooling``.

    For models like Qwen2.5-Math-PRM: the chat is system prompt, problem, and an answer whose steps each end in a tag
    token, at which the server returns the probabilities of a wrong and a right step. The server renders the chat.

    Attributes:
        url: of the server, such as ``http://prm:8000``.
        model: the name it serves the model by; None asks the server for it.
        tag: the token at the end of each step.
        system: the system prompt that the model was trained with; empty for none.
        timeout: seconds a request may take.
        retries: further attempts of a request that fails.
        concurrency: requests at a time, of one worker.
    """

    url: str
    model: str | None = None
    tag: str = "<extra_0>"
    system: str = ""
    timeout: float = 60.0
    retries: int = 2
    concurrency: int = 32

    async def __call__(self, problem: str, steps: Sequence[str]) -> list[float]:
        """(S,) the probability that each step is right.

        Raises:
            ScorerError: no answer after all attempts, or not one score for each step.
        """
        if any(self.tag in text for text in (problem, *steps)):
            raise ScorerError(f"the problem or a step contains the tag {self.tag!r} itself")
        async with self._slots:
            for attempt in range(self.retries + 1):
                try:
                    return self._read(await asyncio.wait_for(self._ask(problem, steps), self.timeout), len(steps))
                except (OSError, TimeoutError, self._client_error) as error:
                    if attempt == self.retries:
                        raise ScorerError(f"{self.url}: {type(error).__name__}: {error}") from error
                    await asyncio.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")

    async def _ask(self, problem: str, steps: Sequence[str]) -> Any:
        import aiohttp

        chat = [{"role": "system", "content": self.system}] if self.system else []
        chat += [
            {"role": "user", "content": problem},
            {"role": "assistant", "content": "".join(f"{step}{self.tag}" for step in steps)},
        ]
        async with aiohttp.ClientSession(base_url=self.url.rstrip("/") + "/") as session:
            if self.model is None:
                async with session.get("v1/models") as answer:
                    answer.raise_for_status()
                    self.model = (await answer.json())["data"][0]["id"]
            async with session.post("pooling", json={"model": self.model, "messages": chat}) as answer:
                if answer.status >= 400:
                    raise OSError(f"status {answer.status}: {(await answer.text())[:300]}")
                return await answer.json()

    def _read(self, answer: Any, steps: int) -> list[float]:
        try:
            scores = [float(row[-1]) for row in answer["data"][0]["data"]]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ScorerError(f"{self.url} answered something else than scores: {str(answer)[:300]}") from error
        if len(scores) != steps:
            raise ScorerError(f"{self.url} gave {len(scores)} scores for {steps} steps: is {self.tag!r} its step tag?")
        return scores

    @cached_property
    def _slots(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.concurrency)

    @cached_property
    def _client_error(self) -> type[Exception]:
        import aiohttp

        return aiohttp.ClientError


def load_scorer(key: str, path: str) -> StepScorer:
    """The callable at a dotted path; a class is made without arguments.

    Raises:
        ConfigError: it cannot be imported, or is no callable.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
        scorer = found() if isinstance(found, type) else found
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigError(
            f"{key}={path} cannot be imported ({type(error).__name__}: {error}): give the dotted path of an async "
            "callable (problem, steps) -> scores that every process of the run can import."
        ) from error
    if not callable(scorer):
        raise ConfigError(f"{key}={path} is no callable: give an async one, (problem, steps) -> scores.")
    return scorer

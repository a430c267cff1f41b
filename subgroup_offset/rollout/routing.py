"""Which vLLM replica a prompt's requests go to, so that they find their common prefix in its cache.

verl's balancer sends requests of one ``request_id`` to one replica and picks the least loaded one for a new id. Giving
all requests of a prompt (or of a subgroup) one id is thus all that affinity takes: replicas stay balanced by prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_route: ContextVar[str | None] = ContextVar("subgroup_offset_route", default=None)


@contextmanager
def routed(key: str | None) -> Iterator[None]:
    """Send what is generated inside to the replica of ``key``; None leaves each request to the balancer.

    Each asyncio task has a context of its own, so sessions that run side by side do not see each other's route.
    """
    token = _route.set(key)
    try:
        yield
    finally:
        _route.reset(token)


class RoutedClient:
    """verl's ``LLMServerClient`` with the request ids of routed requests replaced by their route."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def generate(self, request_id: Any, **kwargs: Any) -> Any:
        """As the client's own; see there."""
        return await self._client.generate(request_id=_route.get() or request_id, **kwargs)

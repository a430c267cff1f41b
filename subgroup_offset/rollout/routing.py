"""Which vLLM replica a prompt's requests go to, so that they find their common prefix in its cache.

verl's balancer sends requests of one ``request_id`` to one replica and picks the least loaded one for a new id. Giving
all requests of a prompt (or of a subgroup) one id is thus all that affinity takes: replicas stay balanced by prompt.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

_Client = TypeVar("_Client")

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


def route_client(client: _Client) -> _Client:
    """A copy of one of verl's ``LLMServerClient`` whose requests are routed; one that is routed already stays as it is.

    Its class is derived from the client's own, for agent loops ask what it is and what it has; it can be copied and
    pickled as the client can.
    """
    if isinstance(client, _Routed):
        return client
    twin = copy.copy(client)
    twin.__class__ = _routed_class(type(client))
    return twin


class _Routed:
    """Replaces the request ids of routed requests by their route."""

    _kind: type

    async def generate(self, request_id: Any, **kwargs: Any) -> Any:
        """As the client's own; see there."""
        return await super().generate(request_id=_route.get() or request_id, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made at run time, so that pickle would not find it: the plain client travels.
        plain = self._kind.__new__(self._kind)
        plain.__dict__.update(self.__dict__)
        return route_client, (plain,)


@cache
def _routed_class(kind: type) -> type:
    return type(f"Routed{kind.__name__}", (_Routed, kind), {"_kind": kind, "__doc__": kind.__doc__})

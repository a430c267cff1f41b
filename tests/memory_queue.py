"""TransferQueue's key-value calls on a dictionary of this process, with failures where a test wants them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from verl.utils.tensordict_utils import unwrap_non_tensor_data

#: Raises where a call should fail; gets the call's name and its keys.
Fault = Callable[[str, list[str]], None]


class MemoryQueue:
    """What ``transfer_queue``'s asynchronous functions do, as far as agent loop workers use them."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.fields: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.fault: Fault = lambda call, keys: None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of the module's functions."""
        import transfer_queue

        monkeypatch.setattr(transfer_queue, "init", lambda *_: None)
        for name in ("async_kv_put", "async_kv_batch_put", "async_kv_batch_get", "async_kv_list", "async_kv_clear"):
            monkeypatch.setattr(transfer_queue, name, getattr(self, name))
            monkeypatch.setattr(transfer_queue, name.removeprefix("async_"), _waiting(getattr(self, name)))

    async def async_kv_put(self, key: str, partition_id: str, tag: dict[str, Any] | None = None) -> None:
        await self._call("put", [key])
        self.tags[partition_id].setdefault(key, {}).update(tag or {})

    async def async_kv_batch_put(
        self, keys: list[str], partition_id: str, fields: Any = None, tags: list[dict[str, Any]] | None = None
    ) -> SimpleNamespace:
        await self._call("label" if tags is None else "publish", keys)
        for i, key in enumerate(keys):
            self.tags[partition_id].setdefault(key, {}).update(tags[i] if tags else {})
            row = self.fields[partition_id].setdefault(key, {})
            for name in () if fields is None else fields.keys():
                row[name] = unwrap_non_tensor_data(fields[name][i])
        rows = [self.fields[partition_id][key] for key in keys]
        return SimpleNamespace(fields=[name for name in rows[0] if all(name in row for row in rows)] if rows else [])

    async def async_kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> dict[str, list[Any]]:
        """Like TransferQueue: a field that one of the rows lacks is not in the answer."""
        await self._call("get", keys)
        rows = [self.fields[partition_id][key] for key in keys]
        there = (name for name in select_fields if all(name in row for row in rows))
        return {name: _column([row[name] for row in rows]) for name in there}

    async def async_kv_list(self, partition_id: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        await self._call("list", [])
        wanted = [partition_id] if partition_id else list(self.tags)
        return {name: {key: dict(tag) for key, tag in self.tags[name].items()} for name in wanted}

    async def async_kv_clear(self, keys: list[str], partition_id: str) -> None:
        await self._call("clear", keys)
        for key in keys:
            self.tags[partition_id].pop(key, None)
            self.fields[partition_id].pop(key, None)

    async def _call(self, name: str, keys: list[str]) -> None:
        await asyncio.sleep(0)
        self.fault(name, keys)

    def status(self, uid: str, partition_id: str = "train") -> str | None:
        """A prompt's status, None where it has none."""
        return self.tags[partition_id].get(uid, {}).get("status")

    def rows(self, uid: str, partition_id: str = "train") -> dict[str, dict[str, Any]]:
        """The rows of a prompt, by key."""
        return {key: row for key, row in self.fields[partition_id].items() if key.rsplit("_", 2)[0] == uid}


def _column(values: list[Any]) -> Any:
    """As TransferQueue hands them out: tensors of any length as a nested one."""
    if all(isinstance(value, torch.Tensor) and value.dim() == 1 for value in values):
        return torch.nested.as_nested_tensor(values, layout=torch.jagged)
    return values


def _waiting(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same from a thread without a loop of its own, as the driver's watchdog calls it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, call(*args, **kwargs)).result()

    return run

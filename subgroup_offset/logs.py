"""Makes this package's warnings visible in every process of a run.

Something that verl's rollout imports sets the root logger and its handler to ERROR, so that a warning of any package
without a handler of its own is lost in exactly the processes where things go wrong.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Hashable


class _OnlyWhereRootIsSilent(logging.Filter):
    """Lets a record through unless a handler of the root logger will print it too."""

    def filter(self, record: logging.LogRecord) -> bool:
        return all(handler.level > record.levelno for handler in logging.getLogger().handlers)


def configure() -> None:
    """Give the ``subgroup_offset`` logger a level and a handler; calling it again changes nothing.

    The level is that of the variable ``VERL_LOGGING_LEVEL`` if it is set, as for verl's own loggers, else WARNING.
    """
    logger = logging.getLogger("subgroup_offset")
    if any(isinstance(f, _OnlyWhereRootIsSilent) for handler in logger.handlers for f in handler.filters):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s:%(asctime)s:%(name)s: %(message)s"))
    handler.addFilter(_OnlyWhereRootIsSilent())
    logger.addHandler(handler)
    logger.setLevel(os.environ.get("VERL_LOGGING_LEVEL") or logging.WARNING)


class WarnOnce:
    """Warns about one kind of event once per process (or per object that owns this); the metrics count every one."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: set[Hashable] = set()

    def __call__(self, kind: Hashable, message: str, error: BaseException | None = None) -> None:
        """Log the message, unless one of this kind was logged before."""
        if kind not in self._said:
            self._said.add(kind)
            self._logger.warning(message, exc_info=error)

    def forget(self) -> None:
        """Say everything again, as in a new process."""
        self._said.clear()

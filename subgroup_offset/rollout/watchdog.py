"""Notices an agent loop worker that died in mid-step, so that the step ends as verl's rule for failed prompts says.

verl's workers run prompts as background tasks and the trainer waits until enough prompts have ended. Prompts of a
worker that died never end, and the trainer would wait for ever. Ray starts such a worker again; what is left to do is
to give its lost prompts the status ``failure``, which only the owner of a prompt can set.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import ray

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
# A worker that is busy answers late: only a lost one answers with an error or under a new incarnation.
_ANSWER_SECONDS = 600.0
# Prompts remembered per worker; those that have ended are harmless, their status says so.
_REMEMBERED = 16_384


class WorkerWatchdog:
    """Watches the workers of one manager from a thread of its own.

    Args:
        workers: Ray actors with ``incarnation()``, which names their process, and ``fail_lost_prompts(uids)``.
    """

    def __init__(self, workers: Sequence[Any], interval: float = INTERVAL_SECONDS) -> None:
        self._workers = workers
        self._interval = interval
        self._dispatched: list[deque[str]] = [deque(maxlen=_REMEMBERED) for _ in workers]
        self._incarnations: list[str | None] = [None] * len(workers)
        self.restarts = 0
        threading.Thread(target=self._watch, name="subgroup_offset_watchdog", daemon=True).start()

    def expect(self, worker: int, uids: Iterable[str]) -> None:
        """Remember which prompts a worker is about to be given."""
        self._dispatched[worker].extend(uids)

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            for index in range(len(self._workers)):
                try:
                    self._check(index)
                except ray.exceptions.RayError as error:
                    # Dead and not yet back: asked again in the next round.
                    logger.warning("agent loop worker %d does not answer: %s", index, str(error).splitlines()[0])
                except Exception:
                    logger.warning("watching agent loop worker %d failed", index, exc_info=True)
            pause.wait(self._interval)

    def _check(self, index: int) -> None:
        worker = self._workers[index]
        lost = list(self._dispatched[index])
        incarnation = ray.get(worker.incarnation.remote(), timeout=_ANSWER_SECONDS)
        known, self._incarnations[index] = self._incarnations[index], incarnation
        if known is None or known == incarnation:
            return
        self.restarts += 1
        failed = ray.get(worker.fail_lost_prompts.remote(lost), timeout=_ANSWER_SECONDS)
        logger.warning("agent loop worker %d died and was started again: %d of its prompts are lost", index, failed)

"""Notices an agent loop worker that died in mid-step, so that the step ends as verl's rule for failed prompts says."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ray

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
# A worker that is busy answers late: only a lost one answers with an error or under a new name.
_ANSWER_SECONDS = 600.0


class WorkerWatchdog:
    """Knows which process took which prompts, and fails those of a process that is no more.

    A prompt is forgotten only when it has ended or was failed: whatever goes wrong in a round, the next one finds it
    still here.

    Args:
        workers: Ray actors with the ``running`` of :class:`~subgroup_offset.rollout.watched.WatchedWorker`.
        fail: gives prompts that have not ended the status ``failure`` and returns their number.
        interval: seconds between two rounds.
    """

    def __init__(
        self, workers: Sequence[Any], fail: Callable[[list[str]], int], interval: float = INTERVAL_SECONDS
    ) -> None:
        self._workers = workers
        self._fail = fail
        self._interval = interval
        self._lock = threading.Lock()
        self._taken: list[dict[str, str]] = [{} for _ in workers]  # uid -> the process that took it
        self._names: list[str | None] = [None] * len(workers)
        self.restarts = 0
        threading.Thread(target=self._watch, name="subgroup_offset_watchdog", daemon=True).start()

    def took(self, worker: int, uids: Iterable[str], process: str) -> None:
        """Remember which prompts a worker's process has taken."""
        with self._lock:
            self._taken[worker].update(dict.fromkeys(uids, process))
            self._names[worker] = self._names[worker] or process

    def check(self, worker: int) -> None:
        """One look at one worker.

        Raises:
            ray.exceptions.RayError: while it does not answer.
        """
        with self._lock:
            taken = dict(self._taken[worker])
        try:
            name, running = ray.get(self._workers[worker].running.remote(list(taken)), timeout=_ANSWER_SECONDS)
        except ray.exceptions.ActorDiedError as error:
            # For good: Ray did not start it again, and the next prompts for it end the run with this error.
            name, running = None, []
            if taken:
                logger.error("agent loop worker %d is dead for good: %s", worker, error)
        over = taken.keys() - set(running)
        lost = [uid for uid in over if taken[uid] != name]
        if lost:
            logger.warning("agent loop worker %d died; prompts lost: %d", worker, self._fail(lost))
        with self._lock:
            if name is not None:
                self.restarts += self._names[worker] not in (None, name)
                self._names[worker] = name
            for uid in over:
                # Resumed prompts keep their uid: what another process has taken since then is that one's.
                if self._taken[worker].get(uid) == taken[uid]:
                    del self._taken[worker][uid]

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            for worker in range(len(self._workers)):
                try:
                    self.check(worker)
                except ray.exceptions.RayError as error:
                    # Dead and not yet back: asked again in the next round.
                    logger.warning("agent loop worker %d does not answer: %s", worker, str(error).splitlines()[0])
                except Exception:
                    logger.warning("watching agent loop worker %d failed", worker, exc_info=True)
            pause.wait(self._interval)

"""What a prompt's finished rollouts are labelled with, and how the labels get onto their rows.

verl publishes the row of a session as soon as it ends; which subgroup it is in and what it is labelled with is known
when the last session of its prompt has ended. Labels therefore come in a second write of the ``uid`` FIELD, which
verl's training reads only as the estimator's ``index``; the TransferQueue KEY, which verl parses, stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import transfer_queue as tq
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import number
from subgroup_offset.partition import FinishedRollout

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds before each further attempt to reach TransferQueue.
PAUSES = (0.5, 2.0, 5.0)


async def write_labels(
    uid: str,
    rollouts: Sequence[FinishedRollout],
    subgroups: Sequence[int | str],
    rows: Mapping[int, int],
    marks: Sequence[Mapping[str, int]] | None = None,
) -> None:
    """Replace the ``uid`` field of a prompt's rows by their labels. Tags stay as they are: none are passed.

    Args:
        uid: the prompt's.
        rollouts: (n,) its finished rollouts.
        subgroups: (n,) the subgroup of each.
        rows: how many output rows each session has.
        marks: (n,) further fields of the rollouts' rows, the same ones each.

    Raises:
        Exception: what TransferQueue raised at the last attempt.
    """
    keys, fields = [], []
    for rollout, subgroup, mark in zip(rollouts, subgroups, marks or [{}] * len(rollouts), strict=True):
        for output in range(rows[rollout.session]):
            label = RolloutLabel(uid, subgroup, rollout.session, output=output, success=rollout.success)
            keys.append(f"{uid}_{rollout.session}_{output}")
            fields.append({"uid": label.encode(), **mark})
    await insisting(
        lambda: tq.async_kv_batch_put(keys=keys, fields=list_of_dict_to_tensordict(fields), partition_id="train")
    )


async def withdraw_rows(uid: str, rows: Mapping[int, int]) -> None:
    """Take a prompt's rows out of the step: without labels, they would end it for every prompt.

    Raises:
        Exception: what TransferQueue raised at the last attempt.
    """
    keys = [f"{uid}_{session}_{output}" for session, outputs in rows.items() for output in range(outputs)]
    if keys:
        await insisting(lambda: tq.async_kv_clear(keys=keys, partition_id="train"))


def verdict(reward: float | None, acc: Any) -> bool | None:
    """The verifier's verdict: the reward's ``acc`` (above one half) where it has one, else whether the reward is > 0.

    Returns:
        None where it is not known: an ``acc`` that is no number, or a reward that comes later, in the trainer.
    """
    if acc is not None:
        share = number(acc)
        return None if share is None or math.isnan(share) else share > 0.5
    return None if reward is None else reward > 0


async def insisting(action: Callable[[], Awaitable[_T]]) -> _T:
    """Do it, and again if it fails: a write that fails once costs its prompt's rollouts otherwise."""
    for pause in PAUSES:
        try:
            return await action()
        except Exception as error:
            logger.warning("TransferQueue: %s: %s; trying again in %g s", type(error).__name__, error, pause)
            await asyncio.sleep(pause)
    return await action()

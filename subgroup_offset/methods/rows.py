"""What else verl keeps of a batch's rows: fields of its TransferQueue, found by the rows' labels.

verl hands an estimator rewards, mask and ids alone. A row's key in TransferQueue is ``<prompt>_<session>_<output>``,
which its label spells. TransferQueue raises for nothing that is missing: a key it does not know is left out of the
answer, and a field that one of the rows lacks is left out for all of them. So everything is counted here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from subgroup_offset.labels import LabelColumns
from subgroup_offset.settings import ConfigError

#: The one field that verl hands from a row to its policy loss.
LOSS_FIELD = "rollout_is_weights"
#: What makes verl keep a field.
SWITCHES = {
    "rollout_log_probs": "set actor_rollout_ref.rollout.calculate_log_probs=True",
    "ref_log_prob": "set actor_rollout_ref.actor.use_kl_loss=True (its kl_loss_coef may be 0)",
    "old_log_probs": "leave trainer.use_v1 at True",
}


class Rows(Protocol):
    """Fields of B rows. ``where`` is (B,) bool."""

    def tokens(self, field: str, where: Tensor, width: int) -> Tensor:
        """(B, width) of the field's own precision, right-padded with 0; rows outside ``where`` are 0."""

    def objects(self, field: str, where: Tensor) -> list[Any]:
        """One value for each row of ``where``, in their order."""

    def has(self, field: str) -> bool:
        """Whether verl keeps this field of the rows in this run."""

    def write(self, fields: Mapping[str, Tensor]) -> None:
        """Give all rows these fields (B, ...); what is there already is replaced."""


class GivenRows:
    """Fields that the caller has: a later verl's ``batch``, a trainer of one's own, a test. Keeps what is written."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)

    def tokens(self, field: str, where: Tensor, width: int) -> Tensor:
        """As `Rows.tokens`; the field must be (B, at most width)."""
        values = torch.as_tensor(_present(self.fields, field))
        padded = torch.nn.functional.pad(values, (0, width - values.shape[1]))
        return torch.where(where.to(padded.device)[:, None], padded, 0.0)

    def objects(self, field: str, where: Tensor) -> list[Any]:
        """As `Rows.objects`."""
        values = _present(self.fields, field)
        return [values[row] for row in where.nonzero().flatten().tolist()]

    def has(self, field: str) -> bool:
        """As `Rows.has`."""
        return field in self.fields

    def write(self, fields: Mapping[str, Tensor]) -> None:
        """As `Rows.write`."""
        self.fields.update(fields)


class QueueRows:
    """Fields in verl's TransferQueue, for the process that verl's trainer runs in.

    Args:
        columns: the labels of the rows.
        ids: (B,) the ids they were read from; those of padding rows are verl's own.
    """

    def __init__(self, columns: LabelColumns, ids: Sequence[Any]) -> None:
        self._labelled = columns.labelled
        self._keys = row_keys(columns, ids)

    def tokens(self, field: str, where: Tensor, width: int) -> Tensor:
        """As `Rows.tokens`."""
        rows = where.nonzero().flatten().cpu()
        values = self._get(field, rows.tolist())
        if getattr(values, "is_nested", False):
            values = values.to_padded_tensor(0.0)
        # As verl keeps it: at thousands of rows of 20,000 tokens, each byte of an element is gigabytes.
        out = torch.zeros(len(where), width, dtype=values.dtype)
        out[rows, : values.shape[1]] = values.cpu()[:, :width]
        return out

    def objects(self, field: str, where: Tensor) -> list[Any]:
        """As `Rows.objects`."""
        rows = where.nonzero().flatten().tolist()
        return list(self._get(field, rows)) if rows else []

    def has(self, field: str) -> bool:
        """As `Rows.has`; asks for one row, since verl writes its fields for all or none."""
        import transfer_queue as tq

        rows = self._labelled.nonzero()[0]
        if not len(rows):
            return False
        answer = tq.kv_batch_get(keys=[self._keys[rows[0]]], partition_id="train", select_fields=["uid", field])
        return field in set(answer.keys())

    def write(self, fields: Mapping[str, Tensor]) -> None:
        """As `Rows.write`.

        Raises:
            RuntimeError: TransferQueue did not take it for every row.
        """
        import transfer_queue as tq
        from tensordict import TensorDict

        written = tq.kv_batch_put(
            keys=self._keys, partition_id="train", fields=TensorDict(dict(fields), batch_size=len(self._keys))
        )
        if missing := set(fields) - set(written.fields or ()):
            raise RuntimeError(f"TransferQueue did not take {sorted(missing)} for all {len(self._keys)} rows")

    def _get(self, field: str, rows: list[int]) -> Any:
        import transfer_queue as tq

        unlabelled = [row for row in rows if not self._labelled[row]]
        if unlabelled:
            raise ConfigError(
                f"{len(unlabelled)} of {len(rows)} rows carry no label, by which their {field} would be found: sample "
                "with +actor_rollout_ref.rollout.agent.agent_loop_manager_class="
                "subgroup_offset.rollout.StrategyAgentLoopManager (for single-stage rollouts of plain GRPO together "
                "with algorithm.subgroup.partition=none)."
            )
        answer = tq.kv_batch_get(keys=[self._keys[row] for row in rows], partition_id="train", select_fields=[field])
        values = _present(answer, field)
        if len(values) != len(rows):
            raise RuntimeError(f"TransferQueue has {field} for {len(values)} of {len(rows)} rows")
        return values


def row_keys(columns: LabelColumns, ids: Sequence[Any]) -> list[str]:
    """(B,) each row's key in TransferQueue.

    Padding rows have verl's uid ``pad...`` in common and are copies of one another, with keys numbered through: which
    of them gets which number is no matter.
    """
    seen: defaultdict[Any, int] = defaultdict(int)
    keys = []
    for row, (prompt, session, output) in enumerate(
        zip(columns.prompt.tolist(), columns.session.tolist(), columns.output.tolist(), strict=True)
    ):
        if not columns.labelled[row]:
            uid = ids[row]
            session, seen[uid] = seen[uid], seen[uid] + 1
        keys.append(f"{columns.prompts[prompt]}_{session}_{output}")
    return keys


def _present(fields: Any, field: str) -> Any:
    known = set(fields.keys())  # a TensorDict has no `in`
    if field not in known:
        fix = SWITCHES.get(field, "let the rollout or the trainer write it")
        raise ConfigError(f"the rows have no {field}: {fix}.")
    return fields[field]

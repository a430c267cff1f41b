"""A prompt whose last rollout has ended, as the methods' halves in the workers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import transfer_queue as tq
from verl.experimental.agent_loop import AgentLoopOutput
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from subgroup_offset.partition import FinishedRollout
from subgroup_offset.rollout.labelling import insisting
from subgroup_offset.rollout.prompt_tokens import Chat


@dataclass(frozen=True)
class FinishedGroup:
    """All rollouts of one prompt that finished; verl has their rows in TransferQueue already.

    Attributes:
        prompt: the dataset's row, with ``uid`` and ``raw_prompt``, the plain chat.
        rollouts: (n,) in the order of their sessions.
        outputs: session -> its output rows, as the agent loop returned them.
        chat: tokenizes chats as the run's agent loops do.
        tokenizer: the run's.
        config: the run's whole config.
    """

    prompt: Mapping[str, Any]
    rollouts: Sequence[FinishedRollout]
    outputs: Mapping[int, Sequence[AgentLoopOutput]]
    chat: Chat
    tokenizer: Any
    config: Any

    def key(self, session: int, output: int = 0) -> str:
        """Of an output row in TransferQueue."""
        return f"{self.prompt['uid']}_{session}_{output}"

    async def read(self, keys: Sequence[str], fields: Sequence[str]) -> Any:
        """Fields of some rows (a TensorDict). A field that one of them lacks is left out, as TransferQueue does."""
        return await insisting(
            lambda: tq.async_kv_batch_get(keys=list(keys), partition_id="train", select_fields=list(fields))
        )

    async def write(
        self, keys: Sequence[str], rows: Sequence[dict[str, Any]], tags: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Give some rows fields, the same ones each; tags that are not named stay as they are.

        Raises:
            Exception: what TransferQueue raised at the last attempt.
        """
        fields = list_of_dict_to_tensordict([dict(row) for row in rows])
        await insisting(
            lambda: tq.async_kv_batch_put(
                keys=list(keys), fields=fields, partition_id="train", **({"tags": list(tags)} if tags else {})
            )
        )

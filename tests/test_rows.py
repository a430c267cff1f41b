"""Fields of a batch's rows: keys by label, and what is missing is an error, never a shift of rows."""

from __future__ import annotations

import asyncio

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory_queue import MemoryQueue
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from subgroup_offset.config import ConfigError
from subgroup_offset.labels import RolloutLabel, decode_columns
from subgroup_offset.methods.rows import GivenRows, QueueRows, row_keys


@pytest.fixture
def queue(monkeypatch) -> MemoryQueue:
    queue = MemoryQueue()
    queue.install(monkeypatch)
    return queue


PROMPTS = st.text(st.sampled_from("ab#%_25-é "), min_size=1, max_size=8)


@given(st.lists(st.tuples(PROMPTS, st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=8, unique=True))
def test_a_label_spells_the_key_of_its_row(rows):
    ids = [RolloutLabel(prompt, "s#%", session, output).encode() for prompt, session, output in rows]
    assert row_keys(decode_columns(ids), ids) == [f"{prompt}_{session}_{output}" for prompt, session, output in rows]


def test_padding_rows_are_numbered_through():
    ids = ["padab", RolloutLabel("p", 0, 3, 1).encode(), "padab", "padcd", "padab"]
    assert row_keys(decode_columns(ids), ids) == ["padab_0_0", "p_3_1", "padab_1_0", "padcd_0_0", "padab_2_0"]


def stored(queue, lengths, **fields):
    """Labelled rows of these lengths in the queue, a padding row among them, and their view."""
    keys = [f"p_{session}_0" for session in range(len(lengths))] + ["padab_0_0"]
    rows = [{"old_log_probs": torch.arange(length).float() - 5.0} for length in [*lengths, 2]]
    for name, values in fields.items():
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                row[name] = value
    for key, row in zip(keys, rows, strict=True):
        asyncio.run(queue.async_kv_batch_put([key], "train", list_of_dict_to_tensordict([row])))
    ids = [RolloutLabel("p", 0, session).encode() for session in range(len(lengths))] + ["padab"]
    return QueueRows(decode_columns(ids), ids), torch.tensor([True] * len(lengths) + [False])


def test_tokens_are_padded_to_the_width_and_padding_rows_never_read(queue):
    rows, where = stored(queue, [4, 2, 3])
    found = rows.tokens("old_log_probs", where, 6)
    assert found.shape == (4, 6) and found.dtype == torch.float32
    assert found[0].tolist() == [-5, -4, -3, -2, 0, 0] and found[3].abs().max() == 0
    one = rows.tokens("old_log_probs", torch.tensor([False, True, False, False]), 2)
    assert one[1].tolist() == [-5, -4] and one[[0, 2, 3]].abs().max() == 0


def test_objects_come_in_the_order_of_the_rows(queue):
    rows, where = stored(queue, [1, 2, 3], text=["a", "b", "c", "pad"])
    assert rows.objects("text", where) == ["a", "b", "c"]
    assert rows.objects("text", torch.zeros(4, dtype=torch.bool)) == []
    assert rows.has("text") and not rows.has("never")


def test_a_field_that_one_row_lacks_is_an_error(queue):
    rows, where = stored(queue, [1, 2, 3], text=["a", None, "c", "pad"])
    with pytest.raises(ConfigError, match="the rows have no text"):
        rows.objects("text", where)
    assert rows.objects("text", torch.tensor([True, False, True, False])) == ["a", "c"]


@pytest.mark.parametrize(
    ("field", "fix"),
    [
        ("rollout_log_probs", "set actor_rollout_ref.rollout.calculate_log_probs=True"),
        ("ref_log_prob", "set actor_rollout_ref.actor.use_kl_loss=True"),
    ],
)
def test_a_field_that_is_missing_names_its_switch(queue, field, fix):
    rows, where = stored(queue, [1])
    with pytest.raises(ConfigError, match=f"no {field}: {fix}"):
        rows.tokens(field, where, 2)
    with pytest.raises(ConfigError, match=f"no {field}: {fix}"):
        GivenRows({}).tokens(field, where, 2)


def test_rows_without_labels_cannot_be_found(queue):
    ids = ["plain", "uids"]
    rows = QueueRows(decode_columns(ids), ids)
    with pytest.raises(ConfigError, match=r"2 of 2 rows carry no label, .*partition=none"):
        rows.tokens("old_log_probs", torch.ones(2, dtype=torch.bool), 2)


def test_what_is_written_reaches_all_rows(queue):
    rows, _ = stored(queue, [1, 2])
    rows.write({"rollout_is_weights": torch.tensor([[0.1], [0.2], [0.0]])})
    written = {key: row["rollout_is_weights"].tolist() for key, row in queue.fields["train"].items()}
    assert written == {"p_0_0": pytest.approx([0.1]), "p_1_0": pytest.approx([0.2]), "padab_0_0": [0.0]}


def test_a_write_that_is_not_taken_is_an_error(queue, monkeypatch):
    import transfer_queue

    rows, _ = stored(queue, [1])
    monkeypatch.setattr(transfer_queue, "kv_batch_put", lambda **_: type("Meta", (), {"fields": ["uid"]}))
    with pytest.raises(RuntimeError, match=r"did not take \['x'\] for all 2 rows"):
        rows.write({"x": torch.zeros(2)})


def test_an_answer_with_too_few_rows_is_an_error(queue, monkeypatch):
    import transfer_queue

    rows, where = stored(queue, [1, 2])
    monkeypatch.setattr(transfer_queue, "kv_batch_get", lambda **_: {"x": ["only one"]})
    with pytest.raises(RuntimeError, match="has x for 1 of 2 rows"):
        rows.objects("x", where)


def test_given_fields_may_be_narrower_than_the_batch():
    rows = GivenRows({"old_log_probs": torch.ones(2, 3)})
    assert rows.tokens("old_log_probs", torch.tensor([True, False]), 5).tolist() == [[1, 1, 1, 0, 0], [0] * 5]

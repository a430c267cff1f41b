"""Labels: every prompt survives the round trip, and nothing else is taken for one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset import labels as labels_module
from subgroup_offset.labels import MAX_NUMBER, RolloutLabel, compact, decode_columns, is_label, number_pairs

# Text that is rich in what the encoding gives a meaning to.
TEXTS = st.one_of(st.text(), st.text(alphabet="#%:.- sgo1i2350"))
NUMBERS = st.one_of(st.integers(0, 9), st.integers(0, MAX_NUMBER), st.integers(MAX_NUMBER - 3, MAX_NUMBER))
LABELS = st.builds(
    RolloutLabel,
    prompt=TEXTS,
    subgroup=st.one_of(st.integers(), TEXTS),
    session=NUMBERS,
    output=NUMBERS,
    success=st.sampled_from([None, True, False]),
)


@given(LABELS)
def test_round_trip(label):
    text = label.encode()
    assert is_label(text)
    decoded = RolloutLabel.decode(text)
    assert decoded == label
    assert type(decoded.subgroup) is type(label.subgroup)
    assert decoded.success is label.success


@given(st.lists(LABELS, min_size=2, max_size=2, unique=True))
def test_different_labels_have_different_texts(labels):
    assert labels[0].encode() != labels[1].encode()


def test_a_label_as_it_is_written():
    assert RolloutLabel("3f0c-9e", 2, 5, 0, True).encode() == "sgo1:3f0c-9e#5.0.1.i2"
    assert RolloutLabel("a#b", "fast", 0).encode() == "sgo1:a%23b#0.0.-.sfast"


@pytest.mark.parametrize("text", ["", "3f0c2d9e-1b", "pad0", "pad_3f0c", "sgo", "sgo2:p#0.0.-.i0", "xsgo1:", 3, None])
def test_other_ids_are_no_labels(text):
    assert not is_label(text)
    with pytest.raises(ValueError, match="not a rollout label"):
        RolloutLabel.decode(text)


@pytest.mark.parametrize(
    "text",
    [
        "sgo1:",
        "sgo1:p",
        "sgo1:p#",
        "sgo1:p#0",
        "sgo1:p#0.0.-",
        "sgo1:p#0.0.-.",
        "sgo1:p#0.0.-.x1",
        "sgo1:p#0.0.2.i1",
        "sgo1:p#-1.0.-.i1",
        "sgo1:p#0.0.-.iA",
        "sgo1:p#q#0.0.-.i1",
        f"sgo1:p#{2**63}.0.-.i1",
        f"sgo1:p#0.{2**63}.-.i1",
    ],
)
def test_malformed_labels_raise(text):
    assert is_label(text)
    with pytest.raises(ValueError, match="malformed rollout label"):
        RolloutLabel.decode(text)
    with pytest.raises(ValueError, match="malformed rollout label"):
        decode_columns([text, RolloutLabel("p", 0, 0).encode(), "uid"])
    with pytest.raises(ValueError, match="malformed rollout label"):
        decode_columns([text])


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("prompt", 3, TypeError),
        ("subgroup", True, TypeError),
        ("subgroup", 1.0, TypeError),
        ("session", "1", TypeError),
        ("session", -1, ValueError),
        ("session", 2**63, ValueError),
        ("output", -1, ValueError),
        ("output", 2**63, ValueError),
        ("success", 1, TypeError),
    ],
)
def test_fields_are_checked(field, value, error):
    with pytest.raises(error, match=f"RolloutLabel.{field}"):
        RolloutLabel(**{"prompt": "p", "subgroup": 0, "session": 0, field: value})


def test_labels_are_frozen_and_slotted():
    label = RolloutLabel("p", 0, 0)
    assert not hasattr(label, "__dict__")
    with pytest.raises(AttributeError):
        label.session = 1


PLAIN = st.sampled_from(["uid-a", "uid-b", "pad0", "pad1", "p#1", "p#0.0.-.i1"])


@given(st.lists(st.one_of(LABELS, PLAIN), max_size=30))
def test_columns_say_what_the_labels_say(rows):
    texts = np.empty(len(rows), dtype=object)
    texts[:] = [row.encode() if isinstance(row, RolloutLabel) else row for row in rows]
    columns = decode_columns(texts)
    sessions = set()
    for i, row in enumerate(rows):
        subgroup = columns.subgroup[i]
        assert columns.parent[subgroup] == columns.prompt[i]
        labelled = isinstance(row, RolloutLabel)
        assert columns.labelled[i] == labelled
        assert columns.prompts[columns.prompt[i]] == (row.prompt if labelled else row)
        assert columns.subgroup_ids[subgroup] == (row.subgroup if labelled else None)
        if labelled:
            assert columns.session[i] == row.session
            assert columns.output[i] == row.output
            assert columns.success[i] == (-1 if row.success is None else row.success)
        else:
            assert (columns.output[i], columns.success[i]) == (0, -1)
            sessions.add((columns.prompt[i], columns.session[i]))
    taken = {(columns.prompt[i], columns.session[i]) for i, row in enumerate(rows) if isinstance(row, RolloutLabel)}
    assert len(sessions) == sum(isinstance(row, str) for row in rows)
    assert not sessions & taken
    assert len(set(columns.prompts)) == len(columns.prompts)
    pairs = list(zip(columns.parent.tolist(), columns.subgroup_ids, strict=True))
    assert len(set(pairs)) == len(pairs)


def test_ids_of_other_types_are_prompts():
    columns = decode_columns(np.array([3, 4, 3]))
    assert columns.prompts == [3, 4]
    assert columns.prompt.tolist() == [0, 1, 0]
    assert not columns.labelled.any()


@given(st.lists(st.integers(0, 99), max_size=20), st.sampled_from([100, 10**6]))
def test_compact_renumbers(keys, size):
    codes, distinct = compact(np.array(keys, dtype=np.int64), size)
    assert distinct.tolist() == sorted(set(keys))
    assert distinct[codes].tolist() == keys


# Differences of these have no int64, and neither do products of their widths.
SECONDS = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), -(2**62), 2**61, 2**62, 2**62 + 1, 2**63 - 1]))


@given(st.lists(st.tuples(st.integers(0, 4), SECONDS), min_size=1, max_size=20))
def test_pairs_are_numbered_by_what_they_are(pairs):
    first, second = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    codes, count = number_pairs(first, 5, second)
    assert len(set(zip(codes.tolist(), pairs, strict=True))) == count == len(set(pairs))
    assert sorted(set(codes.tolist())) == list(range(count))


def test_labels_of_free_text_are_not_kept():
    texts = [RolloutLabel("p", f"an answer of {n} " + "words " * 100, n).encode() for n in range(50)]
    labels_module._cached_fields.cache_clear()
    decode_columns(texts)
    assert labels_module._cached_fields.cache_info().currsize == 0
    decode_columns([RolloutLabel("p", 3, n, 0, True).encode() for n in range(50)])
    assert labels_module._cached_fields.cache_info().currsize == 50


def test_an_unlabelled_row_never_joins_a_labelled_session_of_its_prompt():
    columns = decode_columns([RolloutLabel("uid", 0, 1).encode(), "uid"])
    assert columns.prompt[0] == columns.prompt[1]
    assert columns.session[0] != columns.session[1]
    assert columns.subgroup[0] != columns.subgroup[1]

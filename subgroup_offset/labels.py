"""The label that tells an estimator which prompt, subgroup and session a row belongs to.

verl hands an advantage estimator one id per row, the `uid` field, and shuffles the rows before it does. So that
one string carries everything the estimator needs:

    sgo1:<prompt>#<session>.<output>.<success>.<i|s><subgroup>        e.g.  sgo1:3f0c2d9e#5.0.1.i2

`#` and `%` inside the prompt or a text subgroup are escaped as `%23` and `%25`, so a label has exactly one `#`.
What differs from row to row within a prompt is kept behind it: there are few distinct tails in a batch and few
distinct heads, which lets `decode_columns` parse each of them once instead of parsing every row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

PREFIX = "sgo1:"
MAX_NUMBER = 2**63 - 1
"""Of a session or an output: they are columns of int64."""
# Characters. A tail whose subgroup is a number or a name is shorter; one whose subgroup is free text (an answer, a
# field) need not be, and hardly ever comes again, so that keeping it would only fill the memory.
_CACHED_TAIL = 40
_SUCCESS_TO_TEXT = {None: "-", False: "0", True: "1"}
_TEXT_TO_SUCCESS = {"-": None, "0": False, "1": True}


@dataclass(frozen=True, slots=True)
class RolloutLabel:
    """One row of a batch.

    Args:
        prompt: id of the prompt (verl's own uid), any text.
        subgroup: id of the subgroup within the prompt (the strategy's slot), an integer or any text.
        session: number of the rollout within the prompt, from 0 to `MAX_NUMBER`.
        output: index of the row within a session that returns several rows, likewise. The row with the highest index
            is the session's last, the one whose reward counts.
        success: the verifier's verdict, or None where the producer does not know it.

    Raises:
        ValueError: a `session` or `output` that is negative or above `MAX_NUMBER`.
        TypeError: a field of another type.
    """

    prompt: str
    subgroup: int | str
    session: int
    output: int = 0
    success: bool | None = None

    def __post_init__(self) -> None:
        for name, value, kinds in (("prompt", self.prompt, str), ("subgroup", self.subgroup, (int, str))):
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise TypeError(f"RolloutLabel.{name} must be {kinds}, got {value!r}")
        for name, count in (("session", self.session), ("output", self.output)):
            if not isinstance(count, int) or isinstance(count, bool):
                raise TypeError(f"RolloutLabel.{name} must be an int, got {count!r}")
            if not 0 <= count <= MAX_NUMBER:
                fix = "number a prompt's rollouts (and a rollout's rows) 0, 1, 2, ..."
                raise ValueError(f"RolloutLabel.{name} must be from 0 to 2**63 - 1 (an int64), got {count}: {fix}")
        if self.success is not None and not isinstance(self.success, bool):
            raise TypeError(f"RolloutLabel.success must be True, False or None, got {self.success!r}")

    def encode(self) -> str:
        """The label as the one string for verl's `uid` field; `decode` is its inverse."""
        subgroup = f"s{_escape(self.subgroup)}" if isinstance(self.subgroup, str) else f"i{self.subgroup}"
        success = _SUCCESS_TO_TEXT[self.success]
        return f"{PREFIX}{_escape(self.prompt)}#{self.session}.{self.output}.{success}.{subgroup}"

    @classmethod
    def decode(cls, text: str) -> RolloutLabel:
        """The label that `encode` wrote.

        Raises:
            ValueError: `text` is no label, or has the prefix but not the form. Ask `is_label` first where plain
                uids may occur.
        """
        if not is_label(text):
            raise ValueError(f"not a rollout label: {text!r} does not start with {PREFIX!r}")
        head, _, tail = text.partition("#")
        if text.count("#") != 1:
            raise ValueError(f"malformed rollout label {text!r}: it must have one '#', after the prompt")
        session, output, success, subgroup = _fields_of(tail)
        return cls(_unescape(head[len(PREFIX) :]), subgroup, session, output, success)


def is_label(text: object) -> bool:
    """Whether `text` is meant as a label: plain uids, verl's `pad...` uids and ids of other types are not."""
    return isinstance(text, str) and text.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """The labels of a batch of B rows as columns, ids turned into integers.

    Attributes:
        labelled: (B,) bool. The rows that carry a label; the other columns describe the others as
            `decode_columns` says.
        prompt: (B,) int64, index into `prompts`.
        subgroup: (B,) int64, index into `parent` and `subgroup_ids`.
        session: (B,) int64; below 0 where unlabelled.
        output: (B,) int64.
        success: (B,) int8: 1, 0, or -1 where unknown.
        prompts: the distinct prompt ids.
        parent: (S,) int64, for each distinct subgroup the index of its prompt.
        subgroup_ids: its id within that prompt; None where unlabelled.
    """

    labelled: np.ndarray
    prompt: np.ndarray
    subgroup: np.ndarray
    session: np.ndarray
    output: np.ndarray
    success: np.ndarray
    prompts: list[Hashable]
    parent: np.ndarray
    subgroup_ids: list[Hashable]


def decode_columns(index: Any) -> LabelColumns:
    """Decode the (B,) ids of a batch, labels and others mixed as they come.

    A row without a label keeps its id as its prompt, is the prompt's only subgroup (id None) and a session of its
    own: -1 minus its position, which no other row has and no label can have.

    Raises:
        ValueError: a label that has the prefix but not the form.
    """
    texts = index.tolist() if hasattr(index, "tolist") else list(index)
    columns = _decode_labelled(texts)
    return _decode_mixed(texts) if columns is None else columns


def factorize(ids: Sequence[Hashable]) -> tuple[np.ndarray, list[Hashable]]:
    """Integer codes (B,) int64 in order of first appearance, and the distinct ids they index."""
    codes: defaultdict[Hashable, int] = defaultdict()
    codes.default_factory = codes.__len__
    return np.fromiter(map(codes.__getitem__, ids), np.int64, len(ids)), list(codes)


def compact(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Renumber the integers `keys` (B,), all in [0, size), densely.

    Returns (B,) codes and the distinct keys, ascending. Where `size` allows it, no sort.
    """
    if size > 8 * len(keys) + 4096:
        distinct, codes = np.unique(keys, return_inverse=True)
        return codes, distinct
    present = np.zeros(size, dtype=bool)
    present[keys] = True
    return (np.cumsum(present) - 1)[keys], np.flatnonzero(present)


def number_pairs(first: np.ndarray, size: int, second: np.ndarray) -> tuple[np.ndarray, int]:
    """Number the pairs of `first` (B,), all in [0, size), and `second` (B,), any int64, B above 0, densely.

    Returns (B,) codes, equal where both are equal, and how many there are.
    """
    low, high = int(second.min()), int(second.max())
    if size * (high - low + 1) > MAX_NUMBER:  # their product has no int64: pairs would be taken for one another
        second = np.unique(second, return_inverse=True)[1]
        low, high = 0, int(second.max())
    width = high - low + 1
    codes, distinct = compact(first * width + (second - low), size * width)
    return codes, len(distinct)


def _decode_labelled(texts: list[Any]) -> LabelColumns | None:
    """The columns of a batch in which every row is a label, else None."""
    try:
        pieces = "#".join(texts).split("#") if texts else []
    except TypeError:  # ids that are not text
        return None
    heads, tails = pieces[::2], pieces[1::2]
    if not texts or len(pieces) != 2 * len(texts):
        return None
    prompt, distinct_heads = factorize(heads)
    if not all(head.startswith(PREFIX) for head in distinct_heads):
        return None
    row_tail, distinct_tails = factorize(tails)
    sessions, outputs, successes, subgroup_ids = zip(*map(_fields_of, distinct_tails), strict=True)
    tail_subgroup, names = factorize(subgroup_ids)
    subgroup, pairs = compact(prompt * len(names) + tail_subgroup[row_tail], len(distinct_heads) * len(names))
    return LabelColumns(
        labelled=np.ones(len(texts), dtype=bool),
        prompt=prompt,
        subgroup=subgroup,
        session=np.array(sessions, dtype=np.int64)[row_tail],
        output=np.array(outputs, dtype=np.int64)[row_tail],
        success=_success_codes(successes)[row_tail],
        prompts=[_unescape(head[len(PREFIX) :]) for head in distinct_heads],
        parent=pairs // len(names),
        subgroup_ids=list(map(names.__getitem__, (pairs % len(names)).tolist())),
    )


def _decode_mixed(texts: list[Any]) -> LabelColumns:
    """The columns of any batch: plain GRPO batches, and a few padding rows among labels."""
    labelled = np.fromiter(map(is_label, texts), bool, len(texts))
    rows = np.flatnonzero(labelled)
    labels = [texts[row] for row in rows.tolist()]
    known = _decode_labelled(labels)
    if known is None and labels:
        for text in labels:
            RolloutLabel.decode(text)  # says which one is malformed, and how
        raise ValueError("malformed rollout labels")
    # Behind the labels' own numbers come those of the other rows: a prompt may be in both, a subgroup never is.
    prompt_codes = {} if known is None else {prompt: code for code, prompt in enumerate(known.prompts)}
    others = np.flatnonzero(~labelled)
    other_prompt = np.fromiter(
        (prompt_codes.setdefault(texts[row], len(prompt_codes)) for row in others.tolist()), np.int64, len(others)
    )
    other_parent, other_subgroup = np.unique(other_prompt, return_inverse=True)
    if known is None:
        zeros, unknown = np.zeros_like(others), np.full(len(others), -1, dtype=np.int8)
        ids: list[Hashable] = [None] * len(other_parent)
        return LabelColumns(
            labelled, other_prompt, other_subgroup, -1 - others, zeros, unknown, list(prompt_codes), other_parent, ids
        )

    def merge(of_labels: np.ndarray, of_others: Any) -> np.ndarray:
        column = np.empty(len(texts), dtype=of_labels.dtype)
        column[rows], column[others] = of_labels, of_others
        return column

    return LabelColumns(
        labelled=labelled,
        prompt=merge(known.prompt, other_prompt),
        subgroup=merge(known.subgroup, len(known.parent) + other_subgroup),
        session=merge(known.session, -1 - others),
        output=merge(known.output, 0),
        success=merge(known.success, -1),
        prompts=list(prompt_codes),
        parent=np.concatenate([known.parent, other_parent]),
        subgroup_ids=known.subgroup_ids + [None] * len(other_parent),
    )


Fields = tuple[int, int, bool | None, int | str]  # session, output, success, subgroup


def _fields_of(tail: str) -> Fields:
    """What follows a label's `#`; the same few short ones recur in every batch."""
    return _cached_fields(tail) if len(tail) <= _CACHED_TAIL else _parse(tail)


@lru_cache(maxsize=8192)
def _cached_fields(tail: str) -> Fields:
    return _parse(tail)


def _parse(tail: str) -> Fields:
    fields = tail.split(".", 3)
    try:
        session, output, success, subgroup = fields
        name: int | str = _unescape(subgroup[1:]) if subgroup[0] == "s" else int(subgroup[1:])
        if not (session.isdecimal() and output.isdecimal()) or subgroup[0] not in "is":
            raise ValueError
        if max(int(session), int(output)) > MAX_NUMBER:
            raise ValueError
        return int(session), int(output), _TEXT_TO_SUCCESS[success], name
    except (ValueError, KeyError, IndexError):
        form = "<session>.<output>.<success: - 0 1>.<i|s><subgroup>, session and output from 0 to 2**63 - 1"
        raise ValueError(f"malformed rollout label: {tail!r} after '#' is not {form}") from None


def _success_codes(successes: Iterable[bool | None]) -> np.ndarray:
    return np.array([-1 if success is None else int(success) for success in successes], dtype=np.int8)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("#", "%23") if "%" in text or "#" in text else text


def _unescape(text: str) -> str:
    return text.replace("%23", "#").replace("%25", "%") if "%" in text else text

"""Other partitions of a prompt's rollouts than by strategy: ``algorithm.subgroup.partition``.

The paper's offsets are defined for any partition ("Discussion": the adjustment is agnostic to how the subgroups are
formed, for instance by grouping on tool use or difficulty); it measured only strategies. The partitions here look at
what has been rolled out. None of them is from the paper: how lengths are binned and answers compared is our choice.
Pure: the standard library only, so that it can be tried on any rollouts.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

from subgroup_offset.boxes import boxes
from subgroup_offset.config import ConfigError

#: The values of ``algorithm.subgroup.partition`` besides the path of a class. ``strategy`` is the rollout's own.
BUILT_IN = ("strategy", "field", "length", "turns", "answer", "none")
#: The label that ``answer`` gives to rollouts without an answer. Answers are compared without spaces: none equals it.
NO_ANSWER = "no answer"

_KEY = "algorithm.subgroup.partition"
# Markdown around the word is no part of the answer: "**Answer:** 34" says 34.
_ANSWER_LINE = re.compile(r"answer[*_]*[ \t]*[:：][*_]*", re.IGNORECASE)
# GSM8K's answer line, as verl's reward for GSM8K reads it, but that spaces and a dollar sign are no matter. The number
# has to follow: "#### Step 2" is a heading.
_HASHES = re.compile(r"####[ \t]*+\$?+(-?+[0-9.,]++)")
# What verl's math_dapo puts into ``pred`` where it found nothing.
_INVALID_PRED = "[INVALID]"


@dataclass(frozen=True)
class FinishedRollout:
    """One rollout (session) of a prompt, after its last turn."""

    #: Its number within the prompt, 0..n-1.
    session: int
    #: The decoded response.
    text: str
    #: Generated tokens (ones of the response mask) over all outputs of the session.
    tokens: int
    #: verl's ``num_turns``: messages of the chat, so a single-turn rollout has 2.
    turns: int
    #: None where the reward is computed later, in the trainer.
    reward: float | None
    #: The verifier's verdict; None where it is not known yet.
    success: bool | None
    #: By name: the dataset's columns, then the agent loop's extra fields, then the reward's extra info.
    fields: Mapping[str, Any]
    #: The strategy slot; None for single-stage rollouts.
    slot: int | None = None


class Partition(Protocol):
    """What a class named in ``algorithm.subgroup.partition`` provides.

    It is made once per worker, without arguments, and called once per training prompt, with all of its rollouts. It
    should be quick (it runs on the agent loop's thread) and depend on its argument only.
    """

    def __call__(self, rollouts: Sequence[FinishedRollout]) -> Sequence[int | str]:
        """Label a prompt's rollouts.

        Args:
            rollouts: (n,) the finished rollouts of one prompt, in the order of their sessions.

        Returns:
            (n,) one label for each, in order; rollouts with equal labels are one subgroup. Labels mean nothing across
            prompts. The integer 1 and the text "1" are two labels.
        """
        ...


def make_partition(name: str, field: str | None = None, buckets: int = 2) -> Partition:
    """The partition that ``algorithm.subgroup.partition`` names.

    ``field``
        Rollouts with the same ``str(value)`` of the field. A field that is the same for all rollouts of a prompt, as
        a dataset column is, makes one subgroup, whose offset is 0.
    ``length``, ``turns``
        Quantile buckets of the generated tokens or of the turns, inside the prompt: see :func:`quantile_buckets`.
    ``answer``
        Rollouts with the same final answer: see :func:`final_answer`.
    ``none``
        All rollouts of a prompt are one subgroup: plain GRPO, with the labels by which some methods find their rows.
    ``package.module.ClassName``
        A class of the user's, made without arguments: see :class:`Partition`.

    Args:
        name: one of :data:`BUILT_IN` but ``strategy``, or the path of a class.
        field: ``algorithm.subgroup.partition_field``; read for ``field`` only.
        buckets: ``algorithm.subgroup.partition_buckets``, 2 or more; read for ``length`` and ``turns`` only.

    Raises:
        ConfigError: for a setting that cannot be used, or a class that cannot be imported or made. A partition by
            field raises it when called with a rollout that has no such field.
        ValueError: for ``strategy``, which the rollout knows without looking at finished rollouts.
    """
    if name == "strategy":
        raise ValueError(f"{_KEY}=strategy is not made here: the strategy stage's slots are the subgroups.")
    if name == "field":
        return _by_field(field)
    if name in ("length", "turns"):
        _require_buckets(buckets)
        return _by_quantile((lambda r: r.tokens) if name == "length" else (lambda r: r.turns), buckets)
    if name == "answer":
        return lambda rollouts: [final_answer(rollout) for rollout in rollouts]
    if name == "none":
        return lambda rollouts: [0] * len(rollouts)
    return _load(name)


def quantile_buckets(values: Sequence[float], buckets: int) -> list[int]:
    """Bucket numbers (n,) of one prompt's values (n,), the smallest values in bucket 0.

    A value's rank is the share of the n values below it plus half the share of those equal to it, in (0, 1); its
    bucket is ``floor(buckets * rank)``, and buckets that remain empty are skipped in the numbering. Therefore

    - equal values share a bucket, and greater values never have a lower one;
    - where all values differ, the buckets' sizes differ by at most one;
    - if there are at least two distinct values, there are at least two buckets (counting only the values below would
      give one for 2, 4, 4, 4), and at most ``buckets``;
    - if all are equal, there is one.
    """
    total, below, bucket_of = len(values), 0, {}
    for value, count in sorted(Counter(values).items()):
        bucket_of[value] = buckets * (2 * below + count) // (2 * total)  # in integers: no rounding at the edges
        below += count
    number = {bucket: i for i, bucket in enumerate(sorted(set(bucket_of.values())))}
    return [number[bucket_of[value]] for value in values]


def final_answer(rollout: FinishedRollout) -> str:
    """The final answer of a rollout, or :data:`NO_ANSWER`.

    The first of these that is there and not empty: the reward's ``pred`` (a field; verl's "[INVALID]" is none), the
    rest of the last ``Answer:`` line of the text (any case, anywhere in a line, the last that has a rest), the
    contents of the last closed box (boxed or fbox), the last number after ``####`` (GSM8K's form, without its commas).
    The last comes last because ``#### 2. Simplify`` is also a heading. Of an answer that holds a box, the box's
    contents count. White space, ``$`` and periods at the end are dropped; nothing else is normalised, so 1/2 and 0.5
    are two answers. Takes time linear in the text.
    """
    pred = rollout.fields.get("pred")
    if pred is not None and str(pred) != _INVALID_PRED and (answer := _normalise(str(pred))):
        return answer
    for line in reversed(rollout.text.splitlines()):
        *_, last = (None, *_ANSWER_LINE.finditer(line))
        if last and (answer := _normalise(line[last.end() :])):
            return answer
    boxed = boxes(rollout.text)
    if boxed and (answer := _normalise(rollout.text[slice(*boxed[-1])])):
        return answer
    numbers = [number.replace(",", "").rstrip(".") for number in _HASHES.findall(rollout.text)]
    return next((number for number in reversed(numbers) if number.strip("-.")), NO_ANSWER)


def check_labels(labels: Iterable[int | str], rollouts: Sequence[FinishedRollout], name: str) -> list[int | str]:
    """What a partition returned, as plain Python values.

    Args:
        labels: (n,) labels; NumPy integers and subclasses of ``str`` are converted.
        rollouts: (n,) what it was called with.
        name: the value of ``algorithm.subgroup.partition``, for the message.

    Raises:
        ConfigError: unless there is one integer (bool is none) or text for each rollout.
    """
    fix = "return one integer or text for each rollout, in order."
    if isinstance(labels, str | bytes | Mapping | set | frozenset) or not isinstance(labels, Iterable):
        raise ConfigError(f"{_KEY}={name} returned {_shown(labels)}, which is no sequence of labels: {fix}")
    listed = list(labels)
    if len(listed) != len(rollouts):
        raise ConfigError(f"{_KEY}={name} returned {len(listed)} labels for {len(rollouts)} rollouts: {fix}")
    return [_plain_label(label, rollout, name, fix) for label, rollout in zip(listed, rollouts, strict=True)]


def _plain_label(label: Any, rollout: FinishedRollout, name: str, fix: str) -> int | str:
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, Integral) and not isinstance(label, bool):  # NumPy's bool is no Integral
        return int(label)
    kind = type(label).__name__
    raise ConfigError(f"{_KEY}={name} returned {_shown(label)} ({kind}) for session {rollout.session}: {fix}")


def _by_field(field: str | None) -> Partition:
    if not isinstance(field, str) or not field:
        raise ConfigError(
            f"{_KEY}=field needs algorithm.subgroup.partition_field, which is {field!r}: set it to a dataset column or "
            "to a field that the agent loop or the reward returns."
        )

    def value(rollout: FinishedRollout) -> str:
        if field in rollout.fields:
            return str(rollout.fields[field])
        there = sorted(map(str, rollout.fields))
        nearest = difflib.get_close_matches(field, there, n=1, cutoff=0.0)
        raise ConfigError(
            f"algorithm.subgroup.partition_field={field!r} is no field of session {rollout.session}, which has "
            f"{', '.join(there) or 'none'}: "
            + (f"did you mean {nearest[0]!r}?" if nearest else "let the agent loop return it as an extra field.")
        )

    return lambda rollouts: [value(rollout) for rollout in rollouts]


def _by_quantile(measure: Callable[[FinishedRollout], int], buckets: int) -> Partition:
    return lambda rollouts: quantile_buckets([measure(rollout) for rollout in rollouts], buckets)


def _require_buckets(buckets: Any) -> None:
    if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 2:
        raise ConfigError(
            f"algorithm.subgroup.partition_buckets={buckets!r} is no whole number of 2 or above: set it to one, for "
            "example 2, which parts a prompt's rollouts at the median."
        )


def _load(name: Any) -> Partition:
    choices = f"one of {', '.join(BUILT_IN)} or the path of a class, package.module.ClassName"
    module_name, dot, attribute = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not (module_name and dot and attribute):
        nearest = difflib.get_close_matches(str(name), BUILT_IN, n=1, cutoff=0.0)[0]
        raise ConfigError(f"{_KEY}={name!r} is unknown: use {choices} (nearest: {nearest}).")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module runs what it likes when it is imported
        raise ConfigError(
            f"{_KEY}={name!r}: {module_name} cannot be imported ({type(error).__name__}: {error}). Use {choices}, "
            "which every Ray worker can import (installed, or on PYTHONPATH)."
        ) from error
    if not hasattr(module, attribute):
        nearest = difflib.get_close_matches(attribute, dir(module), n=1, cutoff=0.0)
        hint = f"did you mean {module_name}.{nearest[0]}?" if nearest else "define it there."
        raise ConfigError(f"{_KEY}={name!r}: {module_name} has no {attribute}: {hint}")
    found = getattr(module, attribute)
    if not isinstance(found, type):
        raise ConfigError(
            f"{_KEY}={name!r} is {_shown(found)}, not a class: name a class whose instances are called with a prompt's "
            "rollouts."
        )
    try:
        partition = found()
    except Exception as error:  # a constructor raises what it likes
        raise ConfigError(
            f"{_KEY}={name!r} cannot be made without arguments ({type(error).__name__}: {error}): give its __init__ "
            "defaults for all of them."
        ) from error
    if not callable(partition):
        raise ConfigError(f"{_KEY}={name!r} is not callable: define __call__(self, rollouts), which returns labels.")
    return partition


def _normalise(answer: str) -> str:
    """The answer, or what is boxed in it, without white space, ``$`` and periods at the end."""
    boxed = boxes(answer)
    return "".join((answer[slice(*boxed[-1])] if boxed else answer).split()).replace("$", "").rstrip(".")


def _shown(value: Any) -> str:
    """Its repr, shortened: a message names the value, it does not dump it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

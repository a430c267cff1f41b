"""Partitions of a prompt's finished rollouts that look at the rollouts themselves."""

import enum
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.config import ConfigError
from subgroup_offset.partition import (
    BUILT_IN,
    NO_ANSWER,
    FinishedRollout,
    check_labels,
    final_answer,
    make_partition,
    quantile_buckets,
)


def rollout(text="", session=0, tokens=1, turns=2, **fields):
    return FinishedRollout(session, text, tokens, turns, reward=None, success=None, fields=fields)


def rollouts(**columns):
    """Rollouts of which the i-th has the i-th value of each column."""
    return [
        rollout(session=i, **dict(zip(columns, values, strict=True)))
        for i, values in enumerate(zip(*columns.values(), strict=True))
    ]


# Few distinct values and texts, so that ties occur.
ROLLOUTS = st.lists(
    st.builds(
        rollout,
        text=st.lists(st.sampled_from(["Answer: 1", "answer:$2$.", "\\boxed{1}", "\\boxed{", "}", "x", "\n"])).map(
            "".join
        ),
        tokens=st.integers(0, 5) | st.integers(0, 10**6),
        turns=st.integers(0, 4),
    ),
    max_size=12,
)


def test_field_by_hand():
    by_tool = make_partition("field", field="tool")
    assert by_tool(rollouts(tool=["calc", None, "calc", 3, np.int64(3)])) == ["calc", "None", "calc", "3", "3"]
    assert by_tool([]) == []


def test_a_missing_field_is_named_with_the_nearest():
    with pytest.raises(ConfigError) as error:
        make_partition("field", field="tools")([rollout(tool=1), rollout(session=4, tool_name=1, tools_used=2)][:1])
    message = str(error.value)
    assert message.startswith("algorithm.subgroup.partition_field='tools' is no field of session 0, which has tool:")
    assert "did you mean 'tool'?" in message
    with pytest.raises(ConfigError, match="session 4, which has acc, tool_used: did you mean 'tool_used'"):
        make_partition("field", field="used_tool")([rollout(used_tool=1), rollout(session=4, tool_used=1, acc=0)])
    with pytest.raises(ConfigError, match="which has none: let the agent loop return it"):
        make_partition("field", field="tool")([rollout()])


def test_length_and_turns_by_hand():
    data = rollouts(tokens=[30, 10, 20, 40], turns=[2, 4, 4, 2])
    assert make_partition("length")(data) == [1, 0, 0, 1]
    assert make_partition("length", buckets=4)(data) == [2, 0, 1, 3]
    assert make_partition("length", buckets=9)(data) == [2, 0, 1, 3]
    assert make_partition("turns")(data) == [0, 1, 1, 0]
    assert make_partition("turns")(rollouts(turns=[2, 4, 4, 4, 4])) == [0, 1, 1, 1, 1]
    assert make_partition("turns")(rollouts(turns=[2, 2, 2, 2, 4])) == [0, 0, 0, 0, 1]
    # The middle 4 spans ranks 0.2 to 0.8, so its middle, 0.5, is in the upper half.
    assert make_partition("turns")(rollouts(turns=[2, 4, 4, 4, 6])) == [0, 1, 1, 1, 1]
    assert make_partition("turns", buckets=3)(rollouts(turns=[2, 4, 4, 4, 6])) == [0, 1, 1, 1, 2]
    assert make_partition("turns", buckets=5)(rollouts(turns=[2] * 4)) == [0] * 4
    assert make_partition("length")([]) == []


@given(st.lists(st.integers(-3, 3) | st.integers(), min_size=1, max_size=20), st.integers(2, 8))
def test_quantile_buckets_keep_their_promises(values, buckets):
    found = quantile_buckets(values, buckets)
    distinct = len(set(values))
    by_value = dict(zip(values, found, strict=True))
    assert [by_value[v] for v in values] == found  # equal values share a bucket
    assert [by_value[v] for v in sorted(by_value)] == sorted(by_value.values())  # in the values' order
    assert set(found) == set(range(max(found) + 1))
    assert min(distinct, 2) <= len(set(found)) <= min(buckets, distinct)
    if distinct == len(values):
        sizes = Counter(found).values()
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == min(buckets, distinct)


@given(st.data(), ROLLOUTS, st.sampled_from(["length", "turns", "answer"]), st.integers(2, 4))
def test_order_does_not_matter(data, group, name, buckets):
    order = data.draw(st.permutations(range(len(group))))
    partition = make_partition(name, buckets=buckets)
    labels = partition(group)
    assert partition([group[i] for i in order]) == [labels[i] for i in order]
    assert check_labels(labels, group, name) == labels


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so\nAnswer: 34", "34"),
        ("Answer: 33\nno:\nANSWER :$34$.", "34"),
        ("the final answer: 3 4", "34"),
        ("**Final Answer:** 34", "34"),
        ("**Final Answer**: 34", "34"),
        ("Answer：三十四", "三十四"),
        ("Answer: 34\r\nI am done.", "34"),
        ("Answer: 34\nAnswer:\n", "34"),  # the last with a rest
        ("Answer: 3. Answer: 4", "4"),
        ("\\boxed{1}\nAnswer: 2", "2"),  # the line goes before a box
        ("Answer: $\\boxed{\\frac{1}{2}}$.", "\\frac{1}{2}"),
        ("Answer:\n\\boxed{ 34 }", "34"),
        ("\\boxed{1} or \\boxed{\\sqrt{a_{1}}} {", "\\sqrt{a_{1}}"),
        ("\\boxed{1} or \\boxed{2", "1"),  # cut off within the last
        ("\\boxed{2 and \\boxed{1}", "1"),
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{\\left\\{1, 2\\right)}", "\\left\\{1,2\\right)"),  # an escaped brace needs no partner
        ("\\\\boxed {5}", "5"),
        ("6 * 7 = <<6*7=42>>42\n#### 42", "42"),  # GSM8K's own form
        ("#### 41\nno:\n####$1,042. ", "1042"),
        ("#### -4.5 dollars", "-4.5"),
        ("#### 42\n#### .", "42"),  # the last that is a number
        ("\\boxed{7}\n#### 42", "7"),  # after the line and the box, for it may be a heading
        ("Answer: 7\n#### 2. Check", "7"),
        ("#### Step 2\n### 3\n####\n4", NO_ANSWER),
        ("0.5", NO_ANSWER),
        ("1/2 \\boxed{} \\boxed", NO_ANSWER),
        ("answers: none given; answer", NO_ANSWER),
        ("Answer: $.$", NO_ANSWER),
        ("", NO_ANSWER),
    ],
)
def test_final_answer(text, answer):
    assert final_answer(rollout(text)) == answer


def test_only_spaces_dollars_and_the_period_are_normalised():
    texts = [
        "Answer: 1/2",
        "Answer: $ 1 / 2 $ .",
        "Answer: 0.5",
        "Answer: \\frac12",
        "Answer: 1/2 m",
        "Answer: x",
        "Answer: X",
    ]
    labels = make_partition("answer")([rollout(t) for t in texts])
    assert labels[0] == labels[1] == "1/2"
    assert len(set(labels)) == 6


def test_the_rewards_pred_goes_first():
    assert final_answer(rollout("Answer: 1", pred=" $34$. ")) == "34"
    assert final_answer(rollout("Answer: 1", pred=34)) == "34"
    for nothing in (None, "", " ", "[INVALID]"):
        assert final_answer(rollout("Answer: 1", pred=nothing)) == "1"
        assert final_answer(rollout("?", pred=nothing)) == NO_ANSWER
    # No answer can be mistaken for the label of those without one.
    assert final_answer(rollout("Answer: no answer")) != NO_ANSWER


@given(st.text(st.sampled_from("\\boxed{} answer:$.\n*12#"), max_size=60))
def test_an_answer_is_found_once_and_stays(text):
    answer = final_answer(rollout(text))
    assert answer
    assert answer == NO_ANSWER or (not answer.endswith(".") and not set(answer) & set("$ \n"))
    if answer.isalnum() and answer != "answer":
        assert final_answer(rollout(f"Answer: $ {answer} $.")) == answer


@pytest.mark.parametrize(
    "piece",
    [
        "\\",
        "\\boxed{",
        "\\boxed ",
        "answer",
        "answer ",
        "answer:",
        "*",
        "{",
        "}",
        "answer*",
        "#",
        "#### ",
        "####.",
        ".",
    ],
)
@pytest.mark.timeout(60)  # what is not linear takes minutes
def test_a_hundred_kilobytes_take_no_time(piece):
    final_answer(rollout(piece * (100_000 // len(piece))))
    final_answer(rollout(f"Answer: {piece * (100_000 // len(piece))}"))
    final_answer(rollout(f"#### {piece * (100_000 // len(piece))}"))


class ByParity:
    def __call__(self, rollouts):
        return [r.tokens % 2 for r in rollouts]


class NotCallable:
    pass


class NeedsArgument(ByParity):
    def __init__(self, size):
        raise AssertionError("not reached without its argument")


a_function = ByParity()


def test_a_class_of_the_users():
    partition = make_partition(f"{__name__}.ByParity")
    assert partition(rollouts(tokens=[1, 2, 3])) == [1, 0, 1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lenght", r"is unknown: use one of strategy, field, .*ClassName \(nearest: length\)"),
        ("ByParity", "is unknown"),
        (".ByParity", "is unknown"),
        (None, "is unknown"),
        ("no_such_package.ByParity", r"no_such_package cannot be imported \(ModuleNotFoundError: .*PYTHONPATH"),
        ("..x.ByParity", "cannot be imported"),
        ("broken_partition.ByParity", r"broken_partition cannot be imported \(ZeroDivisionError: .*PYTHONPATH"),
        (f"{__name__}.ByParty", f"{__name__} has no ByParty: did you mean {__name__}.ByParity"),
        (f"{__name__}.a_function", "not a class: name a class whose instances are called"),
        (f"{__name__}.NotCallable", "is not callable: define __call__"),
        (f"{__name__}.NeedsArgument", r"cannot be made without arguments \(TypeError: .*size.*defaults"),
    ],
)
def test_a_class_that_cannot_be_used(tmp_path, monkeypatch, name, reason):
    (tmp_path / "broken_partition.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=reason) as error:
        make_partition(name)
    assert str(error.value).startswith(f"algorithm.subgroup.partition={name!r}")


def test_settings_that_cannot_be_used():
    assert BUILT_IN == ("strategy", "field", "length", "turns", "answer", "none")
    with pytest.raises(ValueError, match=r"algorithm\.subgroup\.partition=strategy is not made here"):
        make_partition("strategy")
    for field in (None, "", 3):
        with pytest.raises(ConfigError, match=r"needs algorithm\.subgroup\.partition_field, which is"):
            make_partition("field", field=field)
    for buckets in (1, 0, True, 2.0, "2", None):
        for name in ("length", "turns"):
            with pytest.raises(ConfigError, match=r"algorithm\.subgroup\.partition_buckets=.* 2 or above"):
                make_partition(name, buckets=buckets)


class Kind(enum.StrEnum):
    TOOL = "tool"


class OldKind(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    TOOL = "tool"


@pytest.mark.parametrize(
    ("labels", "plain"),
    [
        ([1, "a", -3], [1, "a", -3]),
        ((np.int64(1), np.uint8(2), np.str_("x")), [1, 2, "x"]),
        (np.array([0, 1, 1]), [0, 1, 1]),
        ([Kind.TOOL, OldKind.TOOL, ""], ["tool", "tool", ""]),
        ((i for i in range(3)), [0, 1, 2]),
    ],
)
def test_labels_become_plain(labels, plain):
    checked = check_labels(labels, [rollout()] * 3, "a.B")
    assert checked == plain
    assert {type(label) for label in checked} <= {int, str}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([1, 2], "returned 2 labels for 3 rollouts"),
        ("abc", "returned 'abc', which is no sequence"),
        (None, "returned None, which is no sequence"),
        ({1, 2, 3}, "no sequence"),
        ({0: 1, 1: 1, 2: 1}, "no sequence"),
        ([0, True, 1], r"returned True \(bool\) for session 1"),
        ([0, np.True_, 1], r"\(bool\w*\) for session 1"),
        ([0, 1, 1.0], r"returned 1.0 \(float\) for session 2"),
        ([None, 1, 1], r"returned None \(NoneType\) for session 0"),
        ([(1, 2), 1, 1], r"returned \(1, 2\) \(tuple\) for session 0"),
        ([[0] * 1000, 1, 1], r"returned \[0, 0, .*\.\.\. \(list\)"),
    ],
)
def test_labels_that_are_none(labels, reason):
    group = [rollout(session=i) for i in range(3)]
    with pytest.raises(ConfigError, match=reason) as error:
        check_labels(labels, group, "a.B")
    assert str(error.value).startswith("algorithm.subgroup.partition=a.B returned")
    assert str(error.value).endswith("return one integer or text for each rollout, in order.")
    assert len(str(error.value)) < 300


def test_needs_no_framework():
    """Nor does looking at a log."""
    modules = "sys, subgroup_offset.partition, subgroup_offset.reports.inspect"
    code = f"import {modules}; print({{'torch', 'verl', 'ray', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

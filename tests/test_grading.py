"""Grading of responses with the real math-verify in worker processes: the corpora, and what a grader promises."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from corpus.grading import CASES, NOT_REWARDED, ONLY_REWARDED, SECTIONS
from corpus.grading_hmmt import SPELLINGS
from hypothesis import given, settings
from hypothesis import strategies as st

from subgroup_offset.evaluation.answers import find_answer
from subgroup_offset.evaluation.compare import BOX, EARLIER, ONLY_REWARD, SPELLING, disagreement, load_reward
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Verdict, summarize

BENCHMARKS = ("aime24", "aime25", "aime26", "hmmt25", "gsm8k_test", "gsm8k_train")


@pytest.fixture(scope="module")
def grader():
    # The machine may be busy: no comparison here takes more than a second of its own.
    with Grader(time_limit=100) as grader:
        yield grader


@pytest.fixture(scope="module")
def verdicts(grader):
    """The corpus, graded as one file would be."""
    graded = grader.grade([(response, reference) for response, reference, _ in CASES.values()])
    return dict(zip(CASES, graded, strict=True))


@pytest.fixture(scope="module")
def references(shared_data):
    lines = (shared_data / "hmmt25.jsonl").read_text("utf-8").splitlines()
    return {row["id"]: row["answer"] for row in map(json.loads, lines)}


@pytest.mark.parametrize("name", CASES)
def test_corpus(name, verdicts):
    reason = CASES[name][2]
    assert (verdicts[name].reason, verdicts[name].correct) == (
        reason,
        None if reason in UNDECIDED else reason == "equal",
    ), verdicts[name]


def test_the_corpus_is_what_it_says():
    assert len(CASES) == sum(map(len, SECTIONS)) >= 120  # no name twice
    assert {reason for _, _, reason in CASES.values()} <= set(REASONS)
    assert CASES.keys() >= ONLY_REWARDED | NOT_REWARDED


def test_every_hmmt_problem_is_covered(references):
    assert SPELLINGS.keys() == references.keys()
    for name, (spellings, misses) in SPELLINGS.items():
        assert len({references[name], *spellings}) == 6 and len(set(misses)) == 5, name


def test_hmmt_spellings(grader, references):
    pairs = [(text, references[name]) for name, (spellings, _) in SPELLINGS.items() for text in spellings]
    graded = grader.grade([(f"Answer: {text}", reference) for text, reference in pairs])
    assert [pair for pair, verdict in zip(pairs, graded, strict=True) if not verdict.correct] == []
    # Equality has no direction, but for equations: as references they would ask for one.
    pairs = [(reference, text) for text, reference in pairs if "=" not in text]
    graded = grader.grade([(f"Answer: {text}", reference) for text, reference in pairs])
    assert [pair for pair, verdict in zip(pairs, graded, strict=True) if not verdict.correct] == []
    assert {verdict.method for verdict in graded} == {"exact", "numeric", "symbolic"}


def test_hmmt_near_misses(grader, references):
    pairs = [(text, references[name]) for name, (_, misses) in SPELLINGS.items() for text in misses]
    graded = grader.grade([(f"Answer: {text}", reference) for text, reference in pairs])
    assert [pair for pair, verdict in zip(pairs, graded, strict=True) if verdict.correct is not False] == []


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_references_grade_themselves(grader, shared_data, benchmark):
    rows = map(json.loads, (shared_data / f"{benchmark}.jsonl").read_text("utf-8").splitlines())
    answers = [row["answer"] for row in rows]
    responses = [form for answer in answers for form in (f"Answer: {answer}", rf"**Answer:** $\boxed{{{answer}}}$.")]
    graded = grader.grade(list(zip(responses, [a for a in answers for _ in range(2)], strict=True)))
    assert {verdict.reason for verdict in graded} == {"equal"}


def test_verdicts_come_in_the_order_of_the_responses(grader):
    samples = [("Answer: 3", "3"), ("no", "3"), (r"Answer: \sqrt{9.5}", r"\sqrt{19/2}"), ("Answer: 4", "3")] * 3
    assert [verdict.reason for verdict in grader.grade(samples)] == [
        "equal",
        "no answer found",
        "equal",
        "different",
    ] * 3


def test_a_verdict_says_what_was_read_and_how(grader):
    verdict = grader.grade([("Answer: $x = 2/4$", "0.5")])[0]
    assert verdict == Verdict(True, "equal", "$x = 2/4$", "numeric", "")


def test_progress_counts_different_pairs(grader):
    calls = []
    samples = [(rf"Answer: \sqrt{{{n % 3 + 20}}}", r"\sqrt{21}") for n in range(9)]
    grader.grade(samples, lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    calls.clear()
    grader.grade(samples, lambda done, total: calls.append((done, total)))
    assert calls == [(0, 0)]  # they are known


def test_a_time_out_is_no_wrong_answer():
    hard = r"\prod_{i=1}^{10^8} \sin i"
    with Grader(workers=1, time_limit=2) as grader:
        verdicts = grader.grade([(f"Answer: {hard}", "34"), ("Answer: 34", "34"), (f"Answer: {hard}", "34")])
    assert [(verdict.correct, verdict.reason) for verdict in verdicts] == [
        (None, "timeout"),
        (True, "equal"),
        (None, "timeout"),
    ]
    summary = summarize(verdicts)
    assert (summary.total, summary.correct, summary.undecided) == (3, 1, 2)
    assert summary.accuracy == pytest.approx(1 / 3)


def test_a_thread_grades_as_the_main_thread_does(grader):
    # math-verify on its own raises in threads, or finds equal answers different.
    found = []
    sample = (r"Answer: \sqrt{8} + 1", r"1+2\sqrt{2}")
    thread = threading.Thread(target=lambda: found.extend(grader.grade([sample])))
    thread.start()
    thread.join()
    assert [verdict.correct for verdict in found] == [True]


@pytest.mark.parametrize("reference", ["", "  ", "3" * 2000, r"\frac{1", "]"])
def test_a_reference_that_is_none_is_refused(grader, reference):
    with pytest.raises(ValueError, match="reference 1, "):
        grader.grade([("Answer: 34", "34"), ("Answer: 34", reference)])


@pytest.mark.parametrize("settings", [{"workers": 0}, {"time_limit": 0}, {"time_limit": float("nan")}])
def test_settings_that_cannot_be(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Grader(**settings)


PIECES = st.lists(
    st.sampled_from(["3", "x", r"\sqrt{2}", "+", "(", ")", "^", r"\frac", "{", "}", ",", "=", "!", r"\pi", "<"])
)


@settings(max_examples=30)
@given(PIECES.map("".join))
def test_any_formula_has_a_verdict(grader, text):
    verdict = grader.grade([(f"Answer: {text}", r"\sqrt{2}+x")])[0]
    assert verdict.reason in REASONS and verdict.reason != "timeout"


@pytest.fixture(scope="module")
def reward():
    return load_reward()


@pytest.mark.parametrize("name", sorted(ONLY_REWARDED | NOT_REWARDED))
def test_the_training_reward_says_otherwise(name, reward, verdicts):
    response, reference, _ = CASES[name]
    found = find_answer(response)
    rewarded = reward(response, reference, found)
    assert rewarded.correct == (name in ONLY_REWARDED)
    kind = disagreement(found, verdicts[name], rewarded)
    expected = {"far from the end": EARLIER, "only a box with spaces": BOX}.get(name, SPELLING)
    assert kind == (ONLY_REWARD + CASES[name][2] if name in ONLY_REWARDED else expected)


def test_no_disagreement_where_both_say_the_same(reward):
    for response, reference, correct in (("Answer: 34", "34", True), ("Answer: 35", "34", False), ("", "34", False)):
        verdict, found = Verdict(correct, "equal" if correct else "different"), find_answer(response)
        assert disagreement(found, verdict, reward(response, reference, found)) is None


def test_grading_imports_no_computer_algebra():
    code = (
        "import sys, subgroup_offset.evaluation.grading; "
        "print([m for m in ('sympy', 'torch', 'verl') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"

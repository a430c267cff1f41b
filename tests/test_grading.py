"""Grading of responses with the real math-verify in worker processes: the corpora, and what a grader promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest
from corpus.grading import CASES, NOT_REWARDED, ONLY_REWARDED, SECTIONS
from corpus.grading_cases import CASES as MEASURED
from corpus.grading_hmmt import SPELLINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from subgroup_offset.evaluation.answers import find_answer
from subgroup_offset.evaluation.grade_file import BOX, EARLIER, ONLY_REWARD, SPELLING, disagreement, load_reward
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Verdict, reference_problem

BENCHMARKS = ("aime24", "aime25", "aime26", "hmmt25", "gsm8k_test", "gsm8k_train")


@pytest.fixture(scope="module")
def grader():
    # The machine may be busy: no comparison here takes more than a second of its own.
    with Grader(time_limit=100) as grader:
        yield grader


@pytest.fixture(scope="module")
def verdicts(grader):
    """The corpus, graded as one file would be; a tower of powers fills no memory and takes no time."""
    graded = grader.grade([(response, reference) for response, reference, _ in CASES.values()])
    return dict(zip(CASES, graded, strict=True))


@pytest.fixture(scope="module")
def references(shared_data):
    lines = (shared_data / "hmmt25.jsonl").read_text("utf-8").splitlines()
    return {row["id"]: row["answer"] for row in map(json.loads, lines)}


@pytest.mark.parametrize("name", CASES)
def test_corpus(name, verdicts):
    reason = CASES[name][2]
    correct = None if reason in UNDECIDED else reason == "equal"
    assert (verdicts[name].reason, verdicts[name].correct) == (reason, correct), verdicts[name]


def test_the_corpus_is_what_it_says():
    assert len(CASES) == sum(map(len, SECTIONS)) >= 120  # no name twice
    assert {reason for _, _, reason in CASES.values()} <= set(REASONS)
    assert CASES.keys() >= ONLY_REWARDED | NOT_REWARDED


def measured_cases():
    for line in MEASURED.strip().splitlines():
        kind, _, case = line.partition(": ")
        response, _, reference = case.rpartition(" | ")
        source, expected = kind.split(", ")
        response = re.sub(r"\\n(?![a-z])", "\n", response)
        yield {"id": line, "source": source, "response": response, "reference": reference, "expected": expected}


def measure(cases, *arguments):
    command = [sys.executable, str(Path(__file__).parents[1] / "scripts/measure_grading.py"), str(cases), *arguments]
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def test_every_kind_of_case_is_graded_as_expected(tmp_path):
    # A bare number is no answer: what the script shows of a case that is expected to be wrong.
    odd = {"id": "odd", "source": "x", "response": "1", "reference": "1", "expected": "right"}
    rows = [*measured_cases(), odd]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = measure(tmp_path / "cases.jsonl", "--show", "--time-limit", "100").splitlines()
    shown = [line for line in lines if line.startswith(("false", "undecided"))]
    assert len(shown) == 1 and shown[0].startswith("false negative: odd")
    wrong = sum(row["expected"] == "wrong" for row in rows)
    assert f"of the {wrong} wrong answers 0 (0.0%) are graded correct" in lines


def test_agreement_on_the_shared_cases(grader):
    path = Path(__file__).parents[2] / "shared/data/grading_cases.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    graded = grader.grade([(row["response"], row["reference"]) for row in rows])
    wanted = [row["expected"] == "right" for row in rows]
    agreed = sum(verdict.correct is right for verdict, right in zip(graded, wanted, strict=True))
    false = sum(verdict.correct is True and not right for verdict, right in zip(graded, wanted, strict=True))
    assert agreed / len(rows) >= 0.87 and false / len(rows) <= 0.04, (agreed, false, len(rows))


def test_hmmt_spellings_and_near_misses(grader, references):
    assert SPELLINGS.keys() == references.keys()
    right = [(text, references[name]) for name, (spellings, _) in SPELLINGS.items() for text in spellings]
    # Equality has no direction, but for equations: as references they would ask for one.
    right += [(reference, text) for text, reference in right if "=" not in text]
    wrong = [(text, references[name]) for name, (_, misses) in SPELLINGS.items() for text in misses]
    for pairs, correct in ((right, True), (wrong, False)):
        graded = grader.grade([(f"Answer: {text}", reference) for text, reference in pairs])
        assert [pair for pair, verdict in zip(pairs, graded, strict=True) if verdict.correct is not correct] == []
        assert {verdict.method for verdict in graded} >= {"numeric", "symbolic"}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_references_grade_themselves(grader, shared_data, benchmark):
    rows = map(json.loads, (shared_data / f"{benchmark}.jsonl").read_text("utf-8").splitlines())
    answers = [row["answer"] for row in rows]
    responses = [form for answer in answers for form in (f"Answer: {answer}", rf"**Answer:** $\boxed{{{answer}}}$.")]
    graded = grader.grade(list(zip(responses, [a for a in answers for _ in range(2)], strict=True)))
    assert {verdict.reason for verdict in graded} == {"equal"}


def test_verdicts_come_in_order_and_say_what_was_read_and_how(grader):
    samples = [("Answer: 3", "3"), ("no", "3"), (r"Answer: \sqrt{9.5}", r"\sqrt{19/2}"), ("Answer: $2/4$", "0.5")] * 2
    assert grader.grade(samples) == 2 * [
        Verdict(True, "equal", "3", "exact"),
        Verdict(False, "no answer found"),
        Verdict(True, "equal", r"\sqrt{9.5}", "symbolic"),
        Verdict(True, "equal", "$2/4$", "numeric"),
    ]


def test_progress_is_shown_and_equal_pairs_are_compared_once(grader):
    samples = [(rf"Answer: \sqrt{{{n % 3 + 20}}}", r"\sqrt{21}") for n in range(9)]
    shown = []
    for _ in range(2):
        console = Console(file=StringIO(), force_terminal=True)
        grader.grade(samples, console)
        shown.append(console.file.getvalue())
    assert "100%" in shown[0] and shown[1] == ""  # then they are known


def test_a_time_out_is_no_wrong_answer():
    hard = r"\prod_{i=1}^{10^8} \sin i"
    with Grader(workers=1, time_limit=2) as grader:
        verdicts = grader.grade([(f"Answer: {hard}", "34"), ("Answer: 34", "34"), (f"Answer: {hard}", "34")])
    assert [verdict.correct for verdict in verdicts] == [None, True, None]
    assert verdicts[0].reason == "timeout"


def test_a_thread_grades_as_the_main_thread_does(grader):
    # math-verify on its own raises in threads, or finds equal answers different.
    found = []
    sample = (r"Answer: \sqrt{8} + 1", r"1+2\sqrt{2}")
    thread = threading.Thread(target=lambda: found.extend(grader.grade([sample])))
    thread.start()
    thread.join()
    assert [verdict.correct for verdict in found] == [True]


@pytest.mark.parametrize(
    "reference", ["", "  ", "3" * 2000, r"\frac{1", "]", "34 +", "^2", r"\frac{1}", "???", "(1, 2"]
)
def test_a_reference_that_is_none_is_refused(grader, reference):
    with pytest.raises(ValueError, match="reference 1, "):
        grader.grade([("Answer: 34", "34"), (f"Answer: {reference}", reference)])


def test_a_reference_may_be_words_a_set_or_a_ratio():
    for reference in (r"\text{Tuesday}", "12:00", r"\{\}", "[0, 1)", r"1:2:\ldots", "A'", r"\infty", "3, 5"):
        assert reference_problem(reference) is None


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
    assert verdict.reason in REASONS and verdict.reason not in ("timeout", "error")


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

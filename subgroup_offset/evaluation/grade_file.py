"""Grade a file of generations and print what came out: ``subgroup-offset grade``.

With ``compare`` also where the grades differ from the training reward, verl's ``math_dapo``. That compares texts, so it
misses answers that are spelled otherwise than the reference, and sees the last 300 characters only; on the other hand
it takes the first formula of ``$3$ or $4$`` for the answer. Training keeps it, as the recipe does; this says what it
costs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Verdict
from subgroup_offset.evaluation.plan import EvaluationError
from subgroup_offset.evaluation.rows import read_responses, write_graded
from subgroup_offset.text import printable, shortened

WIDTH = 80  #: Characters of an answer that are shown.
TAIL = 300  #: Characters at the end of a response, all that ``math_dapo`` looks at.

EARLIER = "right here only: the answer is not in the last 300 characters"
BOX = "right here only: a box, and no answer line"
SPELLING = "right here only: spelled otherwise than the reference"
ONLY_REWARD = "right for math_dapo only: "


class Reward(NamedTuple):
    """What ``math_dapo`` says of a response, and the answer it read, as it normalises it."""

    correct: bool
    answer: str
    #: Whether the last :data:`TAIL` characters hold the same answer as the whole response.
    sees_answer: bool


class Graded(NamedTuple):
    """A row without its response, which may be long: of 61,440 responses only the answers are kept."""

    line: int
    found: FoundAnswer | None
    reference: str
    reward: Reward | None
    verdict: Verdict


def load_reward() -> Callable[[str, str, FoundAnswer | None], Reward]:
    """verl's ``math_dapo`` as a function of response, reference and the answer found; importing verl takes seconds."""
    from verl.utils.reward_score.math_dapo import compute_score

    def reward(response: str, reference: str, found: FoundAnswer | None) -> Reward:
        seen = find_answer(response[-TAIL:])
        scored = compute_score(response, reference)
        same = found is None or (seen is not None and (seen.text, seen.source) == (found.text, found.source))
        return Reward(bool(scored["acc"]), str(scored["pred"]), same)

    return reward


def disagreement(found: FoundAnswer | None, verdict: Verdict, reward: Reward) -> str | None:
    """The kind of a disagreement, or None; an undecided verdict disagrees with a reward that is right only."""
    if bool(verdict.correct) == reward.correct:
        return None
    if reward.correct:
        return ONLY_REWARD + verdict.reason
    if not reward.sees_answer:
        return EARLIER
    return BOX if found is not None and found.source == "box" else SPELLING


def grade_file(
    path: Path,
    *,
    response_column: str | None = None,
    reference_column: str | None = None,
    output: Path | None = None,
    workers: int = 2,
    time_limit: float = 10.0,
    compare: bool = False,
    show: int = 0,
) -> None:
    """Grade a JSONL file, print counts and examples, and write the graded rows.

    The arguments are the command's options, see ``grade_command``. The rows get ``correct`` (true, false or null:
    undecided), ``reason``, ``method``, ``extracted`` (the answer, or null) and ``detail``, and ``math_dapo`` (true or
    false) if compared.

    Raises:
        ValueError: with a message for the user.
    """
    console = Console()
    if output and output.resolve() == path.resolve():
        raise EvaluationError(f"--output {output} is the file that is graded: give another name.")
    reward = load_reward() if compare else None
    samples = [
        (line, found := find_answer(response), reference, reward(response, reference, found) if reward else None)
        for line, response, reference in read_responses(path, response_column, reference_column)
    ]
    if not samples:
        raise EvaluationError(f"{path} has no rows: there is nothing to grade.")
    with Grader(workers, time_limit) as grader:
        verdicts = grader.judge([(found, reference) for _, found, reference, _ in samples], Console(stderr=True))
    graded = [Graded(*sample, verdict) for sample, verdict in zip(samples, verdicts, strict=True)]
    if output:
        columns = [asdict(row.verdict) | ({"math_dapo": row.reward.correct} if row.reward else {}) for row in graded]
        if replaced := write_graded(path, output, columns):
            _say(console, f"rows with columns of an earlier grading, which are replaced: {replaced}", "yellow")
    _print_reasons(console, graded, show)
    if compare:
        _print_disagreements(console, graded, show)
    if output:
        _say(console, f"graded rows: {output}")


def _print_reasons(console: Console, graded: Sequence[Graded], show: int) -> None:
    kinds = {reason: rows for reason in REASONS if (rows := [row for row in graded if row.verdict.reason == reason])}
    correct, total = len(kinds.get("equal", ())), len(graded)
    methods = Counter(row.verdict.method for row in kinds.get("equal", ())).most_common()
    notes = {"equal": ", ".join(f"{method} {n}" for method, n in methods)}
    _print_kinds(console, f"{total} responses", "reason", kinds, total, show, notes)
    _say(console, f"accuracy {correct / total:.4f} ({correct} of {total})", "bold")
    if undecided := {reason: len(rows) for reason, rows in kinds.items() if reason in UNDECIDED}:
        number = sum(undecided.values())
        listed = ", ".join(f"{reason} {n}" for reason, n in undecided.items())
        hint = " Try a longer --time-limit." if "timeout" in undecided else ""
        most = f"{(correct + number) / total:.4f}.{hint}"
        text = f"{number} UNDECIDED ({listed}), counted as not correct; were all correct, accuracy would be {most}"
        _say(console, text, "bold red")
    if several := sum(row.found is not None and row.found.candidates > 1 for row in graded):
        _say(console, f"responses with several different answers, of which the last counts: {several}")


def _print_disagreements(console: Console, graded: Sequence[Graded], show: int) -> None:
    found: dict[str, list[Graded]] = defaultdict(list)
    for row in graded:
        if row.reward and (kind := disagreement(row.found, row.verdict, row.reward)):
            found[kind].append(row)
    kinds = dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))
    title = f"{sum(map(len, kinds.values()))} disagreements"
    _print_kinds(console, title, "math_dapo says otherwise", kinds, len(graded), show, {})
    right = sum(row.reward.correct for row in graded if row.reward)
    _say(console, f"accuracy by math_dapo {right / len(graded):.4f} ({right} of {len(graded)})", "bold")


def _print_kinds(
    console: Console,
    title: str,
    heading: str,
    kinds: Mapping[str, Sequence[Graded]],
    total: int,
    show: int,
    notes: Mapping[str, str],
) -> None:
    """A table of how many rows of each kind there are, and the first ``show`` of each."""
    table = Table(heading, "responses", "share", *["of these"] * bool(notes), title=title, title_style="bold")
    for kind, rows in kinds.items():
        style = "green" if kind == "equal" else "bold red" if kind in UNDECIDED else ""
        table.add_row(kind, str(len(rows)), f"{len(rows) / total:.4f}", notes.get(kind), style=style)
    console.print(table)
    for kind, rows in kinds.items() if show else ():
        _say(console, kind, "bold")
        for row in rows[:show]:
            read = f", math_dapo read {_short(row.reward.answer)}" if row.reward else ""
            detail = f" ({row.verdict.detail})" if row.verdict.detail else ""
            answer = "none" if row.verdict.extracted is None else _short(row.verdict.extracted)
            _say(console, f"  line {row.line}: {answer}, reference {_short(row.reference)}{read}{detail}")


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), WIDTH)


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a text as it is, without markup."""
    console.print(Text(printable(text), style=style))

"""Grade a file of generations and print what came out: ``subgroup-offset grade``.

With ``compare`` also where the grades differ from the training reward, verl's ``math_dapo``. That compares texts, so it
misses answers that are spelled otherwise than the reference, and sees the last 300 characters only; on the other hand
it takes the first formula of ``$3$ or $4$`` for the answer. Training keeps it, as the recipe does; this says what it
costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Summary, Verdict, summarize
from subgroup_offset.evaluation.rows import RowError, read_samples, write_graded
from subgroup_offset.text import printable, shortened

WIDTH = 80  #: Characters of an answer that are shown.
TAIL = 300  #: Characters at the end of a response, all that ``math_dapo`` looks at.

EARLIER = "right here only: the answer is not in the last 300 characters"
BOX = "right here only: a box, and no answer line"
SPELLING = "right here only: spelled otherwise than the reference"
ONLY_REWARD = "right for math_dapo only: "


@dataclass(frozen=True)
class Reward:
    """What ``math_dapo`` says of a response."""

    correct: bool
    #: The answer it read, as it normalises it.
    answer: str
    #: Whether the last :data:`TAIL` characters hold the same answer as the whole response.
    sees_answer: bool


@dataclass(frozen=True)
class Sample:
    """A row without its response, which may be long: of 61,440 responses only the answers are kept."""

    line: int
    found: FoundAnswer | None
    reference: str
    reward: Reward | None


Graded = list[tuple[Sample, Verdict]]


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
    console: Console | None = None,
) -> Summary:
    """Grade a JSONL file, print counts and examples, and write the graded rows.

    Args:
        path: see :func:`~subgroup_offset.evaluation.rows.read_samples`, also for the two columns.
        response_column: the response's column.
        reference_column: the reference's column.
        output: where the rows go, with ``correct`` (true, false or null: undecided), ``reason``, ``method``,
            ``extracted`` (the answer, or null) and ``detail``, and with ``math_dapo`` (true or false) if compared.
        workers: processes for math-verify.
        time_limit: seconds a comparison may take.
        compare: also show where verl's ``math_dapo`` says otherwise.
        show: how many examples of each reason, and of each kind of disagreement.
        console: where to print; the standard output if None.

    Raises:
        ValueError: (:class:`~subgroup_offset.evaluation.rows.RowError` among them) with a message for the user.
    """
    console = console or Console()
    if output and output.resolve() == path.resolve():
        raise RowError(f"--output {output} is the file that is graded: give another name.")
    reward = load_reward() if compare else None
    samples = [
        Sample(line, found := find_answer(response), reference, reward(response, reference, found) if reward else None)
        for line, response, reference in read_samples(path, response_column, reference_column)
    ]
    if not samples:
        raise RowError(f"{path} has no rows: there is nothing to grade.")
    with Grader(workers, time_limit) as grader, Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("different answers", total=None)
        verdicts = grader.judge(
            [(sample.found, sample.reference) for sample in samples],
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    graded = list(zip(samples, verdicts, strict=True))
    if output:
        columns = [asdict(v) | ({"math_dapo": s.reward.correct} if s.reward else {}) for s, v in graded]
        if replaced := write_graded(path, output, columns):
            _say(console, f"rows with columns of an earlier grading, which are replaced: {replaced}", "yellow")
    summary = summarize(verdicts)
    _print_reasons(console, summary, graded, show)
    if compare:
        _print_disagreements(console, graded, show)
    if output:
        _say(console, f"graded rows: {output}")
    return summary


def _print_reasons(console: Console, summary: Summary, graded: Graded, show: int) -> None:
    examples: dict[str, Graded] = {reason: [] for reason in REASONS}
    for sample, verdict in graded:
        examples[verdict.reason].append((sample, verdict))
    methods = ", ".join(f"{method} {n}" for method, n in summary.methods.most_common())
    _print_counts(console, f"{summary.total} responses", "reason", examples, summary.total, {"equal": methods})
    _say(console, f"accuracy {summary.accuracy:.4f} ({summary.correct} of {summary.total})", "bold")
    if summary.undecided:
        kinds = ", ".join(
            f"{reason} {len(examples[reason])}" for reason in REASONS if reason in UNDECIDED & summary.counts.keys()
        )
        hint = " Try a longer --time-limit." if summary.counts["timeout"] else ""
        most = f"{(summary.correct + summary.undecided) / summary.total:.4f}.{hint}"
        text = f"{summary.undecided} UNDECIDED ({kinds}), counted as not correct; were all correct, accuracy would be "
        _say(console, text + most, "bold red")
    several = sum(sample.found is not None and sample.found.candidates > 1 for sample, _ in graded)
    if several:
        _say(console, f"responses with several different answers, of which the last counts: {several}")
    _print_examples(console, examples, show)


def _print_disagreements(console: Console, graded: Graded, show: int) -> None:
    found: dict[str, Graded] = defaultdict(list)
    for sample, verdict in graded:
        assert sample.reward is not None
        if kind := disagreement(sample.found, verdict, sample.reward):
            found[kind].append((sample, verdict))
    kinds = dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))
    title = f"{sum(map(len, kinds.values()))} disagreements"
    _print_counts(console, title, "math_dapo says otherwise", kinds, len(graded), {})
    right = sum(sample.reward.correct for sample, _ in graded if sample.reward)
    _say(console, f"accuracy by math_dapo {right / len(graded):.4f} ({right} of {len(graded)})", "bold")
    _print_examples(console, kinds, show)


def _print_counts(
    console: Console, title: str, heading: str, kinds: Mapping[str, Graded], total: int, notes: Mapping[str, str]
) -> None:
    table = Table(heading, title=title, title_style="bold")
    for column in ("responses", "share"):
        table.add_column(column, justify="right")
    if notes:
        table.add_column("of these")
    for kind, examples in kinds.items():
        if examples:
            style = "green" if kind == "equal" else "bold red" if kind in UNDECIDED else ""
            table.add_row(kind, str(len(examples)), f"{len(examples) / total:.4f}", notes.get(kind), style=style)
    console.print(table)


def _print_examples(console: Console, kinds: Mapping[str, Graded], show: int) -> None:
    for kind, examples in kinds.items():
        for i, (sample, verdict) in enumerate(examples[:show]):
            if i == 0:
                _say(console, kind, "bold")
            read = f", math_dapo read {_short(sample.reward.answer)}" if sample.reward else ""
            detail = f" ({verdict.detail})" if verdict.detail else ""
            answer = "none" if verdict.extracted is None else _short(verdict.extracted)
            _say(console, f"  line {sample.line}: {answer}, reference {_short(sample.reference)}{read}{detail}")


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), WIDTH)


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a text as it is, without markup."""
    console.print(Text(printable(text), style=style))

"""Grade a file of generations and print what came out: ``subgroup-offset grade``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from subgroup_offset.evaluation.answers import FoundAnswer, find_answer
from subgroup_offset.evaluation.compare import Reward, disagreement, load_reward
from subgroup_offset.evaluation.grading import REASONS, UNDECIDED, Grader, Summary, Verdict, summarize
from subgroup_offset.evaluation.rows import RowError, read_samples, write_graded

WIDTH = 80  #: Characters of an answer that are shown.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


@dataclass(frozen=True)
class Sample:
    """A row without its response, which may be long: of 61,440 responses only the answers are kept."""

    line: int
    found: FoundAnswer | None
    reference: str
    reward: Reward | None = None


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
        workers: processes for symbolic equality.
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
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
    verdicts = _grade(samples, workers, time_limit)
    if output:
        replaced = write_graded(path, output, [_columns(s, v) for s, v in zip(samples, verdicts, strict=True)])
        if replaced:
            console.print(_text(f"rows with columns of an earlier grading, which are replaced: {replaced}", "yellow"))
    summary = summarize(verdicts)
    _print_reasons(console, summary, samples, verdicts, show)
    if compare:
        _print_disagreements(console, samples, verdicts, show)
    if output:
        console.print(_text(f"graded rows: {output}"))
    return summary


def _grade(samples: Sequence[Sample], workers: int, time_limit: float) -> list[Verdict]:
    with Grader(workers, time_limit) as grader, Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("different answers", total=None)
        return grader.judge(
            [(sample.found, sample.reference) for sample in samples],
            lambda done, total: bar.update(task, completed=done, total=total),
        )


def _columns(sample: Sample, verdict: Verdict) -> Mapping[str, Any]:
    return asdict(verdict) | ({"math_dapo": sample.reward.correct} if sample.reward else {})


def _print_reasons(
    console: Console, summary: Summary, samples: Sequence[Sample], verdicts: Sequence[Verdict], show: int
) -> None:
    table = Table("reason", title=f"{summary.total} responses", title_style="bold")
    for heading in ("responses", "share"):
        table.add_column(heading, justify="right")
    table.add_column("of these")
    methods = ", ".join(f"{method} {n}" for method, n in summary.methods.most_common())
    for reason in REASONS:
        if count := summary.counts[reason]:
            style = "green" if reason == "equal" else "bold red" if reason in UNDECIDED else ""
            cells = (reason, str(count), f"{count / summary.total:.4f}", methods if reason == "equal" else "")
            table.add_row(*cells, style=style)
    console.print(table)
    console.print(_text(f"accuracy {summary.accuracy:.4f} ({summary.correct} of {summary.total})", "bold"))
    if summary.undecided:
        most = (summary.correct + summary.undecided) / summary.total
        kinds = ", ".join(
            f"{reason} {n}" for reason in REASONS if reason in UNDECIDED and (n := summary.counts[reason])
        )
        hint = " Try a longer --time-limit." if summary.counts["timeout"] else ""
        warning = (
            f"{summary.undecided} UNDECIDED ({kinds}), counted as not correct; were all correct, accuracy would be "
        )
        console.print(_text(f"{warning}{most:.4f}.{hint}", "bold red"))
    several = sum(sample.found is not None and sample.found.candidates > 1 for sample in samples)
    if several:
        console.print(_text(f"responses with several different answers, of which the last counts: {several}"))
    examples = defaultdict(list)
    for sample, verdict in zip(samples, verdicts, strict=True):
        examples[verdict.reason].append((sample, verdict))
    for reason in REASONS:
        _print_examples(console, reason, examples[reason][:show])


def _print_disagreements(console: Console, samples: Sequence[Sample], verdicts: Sequence[Verdict], show: int) -> None:
    kinds = defaultdict(list)
    for sample, verdict in zip(samples, verdicts, strict=True):
        assert sample.reward is not None
        if kind := disagreement(sample.found, verdict, sample.reward):
            kinds[kind].append((sample, verdict))
    right = sum(sample.reward.correct for sample in samples if sample.reward)
    differ = sum(map(len, kinds.values()))
    table = Table("math_dapo says otherwise", title=f"{differ} disagreements", title_style="bold")
    for heading in ("responses", "share"):
        table.add_column(heading, justify="right")
    order = sorted(kinds, key=lambda kind: (-len(kinds[kind]), kind))
    for kind in order:
        table.add_row(kind, str(len(kinds[kind])), f"{len(kinds[kind]) / len(samples):.4f}")
    console.print(table)
    console.print(_text(f"accuracy by math_dapo {right / len(samples):.4f} ({right} of {len(samples)})", "bold"))
    for kind in order:
        _print_examples(console, kind, kinds[kind][:show])


def _print_examples(console: Console, title: str, examples: Sequence[tuple[Sample, Verdict]]) -> None:
    if not examples:
        return
    console.print(_text(title, "bold"))
    for sample, verdict in examples:
        read = f", math_dapo read {_short(sample.reward.answer)}" if sample.reward else ""
        detail = f" ({verdict.detail})" if verdict.detail else ""
        answer = "none" if verdict.extracted is None else _short(verdict.extracted)
        console.print(_text(f"  line {sample.line}: {answer}, reference {_short(sample.reference)}{read}{detail}"))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _text(text: str, style: str = "") -> Text:
    """Text that is shown as it is, without markup."""
    return Text(_UNPRINTABLE.sub("�", text), style=style)

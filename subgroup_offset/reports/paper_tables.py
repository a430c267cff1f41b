"""The paper's tables in the form of a report's."""

from __future__ import annotations

from collections.abc import Sequence

from subgroup_offset.reports import paper
from subgroup_offset.reports.grid import Cell, Emphasis, Head, Listing, Papers, Prose, Row, Table, arrow, cells, ranks
from subgroup_offset.reports.methods import lam_text

_BOTH_METRICS = (
    (Head(""), *(Head(name, 2) for name in paper.BENCHMARKS)),
    (Head("Method"), *(Head(metric) for _ in paper.BENCHMARKS for metric in paper.METRICS)),
)
_ONE_METRIC = ((Head("Method"), *map(Head, paper.BENCHMARKS)),)
ANCHOR = "Strategy-GRPO"


def main() -> Papers:
    """Table 1 and the gains of the text."""
    rows: list[Row] = []
    for model, methods in paper.MAIN.items():
        rows.append(Row(cells(model), "heading"))
        rows.append(_row("GRPO", methods["GRPO"], kind="reference"))
        ours = {name: values for name, values in methods.items() if name != "GRPO"}
        emphasis = _emphasis(list(ours.values()))
        for (name, values), marks in zip(ours.items(), emphasis, strict=True):
            reference = None if name == ANCHOR else ours[ANCHOR]
            rows.append(_row(name, values, reference, marks, "anchor" if name == ANCHOR else ""))
    table = Table(
        "The paper's Table 1: pass@1 and pass@16 in percent",
        _BOTH_METRICS,
        tuple(rows),
        (
            "Arrows: change from Strategy-GRPO. Bold: best of the strategy-based methods; underlined (by this report): "
            "second best.",
        ),
    )
    gains = [
        f"{model}, {method}: {one:+.1f} pass@1, {sixteen:+.1f} pass@16 over Strategy-GRPO on average"
        for model, methods in paper.GAINS.items()
        for method, (one, sixteen) in methods.items()
    ]
    return Papers("The paper's numbers: main results", (table, Listing(tuple(gains))))


def lambdas() -> Papers:
    """Table 2 and the averages of the text."""
    directions = {"Alignment (lam > 0)": 1, "Contrast (lam < 0)": -1}
    rows = [_row("0 (Strategy-GRPO)", paper.LAMBDAS[0.0], kind="anchor")]
    for heading, sign in directions.items():
        values = {lam: row for lam, row in paper.LAMBDAS.items() if lam * sign > 0}
        rows.append(Row(cells(heading), "heading"))
        for lam, marks in zip(values, _emphasis(list(values.values())), strict=True):
            rows.append(_row(lam_text(lam), values[lam], marks=[mark if mark == "best" else "" for mark in marks]))
    table = Table(
        "The paper's Table 2 (Qwen3-8B-Base): effect of lam, pass@1 and pass@16 in percent",
        (_BOTH_METRICS[0], (Head("lam"), *_BOTH_METRICS[1][1:])),
        tuple(rows),
        ("Bold: best of each direction, as printed.",),
    )
    averages = "; ".join(
        f"lam = {lam:g}: {one:.1f} pass@1, {sixteen:.1f} pass@16"
        for lam, (one, sixteen) in paper.LAMBDA_AVERAGES.items()
    )
    return Papers("The paper's numbers: lambda", (table, Prose(f"Averages over the benchmarks: {averages}.")))


def shuffle() -> Papers:
    """Table 3."""
    rows = []
    for name, values in paper.SHUFFLE.items():
        base = name.removesuffix(" + shuffle")
        rows.append(_row(name, values, paper.SHUFFLE[base] if base != name else None))
    table = _one_metric(3, "offsets shuffled", rows, "the unshuffled setting")
    return Papers("The paper's numbers: offset shuffling", (table,))


def sampling() -> Papers:
    """Table 4."""
    rows = []
    for method, variants in paper.SAMPLING.items():
        rows.append(Row(cells(method), "heading"))
        for name, values in variants.items():
            rows.append(_row(name, values, None if name == "default" else variants["default"]))
    table = _one_metric(4, "strategy sampling", rows, "the default, temperature 1.0 and diversity-based selection")
    return Papers("The paper's numbers: strategy sampling", (table,))


def _one_metric(number: int, what: str, rows: Sequence[Row], reference: str) -> Table:
    caption = f"The paper's Table {number} (Qwen3-8B-Base, pass@16 in percent): {what}"
    return Table(caption, _ONE_METRIC, tuple(rows), (f"Arrows: change from {reference}.",))


def dynamics() -> Papers:
    """What there is in words of Figure 2."""
    return Papers("The paper's Figure 2 in words", (Listing(paper.DYNAMICS),))


def cost() -> Papers:
    """The text on the cost."""
    return Papers("The paper on cost", (Listing(paper.COST),))


def case() -> Papers:
    """Table 6."""
    rows = tuple(
        Row((Cell(f"s{i}"), Cell(idea, code=True), Cell(f"{won}/{of}")))
        for i, (idea, (won, of)) in enumerate(paper.CASE.items(), start=1)
    )
    heads = ((Head("Strategy"), Head("Key idea (abridged)"), Head("Success")),)
    return Papers("The paper's case", (Table("The paper's Table 6: four subgroups of one problem", heads, rows),))


def _emphasis(rows: Sequence[Sequence[float]]) -> list[list[Emphasis]]:
    """Of each value in its column."""
    columns = [ranks(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _row(
    name: str,
    values: Sequence[float],
    reference: Sequence[float] | None = None,
    marks: Sequence[Emphasis] | None = None,
    kind: str = "",
) -> Row:
    found = [
        Cell(f"{value:.1f}", marks[i] if marks else "", arrow(value, reference[i] if reference else None))
        for i, value in enumerate(values)
    ]
    return Row((Cell(name), *found), kind)  # type: ignore[arg-type]

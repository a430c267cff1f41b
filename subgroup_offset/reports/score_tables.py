"""The tables of scores in the layouts of the paper's Tables 1 to 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from subgroup_offset.evaluation.samples import OVERALL
from subgroup_offset.reports.grid import NOTHING, Cell, Emphasis, Head, Row, Table, arrow, cells, ranks
from subgroup_offset.reports.groups import Ablation, Group, ModelRuns
from subgroup_offset.reports.methods import lam_text
from subgroup_offset.reports.scores import Column, ScoreBook

_RANKED = "Bold: best of the strategy-based methods; underlined: second best."
_BOOTSTRAP = (
    "These are verl's own metrics of the last validation it logged, on whatever trainer.val_files holds: mean@N is the "
    "mean over N samples a prompt; best@N is a bootstrap (N drawn with replacement), which is not pass@N."
)
_STEPS = "No arrow between validations of different steps."
MEAN = "mean over benchmarks"


def main_table(models: Sequence[ModelRuns], books: Mapping[str, ScoreBook], notes: Sequence[str] = ()) -> Table:
    """Table 1: every group that is no ablation of another, models as sections.

    Args:
        models: all of them.
        books: the scores by model name, all of one kind.
        notes: what else to say below the table.
    """
    kind = next(iter(books.values())).kind
    shown = [model for model in models if model.name in books]
    columns = _all_columns(shown, books)
    rows: list[Row] = []
    anchored: dict[str, list[str]] = {}
    for model in shown:
        book, groups = books[model.name], model.headline()
        marks = _emphasis([g for g in groups if g.method.strategy_based], columns, book)
        rows.append(Row(cells(model.name), "heading"))
        for group in groups:
            anchor = model.anchor(group)
            reference = anchor.group if anchor else None
            row_kind = {"grpo": "reference", "anchor": "anchor"}.get(group.method.direction, "")
            rows.append(score_row(group.label, group, reference, columns, book, marks.get(group), row_kind))
            if anchor:
                anchored.setdefault(f"{anchor.group.label}{', ' if anchor.note else ''}{anchor.note}", []).append(
                    group.label
                )
    caption = {
        "evaluation": "Main results: pass@k of the evaluations in percent, in the layout of the paper's Table 1",
        "validation": "verl's own validation, last logged (no pass@k)",
    }[kind]
    return Table(
        caption, heads("Method", columns, kind), tuple(rows), (_RANKED, *_arrows(anchored), *_notes(kind), *notes)
    )


def lambda_table(family: Sequence[Group], book: ScoreBook) -> Table:
    """Table 2: groups that differ only in lam; lam = 0 first, then Alignment, then Contrast."""
    columns = book.columns([run for group in family for run in group.runs])
    zero = next((group for group in family if group.method.lam == 0), None)
    rows = [score_row(f"0 ({zero.label})", zero, None, columns, book, None, "anchor")] if zero else []
    for heading, direction in (("Alignment (lam > 0)", "alignment"), ("Contrast (lam < 0)", "contrast")):
        groups = [group for group in family if group.method.direction == direction]
        groups.sort(key=lambda group: abs(group.method.lam or 0.0))
        marks = _emphasis(groups, columns, book)
        if groups:
            rows.append(Row(cells(heading), "heading"))
        rows += [score_row(lam_text(g.method.lam or 0.0), g, zero, columns, book, marks.get(g), "") for g in groups]
    caption = f"Effect of lam on {_name(book.kind)}, in the layout of the paper's Table 2"
    notes = ("Arrows: change from lam = 0. Bold and underlined: best and second best of each direction.",)
    return Table(caption, heads("lam", columns, book.kind), tuple(rows), (*notes, *_notes(book.kind)))


def ablation_table(
    caption: str, ablations: Sequence[Ablation], anchors: Sequence[Group], book: ScoreBook, columns: Sequence[Column]
) -> Table:
    """Tables 3 and 4: the anchors for reference, then each base and its variants, with arrows from the base."""
    rows = [score_row(group.label, group, None, columns, book, None, "anchor") for group in anchors]
    for ablation in ablations:
        base = ablation.base
        rows.append(Row(cells(base.label), "heading"))
        rows.append(score_row("as it is", base, None, columns, book, None, ""))
        rows += [score_row(label, other, base, columns, book, None, "") for label, other in ablation.variants]
    notes = ("Arrows: change from the same run without the departure.", *_notes(book.kind))
    return Table(caption, heads("Method", columns, book.kind), tuple(rows), notes)


def ablation_columns(groups: Sequence[Group], book: ScoreBook) -> list[Column]:
    """The columns of Tables 3 and 4: pass@k with the greatest k of each benchmark; of a validation, all."""
    columns = book.columns([run for group in groups for run in group.runs])
    if book.kind == "validation":
        return columns
    return [list(same)[-1] for _, same in groupby(columns, key=lambda column: column.benchmark)]


def runs_table(groups: Sequence[Group], book: ScoreBook) -> Table:
    """Every run of groups with several, one a row."""
    columns = book.columns([run for group in groups for run in group.runs])
    rows: list[Row] = []
    for group in groups:
        rows.append(Row(cells(group.label), "heading"))
        for run in group.runs:
            scores = book.of(run)
            found = [scores.values.get(column) if scores else None for column in columns]
            texts = [NOTHING if v is None else c.text(v) for v, c in zip(found, columns, strict=True)]
            step = [str(scores.step) if scores else NOTHING] if book.kind == "validation" else []
            rows.append(Row(cells(run.name, *step, *texts)))
    return Table(f"Each seed on its own: {_name(book.kind)}", heads("Run", columns, book.kind), tuple(rows))


def heads(first: str, columns: Sequence[Column], kind: str) -> tuple[tuple[Head, ...], ...]:
    """Two rows of headings: benchmarks, and their metrics."""
    step = [Head("step")] if kind == "validation" else []
    names = [(name, len(list(same))) for name, same in groupby(columns, key=lambda column: column.benchmark)]
    top = [Head(""), *(Head("") for _ in step), *(Head(MEAN if n == OVERALL else n, span) for n, span in names)]
    return tuple(top), (Head(first), *step, *(Head(column.metric) for column in columns))


def score_row(
    label: str,
    group: Group,
    reference: Group | None,
    columns: Sequence[Column],
    book: ScoreBook,
    marks: Sequence[Emphasis] | None,
    kind: str,
) -> Row:
    """A group's scores, means over its seeds, with arrows from another group."""
    comparable = reference if reference is not None and _steps(group, book) == _steps(reference, book) else None
    found = []
    for i, column in enumerate(columns):
        pooled = book.pooled(group, column)
        if pooled is None:
            found.append(Cell(NOTHING))
            continue
        other = book.pooled(comparable, column) if comparable else None
        moved = arrow(column.rounded(pooled.mean), column.rounded(other.mean) if other else None)
        small = "" if pooled.error is None else column.text_of_error(pooled.error)
        if pooled.seeds < group.seeds:
            small = f"{small} ({pooled.seeds} of {group.seeds} seeds)".strip()
        found.append(Cell(column.text(pooled.mean), marks[i] if marks else "", moved, small))
    name = Cell(label, small=f"{group.seeds} seeds" if group.seeds > 1 else "")
    step = [Cell(_steps_text(group, book))] if book.kind == "validation" else []
    return Row((name, *step, *found), kind)  # type: ignore[arg-type]


def _emphasis(groups: Sequence[Group], columns: Sequence[Column], book: ScoreBook) -> dict[Group, list[Emphasis]]:
    """Best and second best of each column among these groups, as rounded for showing."""
    if book.kind == "validation" and len({_steps_text(group, book) for group in groups}) > 1:
        return {}
    marks = []
    for column in columns:
        pooled = [book.pooled(group, column) for group in groups]
        marks.append(ranks([column.rounded(p.mean) if p else None for p in pooled]))
    return {group: [column[i] for column in marks] for i, group in enumerate(groups)}


def _all_columns(models: Sequence[ModelRuns], books: Mapping[str, ScoreBook]) -> list[Column]:
    merged = ScoreBook("", {name: scores for book in books.values() for name, scores in book.by_run.items()})
    return merged.columns([run for model in models for run in model.runs])


def _steps(group: Group, book: ScoreBook) -> set[int | None]:
    return {scores.step for run in group.runs if (scores := book.of(run))}


def _steps_text(group: Group, book: ScoreBook) -> str:
    steps = sorted(step for step in _steps(group, book) if step is not None)
    if not steps:
        return NOTHING
    return str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def _arrows(anchored: Mapping[str, Sequence[str]]) -> list[str]:
    """What the arrows compare with, for the groups together where it is the same for all."""
    if len(anchored) == 1:
        return [f"Arrows: change from {next(iter(anchored))}."]
    return [f"Arrows of {', '.join(labels)}: change from {what}." for what, labels in anchored.items()]


def _notes(kind: str) -> tuple[str, ...]:
    general = "± is the standard error over seeds."
    return (general,) if kind == "evaluation" else (general, _BOOTSTRAP, _STEPS)


def _name(kind: str) -> str:
    return "pass@k of the evaluations in percent" if kind == "evaluation" else "verl's own validation (no pass@k)"

"""The tables of scores in the layouts of the paper's Tables 1 to 4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from subgroup_offset.evaluation.samples import OVERALL
from subgroup_offset.reports.blocks import Cell, Table, number, ranks, score, table
from subgroup_offset.reports.groups import Ablation, Group, ModelRuns
from subgroup_offset.reports.methods import lam_text
from subgroup_offset.reports.scores import Scores, digits

MEAN = "mean over benchmarks"
_ERRORS = "± is the standard error over seeds."
_VALIDATION_NOTES = (
    "These are verl's own metrics of the last validation it logged, on whatever trainer.val_files holds: mean@N is the "
    "mean over N samples a prompt; best@N is a bootstrap (N drawn with replacement), which is not pass@N.",
    "No arrow between validations of different steps.",
)
KINDS = {"evaluation": "pass@k of the evaluations", "validation": "verl's own validation (no pass@k)"}
_UNITS = {"evaluation": " in percent", "validation": ""}


class Entry(NamedTuple):
    """A row: a group's scores, means over its seeds."""

    section: str
    label: str
    group: Group
    #: What its arrows compare with.
    reference: Group | None = None
    #: It competes for the best with those of the same name; empty: with none.
    ranked: str = ""
    aside: bool = False


def main_table(models: Sequence[ModelRuns], scores: Scores, notes: Sequence[str] = ()) -> Table:
    """Table 1: every group that is no ablation of another, models as sections."""
    entries: list[Entry] = []
    compared: dict[str, list[str]] = {}
    for model in models:
        if scores.of(model.runs).empty:
            continue
        for group in model.headline():
            anchor = model.anchor(group)
            ranked = model.name if group.method.strategy_based else ""
            aside = group.method.direction == "grpo"
            entries.append(Entry(model.name, group.label, group, anchor and anchor.group, ranked, aside))
            if anchor:
                with_what = ", ".join(part for part in (anchor.group.label, anchor.note) if part)
                compared.setdefault(with_what, []).append(group.label)
    caption = {
        "evaluation": "Main results: pass@k of the evaluations in percent, in the layout of the paper's Table 1",
        "validation": "verl's own validation, last logged (no pass@k)",
    }[scores.kind]
    ranking = "Bold: best of the strategy-based methods; underlined: second best."
    return _table(caption, "Method", entries, scores, (ranking, *_arrows(compared)), notes)


def lambda_table(family: Sequence[Group], scores: Scores) -> Table:
    """Table 2: groups that differ only in lam; lam = 0 first, then Alignment, then Contrast."""
    zero = next((group for group in family if group.method.lam == 0), None)
    entries = [Entry("", f"0 ({zero.label})", zero)] if zero else []
    lams = {group: group.method.lam or 0.0 for group in family}
    for heading, sign in (("Alignment (lam > 0)", 1), ("Contrast (lam < 0)", -1)):
        for group in sorted((group for group in family if sign * lams[group] > 0), key=lambda group: abs(lams[group])):
            entries.append(Entry(heading, lam_text(lams[group]), group, zero, heading))
    caption = f"Effect of lam on {KINDS[scores.kind]}{_UNITS[scores.kind]}, in the layout of the paper's Table 2"
    note = "Arrows: change from lam = 0. Bold and underlined: best and second best of each direction."
    return _table(caption, "lam", entries, scores, (note,))


def ablation_table(caption: str, ablations: Sequence[Ablation], anchors: Sequence[Group], scores: Scores) -> Table:
    """Tables 3 and 4: the anchors for reference, then each base and its variants, with arrows from the base."""
    entries = [Entry("", group.label, group) for group in anchors]
    for ablation in ablations:
        base = ablation.base
        entries.append(Entry(base.label, "as it is", base))
        entries += [Entry(base.label, label, other, base) for label, other in ablation.variants]
    note = "Arrows: change from the same run without the departure."
    return _table(caption, "Method", entries, scores, (note,), greatest=scores.kind == "evaluation")


def runs_table(groups: Sequence[Group], scores: Scores) -> Table:
    """Every run of groups with several, one a row."""
    entries = [Entry(g.label, run.name, Group(run.name, run.method, [run])) for g in groups for run in g.runs]
    return _table(f"Each seed on its own: {KINDS[scores.kind]}{_UNITS[scores.kind]}", "Run", entries, scores, None)


def benchmark_name(benchmark: str) -> str:
    """As it is shown."""
    return MEAN if benchmark == OVERALL else benchmark


def _table(
    caption: str,
    first: str,
    entries: Sequence[Entry],
    scores: Scores,
    notes: Sequence[str] | None,
    more: Sequence[str] = (),
    greatest: bool = False,
) -> Table:
    """A row for each entry; ``greatest``: of each benchmark only the last column, pass@k with the greatest k."""
    groups = [entry.group for entry in entries]
    places = {group: i for i, group in enumerate(dict.fromkeys([*groups, *(e.reference for e in entries)]))}
    places.pop(None, None)
    pooled = scores.pooled(list(places))
    shown = scores.of([run for group in groups for run in group.runs]).columns
    if greatest:
        shown = [column for i, column in enumerate(shown) if [c[0] for c in shown[i + 1 : i + 2]] != [column[0]]]
    means, errors, counts = (frame[list(shown)] for frame in pooled)
    marks = _marks(entries, places, means, scores)
    rows = []
    for entry in entries:
        i, group = places[entry.group], entry.group
        step = [_steps(group, scores)] if scores.kind == "validation" else []
        # Validations of different steps are not compared.
        reference = entry.reference
        if reference and step and _steps(reference, scores) != step[0]:
            reference = None
        cells = []
        for column in means:
            mean, decimals = means.at[i, column], digits(column[1])
            small = number(errors.at[i, column], decimals, "±{}") or ""
            if 0 < counts.at[i, column] < len(group.runs):
                small = f"{small} ({counts.at[i, column]:.0f} of {len(group.runs)} seeds)".strip()
            other = means.at[places[reference], column] if reference else float("nan")
            cells.append(score(mean, decimals, "aside" if entry.aside else marks.at[i, column], other, small))
        seeds = f"{len(group.runs)} seeds" if len(group.runs) > 1 else ""
        name = Cell(entry.label, "aside" if entry.aside else "", small=seeds)
        rows.append((entry.section, [name, *(s and Cell(s, name.mark) for s in step), *cells]))
    columns = [("", first), *([("", "step")] if scores.kind == "validation" else [])]
    columns += [(benchmark_name(benchmark), metric) for benchmark, metric in means]
    validation = _VALIDATION_NOTES if scores.kind == "validation" else ()
    return table(caption, columns, rows, () if notes is None else (*notes, _ERRORS, *validation, *more))


def _marks(entries: Sequence[Entry], places: dict[Group, int], means: pd.DataFrame, scores: Scores) -> pd.DataFrame:
    """Best and second best of each column among the entries of one ranking, as rounded for showing."""
    marks = pd.DataFrame("", index=means.index, columns=means.columns, dtype=object)
    for ranking in {entry.ranked for entry in entries} - {""}:
        groups = [entry.group for entry in entries if entry.ranked == ranking]
        if scores.kind == "evaluation" or len({_steps(group, scores) for group in groups}) == 1:
            chosen = [places[group] for group in groups]
            marks.loc[chosen] = ranks(means.loc[chosen])
    return marks


def _steps(group: Group, scores: Scores) -> str | None:
    steps = sorted({scores.steps[run.name] for run in group.runs if run.name in scores.steps})
    if not steps:
        return None
    return str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def _arrows(compared: dict[str, list[str]]) -> Iterator[str]:
    """What the arrows compare with, for the groups together where it is the same for all."""
    for with_what, labels in compared.items():
        of = "" if len(compared) == 1 else f" of {', '.join(labels)}"
        yield f"Arrows{of}: change from {with_what}."

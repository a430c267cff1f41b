"""Put a report together: which chapters there are, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from subgroup_offset.reports import paper_tables
from subgroup_offset.reports.browser import BrowserLimits, browser_data
from subgroup_offset.reports.comparisons import comparisons, pass_at_k_figure, summary_rows
from subgroup_offset.reports.cost_tables import cost_table, yield_table
from subgroup_offset.reports.dynamics_panels import figure_2, further, numbers
from subgroup_offset.reports.evaluated import evaluation_differences
from subgroup_offset.reports.grid import Block, Browser, Chapter, Document, Folded, Head, Prose, Row, Table, cells
from subgroup_offset.reports.groups import Ablation, ModelRuns, group_runs
from subgroup_offset.reports.lambda_curves import lambda_figure
from subgroup_offset.reports.missing import Missing, grouped
from subgroup_offset.reports.overview import difference_blocks, runs_overview
from subgroup_offset.reports.paper import SOURCE
from subgroup_offset.reports.runs import Run
from subgroup_offset.reports.score_tables import ablation_columns, ablation_table, lambda_table, main_table, runs_table
from subgroup_offset.reports.scores import ScoreBook, evaluations, validations

Books = dict[str, ScoreBook]


@dataclass
class Material:
    """What the chapters are made from."""

    models: list[ModelRuns]
    #: By model, for those that have some.
    evaluations: Books
    validations: Books
    smooth: float

    @property
    def runs(self) -> list[Run]:
        """All runs, in the order of the report."""
        return [run for model in self.models for run in model.runs]

    def book(self, model: ModelRuns) -> ScoreBook | None:
        """The evaluations of a model's runs, else their validations."""
        return self.evaluations.get(model.name) or self.validations.get(model.name)


def make_document(runs: Sequence[Run], title: str, limits: BrowserLimits, smooth: float) -> Document:
    """The whole report of some runs; notes what the runs lack on the way."""
    models = group_runs(runs)
    material = Material(models, _books(models, evaluations), _books(models, validations), smooth)
    browser = browser_data(material.runs, limits)
    chapters = [
        Chapter("runs", "Runs", (runs_overview(models),)),
        Chapter("main", "Main results", _main(material)),
        Chapter("lambda", "Effect of lambda", _lambda(material)),
        Chapter("ablations", "Ablations", _ablations(material)),
        Chapter("dynamics", "Training dynamics", _dynamics(material)),
        Chapter("cost", "Cost of the strategy stage", _cost(material)),
        Chapter("subgroups", "Subgroups", _subgroups(browser, limits)),
        Chapter("differences", "Config differences", difference_blocks(material.runs)),
    ]
    chapters.append(Chapter("not-found", "Not found", _not_found(material.runs)))
    return Document(title, _summary(material), tuple(chapters), browser)


def _books(models: Sequence[ModelRuns], of: Callable[[Sequence[Run]], ScoreBook]) -> Books:
    found = {model.name: of(model.runs) for model in models}
    return {name: book for name, book in found.items() if book.by_run}


def _summary(material: Material) -> str:
    runs = material.runs
    states: dict[str, int] = {}
    for run in runs:
        states[run.state] = states.get(run.state, 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    groups = sum(len(model.groups) for model in material.models)
    return (
        f"{_count(len(runs), 'run')} ({counts}) of {_count(groups, 'setting')}, seeds aside. Results are of these runs "
        f"only; what is marked as the paper's is from {SOURCE}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _main(material: Material) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if material.evaluations:
        blocks.append(main_table(material.models, material.evaluations, _evaluation_note(material.runs)))
    elif material.validations:
        blocks.append(
            Prose("None of the runs has an evaluation. In place of pass@k stand verl's own validation metrics.")
        )
    if material.validations:
        blocks.append(main_table(material.models, material.validations))
    if not blocks:
        blocks.append(Prose("None of the runs has an evaluation or has logged a validation."))
    for run in material.runs:
        if run.steps and not any(book.of(run) for book in material.validations.values()):
            run.lacks("A logged validation.", "trainer.test_freq=N, trainer.val_before_train=true.")
    for i, model in enumerate(material.models):
        blocks += _main_details(material, model, str(i))
    return (*blocks, paper_tables.main())


def _evaluation_note(runs: Sequence[Run]) -> list[str]:
    _, found = evaluation_differences(runs)
    keys = ", ".join(difference.key for difference in found if difference.kind == "setting")
    return [f"The evaluations differ in {keys}: see Config differences."] if keys else []


def _main_details(material: Material, model: ModelRuns, name: str) -> list[Block]:
    blocks: list[Block] = []
    details: list[Table | None] = []
    evaluated = material.evaluations.get(model.name)
    if evaluated is not None:
        figure = pass_at_k_figure(model, evaluated, name)
        blocks += [figure] if figure is not None else []
        details += [comparisons(model, evaluated), summary_rows(model, evaluated)]
    seeded = [group for group in model.groups if group.seeds > 1]
    for book in (evaluated, material.validations.get(model.name)):
        if book is not None and seeded:
            details.append(runs_table(seeded, book))
    folded = tuple(table for table in details if table is not None)
    return [*blocks, Folded(f"{model.name}: tests, intervals and single seeds", folded)] if folded else blocks


def _lambda(material: Material) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for i, model in enumerate(material.models):
        book = material.book(model)
        if book is None:
            continue
        for j, family in enumerate(model.families()):
            if not any(book.of(run) for group in family for run in group.runs):
                continue
            blocks.append(lambda_table(family, book))
            figure = lambda_figure(model.name, family, book, f"{i}-{j}")
            if figure is not None:
                blocks.append(figure)
    if not blocks:
        blocks.append(Prose("There are no scored runs that differ only in algorithm.subgroup.lam."))
    return (*blocks, paper_tables.lambdas())


def _ablations(material: Material) -> tuple[Block, ...]:
    return (
        *_ablation(material, ModelRuns.shuffle_ablations, "Offset shuffling", "Table 3", "shuffle_offsets=true"),
        paper_tables.shuffle(),
        *_ablation(
            material,
            ModelRuns.strategy_ablations,
            "Strategy sampling",
            "Table 4",
            "strategy.* (temperature=0.7)",
        ),
        paper_tables.sampling(),
    )


def _ablation(
    material: Material, find: Callable[[ModelRuns], list[Ablation]], title: str, layout: str, setting: str
) -> list[Block]:
    blocks: list[Block] = []
    for model in material.models:
        book, found = material.book(model), find(model)
        if book is None or not found:
            continue
        anchors = [group for group in model.headline() if group.method.direction == "anchor"]
        groups = [group for a in found for group in (a.base, *(other for _, other in a.variants))]
        caption = f"{model.name}: {title.lower()}, in the layout of the paper's {layout}"
        if columns := ablation_columns(groups, book):
            blocks.append(ablation_table(caption, found, anchors, book, columns))
    return blocks or [Prose(f"{title}: no two scored runs that differ in nothing but algorithm.subgroup.{setting}.")]


def _dynamics(material: Material) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for i, model in enumerate(material.models):
        found = (figure_2(model, str(i), material.smooth), further(model, str(i)), numbers(model))
        blocks += [block for block in found if block is not None]
    if not blocks:
        blocks.append(Prose("None of the runs has logged a step."))
    for run in material.runs:
        for key, fix in _EXPECTED.items():
            if run.steps and not run.series(key) and (key == "actor/entropy" or run.method.strategy_based):
                run.lacks(f"The metric {key}.", fix)
    return (*blocks, paper_tables.dynamics())


_EXPECTED: Mapping[str, str] = {
    "actor/entropy": "algorithm.rollout_correction.bypass_mode=false: verl logs it with the old log-probs.",
    "subgroup/informative_share": "The plugin in the trainer's process, with estimator grpo_subgroup.",
    "subgroup/term_ratio": "The plugin in the trainer's process, with estimator grpo_subgroup.",
}


def _cost(material: Material) -> tuple[Block, ...]:
    yields = yield_table(material.models)
    return (cost_table(material.models), *([yields] if yields else []), paper_tables.cost())


def _subgroups(browser: dict | None, limits: BrowserLimits) -> tuple[Block, ...]:
    if browser is None:
        said = Prose("None of the runs has subgroups to show: see what was not found.")
        return (said, paper_tables.case())
    said = Prose(
        f"Of every step at most {limits.prompts} prompts, those whose subgroups' success rates span most. Texts of "
        f"rollouts are cut to {browser['characters']:,} characters; how many are left out stands in each."
    )
    return (said, Browser(), paper_tables.case())


def _not_found(runs: Sequence[Run]) -> tuple[Block, ...]:
    items: list[Missing] = [item for run in runs for item in run.missing]
    if not items:
        return (Prose("Nothing: every run has its log, its config, an evaluation and its records."),)
    rows = tuple(
        Row(cells(group.what, "all" if len(group.runs) == len(runs) > 1 else ", ".join(group.runs), group.fix))
        for group in grouped(items)
    )
    heads = (tuple(map(Head, ("What", "Runs", "What would produce it"))),)
    return (Table("What is missing, and what would produce it", heads, rows, text=True),)

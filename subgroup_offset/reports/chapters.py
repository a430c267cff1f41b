"""Put a report together: which chapters there are, and what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from subgroup_offset.reports.blocks import Block, Box, Browser, Chapter, Document, Table, table
from subgroup_offset.reports.browser import BrowserLimits, browser_data
from subgroup_offset.reports.comparisons import comparisons, pass_at_k_figure, summaries
from subgroup_offset.reports.groups import Ablation, ModelRuns, group_runs
from subgroup_offset.reports.measures import cost_table, numbers, yield_table
from subgroup_offset.reports.overview import difference_blocks, runs_overview
from subgroup_offset.reports.panels import ENTROPY, INFORMATIVE, RATIO, figure_2, further, lambda_figure
from subgroup_offset.reports.paper import paper, paper_box
from subgroup_offset.reports.runs import Run, missing_table
from subgroup_offset.reports.score_tables import ablation_table, lambda_table, main_table, runs_table
from subgroup_offset.reports.scores import Scores, evaluation_differences, evaluations, validations

_PLUGIN = "The plugin in the trainer's process, with estimator grpo_subgroup."
#: Metrics that are missed where there are steps, the latter two of runs with strategies.
_EXPECTED = {
    ENTROPY: "algorithm.rollout_correction.bypass_mode=false: verl logs it with the old log-probs.",
    INFORMATIVE: _PLUGIN,
    RATIO: _PLUGIN,
}


@dataclass
class Material:
    """What the chapters are made from."""

    models: list[ModelRuns]
    evaluations: Scores
    validations: Scores
    smooth: float

    @property
    def runs(self) -> list[Run]:
        """All runs, in the order of the report."""
        return [run for model in self.models for run in model.runs]

    def scored(self) -> Iterator[tuple[int, ModelRuns, Scores]]:
        """The models with some scores, numbered: the evaluations of their runs, else their validations."""
        for i, model in enumerate(self.models):
            for scores in (self.evaluations, self.validations):
                if not scores.of(model.runs).empty:
                    yield i, model, scores
                    break


def make_document(runs: Sequence[Run], title: str, limits: BrowserLimits, smooth: float) -> Document:
    """The whole report of some runs; notes what the runs lack on the way."""
    models = group_runs(runs)
    material = Material(models, evaluations(models), validations(models), smooth)
    browser = browser_data(material.runs, limits)
    chapters = [
        Chapter("runs", "Runs", [runs_overview(models)]),
        Chapter("main", "Main results", _main(material)),
        Chapter("lambda", "Effect of lambda", _lambda(material)),
        Chapter("ablations", "Ablations", _ablations(material)),
        Chapter("dynamics", "Training dynamics", _dynamics(material)),
        Chapter("cost", "Cost of the strategy stage", _cost(material)),
        Chapter("subgroups", "Subgroups", _subgroups(browser)),
        Chapter("differences", "Config differences", difference_blocks(material.runs)),
    ]
    chapters.append(Chapter("not-found", "Not found", [_not_found(material.runs)]))
    return Document(title, _summary(material), chapters, browser)


def _summary(material: Material) -> str:
    states = ", ".join(f"{count} {state}" for state, count in Counter(run.state for run in material.runs).items())
    groups = sum(len(model.groups) for model in material.models)
    return (
        f"{_count(len(material.runs), 'run')} ({states}) of {_count(groups, 'setting')}, seeds aside. Results are of "
        f"these runs only; what is marked as the paper's is from {paper()['source']}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _main(material: Material) -> list[Block]:
    blocks: list[Block] = []
    evaluated, validated = not material.evaluations.values.empty, not material.validations.values.empty
    if evaluated:
        _, found = evaluation_differences(material.runs)
        keys = ", ".join(difference.key for difference in found if difference.kind == "setting")
        note = [f"The evaluations differ in {keys}: see Config differences."] if keys else []
        blocks.append(main_table(material.models, material.evaluations, note))
    elif validated:
        blocks.append("None of the runs has an evaluation. In place of pass@k stand verl's own validation metrics.")
    if validated:
        blocks.append(main_table(material.models, material.validations))
    if not blocks:
        blocks.append("None of the runs has an evaluation or has logged a validation.")
    for run in material.runs:
        if len(run.steps) and run.name not in material.validations.steps:
            run.lacks("A logged validation.", "trainer.test_freq=N, trainer.val_before_train=true.")
    for i, model in enumerate(material.models):
        blocks += _main_details(material, model, str(i))
    return [*blocks, paper_box("main")]


def _main_details(material: Material, model: ModelRuns, name: str) -> Iterator[Block]:
    details: list[Table | None] = []
    if not material.evaluations.of(model.runs).empty:
        if figure := pass_at_k_figure(model, material.evaluations, name):
            yield figure
        details += [comparisons(model, material.evaluations), summaries(model, material.evaluations)]
    seeded = [group for group in model.groups if len(group.runs) > 1]
    for scores in (material.evaluations, material.validations):
        if not scores.of([run for group in seeded for run in group.runs]).empty:
            details.append(runs_table(seeded, scores))
    if folded := [found for found in details if found is not None]:
        yield Box(f"{model.name}: tests, intervals and single seeds", folded)


def _lambda(material: Material) -> list[Block]:
    blocks: list[Block] = []
    for i, model, scores in material.scored():
        for j, family in enumerate(model.families()):
            if scores.of([run for group in family for run in group.runs]).empty:
                continue
            blocks.append(lambda_table(family, scores))
            if figure := lambda_figure(model.name, family, scores, f"{i}-{j}"):
                blocks.append(figure)
    nothing: list[Block] = ["There are no scored runs that differ only in algorithm.subgroup.lam."]
    return [*(blocks or nothing), paper_box("lambda")]


def _ablations(material: Material) -> list[Block]:
    shuffle = _ablation(material, ModelRuns.shuffle_ablations, "Offset shuffling", 3, "shuffle_offsets=true")
    sampling = _ablation(material, ModelRuns.strategy_ablations, "Strategy sampling", 4, "strategy.* (temperature=0.7)")
    return [*shuffle, paper_box("shuffle"), *sampling, paper_box("sampling")]


def _ablation(
    material: Material, find: Callable[[ModelRuns], list[Ablation]], title: str, layout: int, setting: str
) -> list[Block]:
    blocks: list[Block] = []
    for _, model, scores in material.scored():
        found = find(model)
        groups = [group for ablation in found for group in (ablation.base, *(other for _, other in ablation.variants))]
        if not scores.of([run for group in groups for run in group.runs]).empty:
            anchors = [group for group in model.headline() if group.method.direction == "anchor"]
            caption = f"{model.name}: {title.lower()}, in the layout of the paper's Table {layout}"
            blocks.append(ablation_table(caption, found, anchors, scores))
    return blocks or [f"{title}: no two scored runs that differ in nothing but algorithm.subgroup.{setting}."]


def _dynamics(material: Material) -> list[Block]:
    blocks: list[Block] = []
    for i, model in enumerate(material.models):
        found = (figure_2(model, str(i), material.smooth), further(model, str(i)), numbers(model))
        blocks += [block for block in found if block is not None]
    for run in material.runs:
        for key, fix in _EXPECTED.items():
            if len(run.steps) and run.series(key).empty and (key == ENTROPY or run.method.strategy_based):
                run.lacks(f"The metric {key}.", fix)
    return [*(blocks or ["None of the runs has logged a step."]), paper_box("dynamics")]


def _cost(material: Material) -> list[Block]:
    yields = yield_table(material.models)
    return [cost_table(material.models), *([yields] if yields else []), paper_box("cost")]


def _subgroups(browser: dict | None) -> list[Block]:
    if browser is None:
        return ["None of the runs has subgroups to show: see what was not found.", paper_box("case")]
    text = (
        f"Of every step at most {browser['prompts']} prompts, those whose subgroups' success rates span most. Texts of "
        f"rollouts are cut to {browser['characters']:,} characters; how many are left out stands in each."
    )
    return [text, Browser(), paper_box("case")]


def _not_found(runs: Sequence[Run]) -> Block:
    missing = missing_table(runs)
    if missing.empty:
        return "Nothing: every run has its log, its config, an evaluation and its records."
    columns = ["What", "Runs", "What would produce it"]
    rows = [("", list(row)) for row in missing.itertuples(index=False)]
    return table("What is missing, and what would produce it", columns, rows, text=True)

"""Tables and curves of scores, dynamics and cost: values, arrows, bold, seeds, and what stands in for an evaluation."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import graded, validation, write_lines, write_run

from subgroup_offset.reports.blocks import Box, Figure, Table, ranks, score
from subgroup_offset.reports.browser import BrowserLimits
from subgroup_offset.reports.chapters import make_document
from subgroup_offset.reports.panels import smoothed
from subgroup_offset.reports.runs import load_runs, missing_table
from subgroup_offset.reports.scores import validations_of

FINITE = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
ARROWS = {"up": "↑", "down": "↓", "": ""}


class Report:
    """A report's blocks by chapter, and what is missing."""

    def __init__(self, runs, smooth):
        self.runs = runs
        chapters = make_document(runs, "t", BrowserLimits(), smooth).chapters
        self.blocks = {chapter.id: list(chapter.blocks) for chapter in chapters}
        self.missing = "\n".join(missing_table(runs)["what"])

    def all(self, chapter, kind):
        blocks = self.blocks[chapter]
        inner = [b for block in blocks if isinstance(block, Box) and not block.paper for b in block.blocks]
        return [block for block in (*blocks, *inner) if isinstance(block, kind)]

    def table(self, chapter, caption):
        return next(table for table in self.all(chapter, Table) if caption in table.caption)

    def rows(self, chapter, caption):
        """(section, name) to the row's texts, with arrows and what is small, and its cells."""
        found, section = {}, ""
        for begun, cells in self.table(chapter, caption).lines:
            section = begun or section
            found[section, cells[0].text] = cells
        return found

    def row(self, chapter, caption, name):
        return next(cells for (_, own), cells in self.rows(chapter, caption).items() if own == name)

    def texts(self, chapter, caption, name):
        return [f"{c.text}{ARROWS[c.arrow]} {c.small}".strip() for c in self.row(chapter, caption, name)]

    def panel(self, chapter, title):
        """Its lines by label."""
        panels = [panel for figure in self.all(chapter, Figure) for panel in figure.panels]
        return {line.label: line for line in next(p for p in panels if p.title.startswith(title)).series}


@pytest.fixture
def report(tmp_path):
    """Makes runs of name=arguments (None: as they are there), and their report."""

    def make(smooth=0.0, **runs):
        for name, arguments in runs.items():
            if arguments is not None:
                write_run(tmp_path / name, **{"records": False, "dumps": False, **arguments})
        return Report(load_runs([tmp_path / name for name in runs]), smooth)

    return make


def marks(cells):
    return {cell.mark for cell in cells[1:]}


def test_the_main_table_and_the_evaluations_in_detail(report):
    made = report(
        plain={"lam": None, "pass_rate": 0.6},
        zero={"pass_rate": 0.5},
        up={"lam": 0.3, "pass_rate": 0.5},
        contrast={"lam": -0.3, "pass_rate": 0.7},
    )
    main = made.table("main", "Main results")
    assert main.heads[0] == [("", 1), ("aime24", 2), ("hmmt25", 2), ("mean over benchmarks", 2)]
    assert main.columns[:3] == [("", "Method"), ("aime24", "pass@1"), ("aime24", "pass@4")]
    assert next(main.lines)[0] == "Tiny-1B"
    # Right: the first 14 of 20 samples, 3 whole problems of 5 and half a problem.
    assert made.texts("main", "Main results", "contrast (lam=-0.3)")[1:] == ["70.0↑", "80.0↑"] * 3
    assert made.texts("main", "Main results", "alignment (lam=+0.3)")[1:] == ["50.0", "60.0"] * 3  # equal: no arrow
    assert made.texts("main", "Main results", "grpo")[1:] == ["60.0", "60.0"] * 3
    names = {"contrast (lam=-0.3)": "best", "strategy_grpo": "second", "grpo": "aside"}  # though grpo is better
    assert {name: marks(made.row("main", "Main results", name)) for name in names} == {n: {m} for n, m in names.items()}
    assert "Arrows: change from strategy_grpo." in main.notes
    compared = made.rows("main", "differences from the anchor")
    texts = [c.text for c in compared["contrast (lam=-0.3) (contrast) beside strategy_grpo (zero)", "aime24, pass@1"]]
    # Problem 2 gains half, problem 3 as much: two of five problems ahead; two of the ten in both benchmarks, twice.
    assert texts[1:5] == ["+20.0", "+0.0 to +50.0", "+20.0 to +20.0", "2 : 0"]
    overall = compared["contrast (lam=-0.3) (contrast) beside strategy_grpo (zero)", "mean over benchmarks, pass@1"]
    assert [c.text for c in overall[4:]] == ["4 : 0", "0.125", "0.125"]
    full = made.rows("main", "evaluations in full")["zero", "aime24, pass@1"]
    assert [c.text for c in full[1:2] + full[4:]] == ["50.0", "5", "10", "40", "0", "0", "–"]
    curves = made.panel("main", "pass@k")
    assert list(curves) == ["grpo", "strategy_grpo", "alignment (lam=+0.3)", "contrast (lam=-0.3)"]
    assert list(curves["strategy_grpo"].y.index) == [1, 2, 4, 8]


def test_seeds_are_pooled_and_listed_in_the_details(report):
    made = report(
        zero={"pass_rate": 0.5},
        a={"lam": -0.3, "pass_rate": 0.4},
        b={"lam": -0.3, "seed": 2, "pass_rate": 0.6},
        c={"lam": -0.3, "seed": 3},
    )
    # Standard error of 0.4 and 0.6: 0.1414 / sqrt(2).
    pooled = made.texts("main", "Main results", "contrast (lam=-0.3)")
    assert pooled[:2] == ["contrast (lam=-0.3) 3 seeds", "50.0 ±10.0 (2 of 3 seeds)"]
    each = "Each seed on its own: pass@k"
    assert [made.texts("main", each, name)[1] for name in "abc"] == ["40.0", "60.0", "–"]
    assert "An evaluation (evaluation/graded.jsonl)." in made.missing
    made = report(zero=None, d={"lam": 0.3}, e={"lam": 0.3, "seed": 2})  # two seeds, and neither is evaluated
    assert made.texts("main", "Main results", "alignment (lam=+0.3)")[1:3] == ["–", "–"]


def test_evaluations_that_differ_in_their_settings_or_problems(report, tmp_path):
    for name, lam, step in (("zero", 0.0, 6), ("a", 0.3, 5)):
        directory = write_run(tmp_path / name, lam=lam, pass_rate=0.5)
        settings = {"checkpoint": str(directory / "checkpoints" / "x"), "step": step, "sampling": {"top_p": 1.0}}
        settings["files"] = {"model.safetensors": [9, step]}  # two checkpoints are two, that is no difference in how
        write_lines(directory / "evaluation" / "evaluation.json", [{"settings": settings, "starts": []}])
    made = report(zero=None, a=None)
    assert "The evaluations differ in step: see Config differences." in made.table("main", "Main results").notes
    differing = made.rows("differences", "Settings of the evaluations that differ")
    assert [[cell.text for cell in cells] for cells in differing.values()] == [["step", "6", "5"]]
    write_lines(tmp_path / "a" / "evaluation" / "graded.jsonl", graded(0.5, problems=4))
    assert "A comparison with zero" in report(zero=None, a=None).missing


def test_a_missing_benchmark_takes_the_mean_away(report, tmp_path):
    half = [sample for sample in graded(0.5) if sample["benchmark"] == "aime24"]
    write_run(tmp_path / "a", lam=-0.3)
    write_lines(tmp_path / "a" / "evaluation" / "graded.jsonl", half)
    made = report(zero={"pass_rate": 0.5}, a=None)
    assert made.texts("main", "Main results", "contrast (lam=-0.3)")[1:] == ["50.0", "60.0", "–", "–", "–", "–"]
    assert "Benchmarks hmmt25" in made.missing
    assert list(made.panel("main", "pass@k")) == ["strategy_grpo"]
    of_runs = [run for run, name in made.rows("main", "evaluations in full") if name == "mean over benchmarks, pass@1"]
    assert of_runs == ["zero"]
    write_lines(tmp_path / "zero" / "evaluation" / "graded.jsonl", half)
    compared = report(zero=None, a=None).rows("main", "differences from the anchor")
    assert [name for _, name in compared] == ["aime24, pass@1", "aime24, pass@4"]  # one benchmark, compared once


def test_without_an_evaluation_the_validation_stands_in(report):
    made = report(zero={"accuracy": 0.5}, contrast={"lam": -0.3, "accuracy": 0.55}, late={"lam": 0.3, "accuracy": None})
    assert "None of the runs has an evaluation" in made.blocks["main"][0]
    caption = "verl's own validation, last logged (no pass@k)"
    found = made.table("main", caption)
    assert [name for _, name in found.columns] == ["Method", "step", "acc mean@8", "acc best@8"]
    assert made.texts("main", caption, "contrast (lam=-0.3)")[1:] == ["6", "55.0↑", "75.0↑"]
    assert set(made.texts("main", caption, "alignment (lam=+0.3)")[1:]) == {"–"}
    assert any("bootstrap" in note and "not pass@N" in note for note in found.notes)
    assert "validation (no pass@k)" in made.table("lambda", "Effect of lam").caption
    assert "A logged validation." in made.missing
    line = made.panel("dynamics", "verl's validation: math_dapo, acc mean@8")["strategy_grpo"]
    assert dict(line.y) == pytest.approx({0: 30.0, 6: 50.0})


def test_validations_of_different_steps_are_not_compared(report):
    made = report(zero={"accuracy": 0.5}, contrast={"lam": -0.3, "accuracy": 0.55, "steps": 3})
    assert made.texts("main", "verl's own validation", "contrast (lam=-0.3)")[1:3] == ["3", "55.0"]
    assert {mark for cells in made.rows("main", "verl's own validation").values() for mark in marks(cells)} == {""}


def test_validations_of_several_sources_and_of_rewards(tmp_path):
    write_run(tmp_path / "run", accuracy=None)
    data = {"val-core/a/b/reward/mean@4": -0.25, "val-core/x/acc/maj@4/std": 1, "val-aux/q": 1, **validation(0.5)}
    write_lines(tmp_path / "run" / "metrics.jsonl", [{"step": 1, "data": data}])
    (run,) = load_runs([tmp_path / "run"])
    assert validations_of(run).loc[1].to_dict() == pytest.approx({
        ("a/b", "reward mean@4"): -0.25, ("math_dapo", "acc mean@8"): 50.0, ("math_dapo", "acc best@8"): 70.0,
    })  # fmt: skip
    made = Report([run], 0.0)
    assert made.texts("main", "verl's own validation", "strategy_grpo")[2] == "-0.250"


def test_the_lambda_table_is_table_2s(report):
    rates = {0.0: 0.5, 0.3: 0.55, 0.5: 0.45, -0.3: 0.7, -0.7: 0.4}
    made = report(**{f"r{i}": {"lam": lam, "pass_rate": rate} for i, (lam, rate) in enumerate(rates.items())})
    up, down = "Alignment (lam > 0)", "Contrast (lam < 0)"
    assert list(made.rows("lambda", "Effect of lam")) == [
        ("", "0 (strategy_grpo)"), (up, "+0.3"), (up, "+0.5"), (down, "-0.3"), (down, "-0.7"),
    ]  # fmt: skip
    found = [made.texts("lambda", "Effect of lam", name)[1] for name in ("+0.3", "+0.5", "-0.7")]
    assert found == ["55.0↑", "45.0↓", "40.0↓"]
    ranked = [made.row("lambda", "Effect of lam", name)[1].mark for name in ("+0.3", "+0.5", "-0.3", "-0.7")]
    assert ranked == ["best", "second"] * 2
    curves = made.panel("lambda", "pass@1")
    assert list(curves) == ["mean over benchmarks", "aime24", "hmmt25"]
    assert dict(curves["mean over benchmarks"].y) == pytest.approx({-0.7: 40, -0.3: 70, 0.0: 50, 0.3: 55, 0.5: 45})


def test_the_ablations_are_tables_3_and_4(report):
    made = report(
        zero={"pass_rate": 0.5},
        base={"lam": -0.3, "pass_rate": 0.8},
        shuffled={"lam": -0.3, "pass_rate": 0.4, "changes": {"algorithm__subgroup__shuffle_offsets": True}},
        cool={"lam": -0.3, "pass_rate": 1.0, "changes": {"algorithm__subgroup__strategy__temperature": 0.7}},
    )
    assert [head for head, _ in made.table("ablations", "offset shuffling").heads[1]] == ["Method", *["pass@4"] * 3]
    found = {key: cells[1] for key, cells in made.rows("ablations", "offset shuffling").items()}
    assert {key: cell.text + ARROWS[cell.arrow] for key, cell in found.items()} == {
        ("", "strategy_grpo"): "60.0",
        ("contrast (lam=-0.3)", "as it is"): "80.0",
        ("contrast (lam=-0.3)", "+ shuffle"): "40.0↓",
    }
    assert made.texts("ablations", "strategy sampling", "+ T=0.7")[1] == "100.0↑"
    assert not [name for _, name in made.rows("main", "Main results") if "shuffle" in name]


def test_runs_without_scores_make_no_tables_of_lam_and_ablations(report):
    shuffled = {"lam": 0.3, "accuracy": None, "changes": {"algorithm__subgroup__shuffle_offsets": True}}
    bare = {f"r{i}": {"lam": lam, "accuracy": None} for i, lam in enumerate((0.0, 0.3))}
    made = report(plain={"lam": None, "pass_rate": 0.5}, shuffled=shuffled, **bare)
    assert not made.all("lambda", Table) and not made.all("ablations", Table)


def test_evaluations_in_progress_and_broken_ones_are_noted(report, tmp_path):
    path = write_run(tmp_path / "a", pass_rate=0.5) / "evaluation" / "graded.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]) + '{"benchmark": "hm')
    write_run(tmp_path / "b", seed=2)
    write_lines(tmp_path / "b" / "evaluation" / "aime24.jsonl", graded(0.5)[:40])
    write_lines(tmp_path / "b" / "evaluation" / "generations.jsonl", [{"output": "text"}])
    missing = report(a=None, b=None).missing
    assert "1 replicas of the evaluation" in missing
    assert "generations.jsonl" in missing and "no 'benchmark'" in missing


def test_arrows_and_ranks():
    found = [score(value, 1, reference=reference) for value, reference in ((1, 2), (2, 1), (1, 1), (1, float("nan")))]
    assert [cell.arrow for cell in found] == ["down", "up", "", ""] and score(float("nan"), 1, reference=1) is None
    frame = pd.DataFrame({"a": [1.0, 3.0, None, 3.0, 2.0], "one": [1.0, *[None] * 4], "equal": [1.0, 1.0, *[None] * 3]})
    assert ranks(frame).to_dict("list") == {
        "a": ["", "best", "", "best", "second"], "one": [""] * 5, "equal": [""] * 5,
    }  # fmt: skip


@given(FINITE, st.floats(0, 0.999))
def test_smoothing_stays_within_what_was_seen(values, factor):
    result = smoothed(pd.DataFrame({"a": values}), factor)["a"].tolist()
    assert len(result) == len(values) and result[0] == values[0]
    slack = 1e-6 * (1 + max(map(abs, values)))
    assert all(min(values[: i + 1]) - slack <= v <= max(values[: i + 1]) + slack for i, v in enumerate(result))
    assert smoothed(pd.DataFrame({"a": values}), 0.0)["a"].tolist() == values


def test_smoothing_by_hand():
    # (0.5 * 1 + 4) / 1.5, (0.25 * 1 + 0.5 * 4 + 1) / 1.75
    assert smoothed(pd.DataFrame([1.0, 4.0, 1.0]), 0.5)[0].tolist() == pytest.approx([1.0, 3.0, 3.25 / 1.75])


def test_dynamics_cost_and_yield(report):
    made = report(0.5, plain={"lam": None}, zero={}, contrast={"lam": -0.3})
    entropy = made.panel("dynamics", "policy entropy (EMA 0.5)")["grpo"]
    assert dict(entropy.faint) == pytest.approx({1: 0.47, 2: 0.44, 3: 0.41, 4: 0.38, 5: 0.35, 6: 0.32})
    assert entropy.y.tolist()[:2] == pytest.approx([0.47, 0.45])
    assert set(made.panel("dynamics", "informative prompts")) == {"strategy_grpo", "contrast (lam=-0.3)"}
    assert set(made.panel("dynamics", "subgroup term")) == {"contrast (lam=-0.3)"}  # identically 0 at lam = 0
    numbers = made.texts("dynamics", "in numbers", "contrast (lam=-0.3) (contrast)")
    # Steps 2 to 6: mean of 0.44 ... 0.32, of 0.76 ... 0.68. Only the last step's longest is as long as it may be.
    assert numbers[1:4] == ["6", "0.470 → 0.380", "0.780 → 0.720"] and numbers[-2] == "0.000 → 0.020"
    # Tokens a prompt: 0.25 / 0.75 x 18.5 x 16; lengths 16 to 21. Hours: (36 + 5 x 18) s.
    cost = made.texts("cost", "Cost", "contrast (lam=-0.3) (contrast)")[1:]
    assert cost == ["6", "25.0%", "99", "1.50", "8.5", "6.0", "18.0", "0.04", "19.0"]
    plain = made.texts("cost", "Cost", "grpo (plain)")[1:]
    assert plain == ["6", "–", "–", "–", "–", "6.0", "18.0", "0.04", "19.0"]
    # Failed requests and lost prompts: one at each of 6 steps; restarts are counted from the start of the run.
    made_of = made.texts("cost", "Yield", "contrast (lam=-0.3) (contrast)")[1:]
    assert made_of == ["97.0%", "1.0%", "0.850", "2.0", "1.0", "6", "0", "0", "6", "3"]
    assert "grpo (plain)" not in {name for _, name in made.rows("cost", "Yield")}


@pytest.mark.parametrize(("gap", "warned"), [(0.001, False), (0.05, True)])
def test_a_sampler_and_a_trainer_that_differ_are_pointed_out(report, tmp_path, gap, warned):
    write_run(tmp_path / "a")
    steps = [{"step": i, "data": {"actor/entropy": 1.0, "training/rollout_probs_diff_mean": gap}} for i in (1, 2, 3)]
    write_lines(tmp_path / "a" / "metrics.jsonl", steps)
    made = report(a=None)
    (numbers,) = (b for b in made.blocks["dynamics"] if "in numbers" in getattr(b, "caption", ""))
    assert numbers.frame.iloc[0, -1] == f"{gap:.3f} → {gap:.3f}"
    assert any("more than 0.01 apart" in note for note in numbers.notes) == warned


def test_seeds_are_a_mean_and_a_band(report, tmp_path):
    made = report(a={"lam": 0.3, "bias": 0.0}, b={"lam": 0.3, "seed": 2, "bias": 0.1})
    line = made.panel("dynamics", "informative")["alignment (lam=+0.3), 2 seeds"]
    assert (line.low[1], line.y[1], line.high[1]) == pytest.approx((0.78, 0.83, 0.88))
    write_lines(tmp_path / "b" / "metrics.jsonl", [{"step": 2, "data": {"actor/entropy": 1.0}}])
    line = report(a=None, b=None).panel("dynamics", "policy entropy")
    assert {label: list(line.y.index) for label, line in line.items()} == {
        "alignment (lam=+0.3), 2 seeds, to step 2 of 6": [2],
    }
    write_lines(tmp_path / "b" / "metrics.jsonl", [{"step": 9, "data": {"actor/entropy": 1.0}}])
    apart = report(a=None, b=None).panel("dynamics", "policy entropy")
    assert {label: line.y.index[-1] for label, line in apart.items()} == {
        "alignment (lam=+0.3) (a)": 6, "alignment (lam=+0.3) (b)": 9,
    }  # fmt: skip


def test_nothing_logged_is_no_figure(report, tmp_path):
    (write_run(tmp_path / "a", pass_rate=0.5) / "metrics.jsonl").unlink()
    made = report(a=None)
    assert made.blocks["dynamics"][0] == "None of the runs has logged a step." and "Logged steps." in made.missing

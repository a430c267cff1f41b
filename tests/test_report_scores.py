"""Tables of scores: values, arrows, bold, seeds, and verl's validation where there is no evaluation."""

import pytest
from report_runs import graded, validation, write_lines, write_run

from subgroup_offset.reports.browser import BrowserLimits
from subgroup_offset.reports.chapters import make_document
from subgroup_offset.reports.grid import Figure, Folded, Prose, Table, arrow, ranks
from subgroup_offset.reports.missing import grouped
from subgroup_offset.reports.runs import load_runs
from subgroup_offset.reports.scores import Column, validation_history

LIMITS = BrowserLimits()


@pytest.fixture
def chapters(tmp_path):
    """Makes runs of name=arguments, and the chapters of their report by id."""

    def make(**runs):
        for name, arguments in runs.items():
            write_run(tmp_path / name, **{"records": False, "dumps": False, **arguments})
        loaded = load_runs([tmp_path / name for name in runs])
        document = make_document(loaded, "t", LIMITS, 0.0)
        made = {chapter.id: chapter for chapter in document.chapters}
        made["missing"] = [item.what for item in grouped(m for run in loaded for m in run.missing)]
        return made

    return make


def table(chapter, start):
    blocks = [inner for block in chapter.blocks for inner in (block.blocks if isinstance(block, Folded) else (block,))]
    return next(block for block in blocks if isinstance(block, Table) and start in block.caption)


def row(found, name):
    return next(row.cells for row in found.rows if row.cells[0].text == name)


def texts(cells):
    return [f"{c.text}{c.arrow and ('↑' if c.arrow == 'up' else '↓')}{' ' if c.small else ''}{c.small}" for c in cells]


def headings(found):
    return [head.text for head in found.heads[-1]]


def test_the_main_table(chapters):
    made = chapters(
        plain={"lam": None, "pass_rate": 0.6},
        zero={"pass_rate": 0.5},
        up={"lam": 0.3, "pass_rate": 0.5},
        contrast={"lam": -0.3, "pass_rate": 0.7},
    )
    main = table(made["main"], "Main results")
    assert [(h.text, h.span) for h in main.heads[0]] == [
        ("", 1), ("aime24", 2), ("hmmt25", 2), ("mean over benchmarks", 2),
    ]  # fmt: skip
    assert headings(main) == ["Method", *["pass@1", "pass@4"] * 3]
    assert main.rows[0].cells[0].text == "Tiny-1B"
    # Right: the first 14 of 20 samples, 3 whole problems of 5 and half a problem.
    assert texts(row(main, "contrast (lam=-0.3)")) == ["contrast (lam=-0.3)", *["70.0↑", "80.0↑"] * 3]
    assert texts(row(main, "alignment (lam=+0.3)"))[1:] == ["50.0", "60.0"] * 3  # equal to the anchor: no arrow
    assert texts(row(main, "grpo"))[1:] == ["60.0", "60.0"] * 3
    assert {c.emphasis for c in row(main, "contrast (lam=-0.3)")[1:]} == {"best"}
    assert {c.emphasis for c in row(main, "strategy_grpo")[1:]} == {"second"}
    assert {c.emphasis for c in row(main, "grpo")[1:]} == {""}  # outside of the comparison, though better
    assert next(r.kind for r in main.rows if r.cells[0].text == "grpo") == "reference"
    assert "Arrows: change from strategy_grpo." in main.notes


def test_seeds_are_pooled_and_listed_in_the_details(chapters):
    made = chapters(
        zero={"pass_rate": 0.5},
        a={"lam": -0.3, "pass_rate": 0.4},
        b={"lam": -0.3, "seed": 2, "pass_rate": 0.6},
        c={"lam": -0.3, "seed": 3},
    )
    main = table(made["main"], "Main results")
    # Standard error of 0.4 and 0.6: 0.1414 / sqrt(2).
    assert texts(row(main, "contrast (lam=-0.3)"))[:2] == ["contrast (lam=-0.3) 3 seeds", "50.0 ±10.0 (2 of 3 seeds)"]
    each = table(made["main"], "Each seed on its own: pass@k")
    assert [texts(row(each, name))[1] for name in "abc"] == ["40.0", "60.0", "–"]
    assert "An evaluation (evaluation/graded.jsonl)." in made["missing"]


def test_differences_from_the_anchor_run_by_run(chapters):
    made = chapters(zero={"pass_rate": 0.5}, a={"lam": -0.3, "pass_rate": 0.7})
    found = table(made["main"], "differences from the anchor")
    assert found.rows[0].cells[0].text == "contrast (lam=-0.3) (a) beside strategy_grpo (zero)"
    # Problem 2 gains half, problem 3 as much: two of five problems ahead; two of the ten in both benchmarks, twice.
    assert texts(row(found, "aime24, pass@1"))[1:5] == ["+20.0", "+0.0 to +50.0", "+20.0 to +20.0", "2 : 0"]
    assert texts(row(found, "mean over benchmarks, pass@1"))[4:] == ["4 : 0", "0.125", "0.125"]


def test_one_benchmark_is_not_compared_twice(tmp_path):
    for name, lam, rate in (("zero", 0.0, 0.5), ("a", -0.3, 0.7)):
        write_run(tmp_path / name, lam=lam)
        half = [sample for sample in graded(rate) if sample["benchmark"] == "aime24"]
        write_lines(tmp_path / name / "evaluation" / "graded.jsonl", half)
    document = make_document(load_runs([tmp_path]), "t", LIMITS, 0.0)
    main = next(chapter for chapter in document.chapters if chapter.id == "main")
    names = [row.cells[0].text for row in table(main, "differences from the anchor").rows[1:]]
    assert names == ["aime24, pass@1", "aime24, pass@4"]


def test_evaluations_with_other_settings_are_said_to_be_so(tmp_path):
    for lam, step in ((0.0, 6), (0.3, 5)):
        directory = write_run(tmp_path / f"{lam}", lam=lam, pass_rate=0.5)
        settings = {"checkpoint": str(directory / "checkpoints" / "x"), "step": step, "sampling": {"top_p": 1.0}}
        settings["files"] = {"model.safetensors": [9, step]}  # two checkpoints are two, that is no difference in how
        write_lines(directory / "evaluation" / "evaluation.json", [{"settings": settings, "starts": []}])
    document = make_document(load_runs([tmp_path]), "t", LIMITS, 0.0)
    made = {chapter.id: chapter for chapter in document.chapters}
    assert "The evaluations differ in step: see Config differences." in table(made["main"], "Main results").notes
    found = table(made["differences"], "Settings of the evaluations that differ")
    assert [texts(r.cells) for r in found.rows] == [["step", "6", "5"]]


def test_runs_that_cannot_be_paired_are_said(tmp_path):
    write_run(tmp_path / "zero", pass_rate=0.5)
    write_run(tmp_path / "a", lam=-0.3)
    write_lines(tmp_path / "a" / "evaluation" / "graded.jsonl", graded(0.5, problems=4))
    runs = load_runs([tmp_path / "zero", tmp_path / "a"])
    make_document(runs, "t", LIMITS, 0.0)
    assert any("A comparison with zero" in item.what for item in runs[1].missing)


def test_without_an_evaluation_verls_validation_stands_in_and_says_so(chapters):
    made = chapters(zero={"accuracy": 0.5}, contrast={"lam": -0.3, "accuracy": 0.55})
    blocks = made["main"].blocks
    assert isinstance(blocks[0], Prose) and "None of the runs has an evaluation" in blocks[0].text
    found = table(made["main"], "verl's own validation, last logged (no pass@k)")
    assert headings(found) == ["Method", "step", "acc mean@8", "acc best@8"]
    assert texts(row(found, "contrast (lam=-0.3)"))[1:] == ["6", "55.0↑", "75.0↑"]
    assert any("bootstrap" in note and "not pass@N" in note for note in found.notes)
    assert "validation (no pass@k)" in table(made["lambda"], "Effect of lam").caption


def test_validations_of_different_steps_are_not_compared(chapters):
    made = chapters(zero={"accuracy": 0.5}, contrast={"lam": -0.3, "accuracy": 0.55, "steps": 3})
    found = table(made["main"], "verl's own validation")
    assert texts(row(found, "contrast (lam=-0.3)"))[1:3] == ["3", "55.0"]
    assert {c.emphasis for r in found.rows for c in r.cells} == {""}


def test_rewards_are_no_percentages(tmp_path):
    write_run(tmp_path / "run", accuracy=None)
    lines = [{"step": 1, "data": {"val-core/a/b/reward/mean@4": -0.25, "val-core/x/acc/maj@4/std": 1, "val-aux/q": 1}}]
    write_lines(tmp_path / "run" / "metrics.jsonl", lines)
    (run,) = load_runs([tmp_path / "run"])
    assert validation_history(run) == [(1, {Column("a/b", "reward mean@4", percent=False): -0.25})]
    assert Column("a/b", "reward mean@4", percent=False).text(-0.25) == "-0.250"


def test_the_lambda_table_is_table_2s(chapters):
    rates = {0.0: 0.5, 0.3: 0.55, 0.5: 0.45, -0.3: 0.7, -0.7: 0.4}
    made = chapters(**{f"r{i}": {"lam": lam, "pass_rate": rate} for i, (lam, rate) in enumerate(rates.items())})
    found = table(made["lambda"], "Effect of lam")
    assert [r.cells[0].text for r in found.rows] == [
        "0 (strategy_grpo)", "Alignment (lam > 0)", "+0.3", "+0.5", "Contrast (lam < 0)", "-0.3", "-0.7",
    ]  # fmt: skip
    assert [texts(row(found, name))[1] for name in ("+0.3", "+0.5", "-0.7")] == ["55.0↑", "45.0↓", "40.0↓"]
    assert [row(found, name)[1].emphasis for name in ("+0.3", "+0.5", "-0.3", "-0.7")] == ["best", "second"] * 2
    figure = next(block for block in made["lambda"].blocks if hasattr(block, "panels"))
    mean = figure.panels[0].series[0]
    assert (mean.label, list(mean.x)) == ("mean over benchmarks", [-0.7, -0.3, 0.0, 0.3, 0.5])
    assert mean.y == pytest.approx([40, 70, 50, 55, 45])


def test_the_ablations_are_tables_3_and_4(chapters):
    made = chapters(
        zero={"pass_rate": 0.5},
        base={"lam": -0.3, "pass_rate": 0.8},
        shuffled={"lam": -0.3, "pass_rate": 0.4, "changes": {"algorithm__subgroup__shuffle_offsets": True}},
        cool={"lam": -0.3, "pass_rate": 1.0, "changes": {"algorithm__subgroup__strategy__temperature": 0.7}},
    )
    shuffle = table(made["ablations"], "offset shuffling")
    assert headings(shuffle) == ["Method", "pass@4", "pass@4", "pass@4"]
    assert [texts(r.cells)[:2] for r in shuffle.rows] == [
        ["strategy_grpo", "60.0"], ["contrast (lam=-0.3)"], ["as it is", "80.0"], ["+ shuffle", "40.0↓"],
    ]  # fmt: skip
    sampling = table(made["ablations"], "strategy sampling")
    assert texts(row(sampling, "+ T=0.7"))[1] == "100.0↑"
    assert not [r for r in table(made["main"], "Main results").rows if "shuffle" in r.cells[0].text]


def test_a_missing_benchmark_takes_the_mean_away(tmp_path):
    write_run(tmp_path / "zero", pass_rate=0.5)
    write_run(tmp_path / "a", lam=-0.3)
    half = [sample for sample in graded(0.5) if sample["benchmark"] == "aime24"]
    write_lines(tmp_path / "a" / "evaluation" / "graded.jsonl", half)
    runs = load_runs([tmp_path / "zero", tmp_path / "a"])
    document = make_document(runs, "t", LIMITS, 0.0)
    main = next(c for c in document.chapters if c.id == "main")
    found = table(main, "Main results")
    assert texts(row(found, "contrast (lam=-0.3)"))[1:] == ["50.0", "60.0", "–", "–", "–", "–"]
    assert any("Benchmarks hmmt25" in item.what for item in runs[1].missing)
    (figure,) = [block for block in main.blocks if isinstance(block, Figure)]
    assert [line.label for line in figure.panels[0].series] == ["strategy_grpo"]
    names = [r.cells[0].text for r in table(main, "evaluations in full").rows]
    assert names.count("mean over benchmarks, pass@1") == 1  # of the run that has both


def test_runs_without_scores_make_no_tables_of_lam_and_ablations(chapters):
    shuffled = {"lam": 0.3, "accuracy": None, "changes": {"algorithm__subgroup__shuffle_offsets": True}}
    bare = {f"r{i}": {"lam": lam, "accuracy": None} for i, lam in enumerate((0.0, 0.3))}
    made = chapters(plain={"lam": None, "pass_rate": 0.5}, shuffled=shuffled, **bare)
    assert not [block for name in ("lambda", "ablations") for block in made[name].blocks if isinstance(block, Table)]


def test_evaluations_in_progress_and_broken_ones_are_said(tmp_path):
    write_run(tmp_path / "a", pass_rate=0.5)
    path = tmp_path / "a" / "evaluation" / "graded.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]) + '{"benchmark": "hm')
    write_run(tmp_path / "b", seed=2)
    write_lines(tmp_path / "b" / "evaluation" / "aime24.jsonl", graded(0.5)[:40])
    write_lines(tmp_path / "b" / "evaluation" / "generations.jsonl", [{"output": "text"}])
    runs = load_runs([tmp_path / "a", tmp_path / "b"])
    make_document(runs, "t", LIMITS, 0.0)
    a, b = (" ".join(item.what for item in run.missing) for run in runs)
    assert "1 replicas of the evaluation" in a
    assert "generations.jsonl" in b and "no 'benchmark'" in b


def test_a_run_is_listed_without_scores(chapters):
    made = chapters(zero={"pass_rate": 0.5}, late={"lam": 0.3, "accuracy": None})
    assert set(texts(row(table(made["main"], "Main results"), "alignment (lam=+0.3)"))[1:]) == {"–"}
    assert "A logged validation." in made["missing"]


def test_validation_data_of_several_sources_keeps_their_names(tmp_path):
    directory = write_run(tmp_path / "run", steps=1, accuracy=None)
    data = {**validation(0.5), "val-core/hub/aime24/acc/mean@32": 0.25}
    write_lines(directory / "metrics.jsonl", [{"step": 1, "data": data}])
    (run,) = load_runs([directory])
    benchmarks = {column.benchmark for column in validation_history(run)[0][1]}
    assert benchmarks == {"math_dapo", "hub/aime24"}


def test_arrows_and_ranks():
    assert [arrow(1.0, 2.0), arrow(2.0, 1.0), arrow(1.0, 1.0), arrow(None, 1.0)] == ["down", "up", "", ""]
    assert ranks([1.0, 3.0, None, 3.0, 2.0]) == ["", "best", "", "best", "second"]
    assert ranks([1.0, None]) == ["", ""] == ranks([1.0, 1.0])

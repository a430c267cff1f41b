"""Training dynamics and cost: which lines there are, over which steps, and the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import write_lines, write_run

from subgroup_offset.reports.cost_tables import cost_table, yield_table
from subgroup_offset.reports.dynamics_panels import figure_2, further, numbers, smoothed
from subgroup_offset.reports.groups import group_runs
from subgroup_offset.reports.runs import load_runs

FINITE = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@pytest.fixture
def model(tmp_path):
    """Makes runs of name=arguments, all of one model."""

    def make(**runs):
        for name, arguments in runs.items():
            write_run(tmp_path / name, **{"records": False, "dumps": False, **arguments})
        (section,) = group_runs(load_runs([tmp_path / name for name in runs]))
        return section

    return make


def panel(figure, title):
    return next(panel for panel in figure.panels if panel.title.startswith(title))


def lines(found):
    return {series.label: series for series in found.series}


@given(FINITE, st.floats(0, 0.999))
def test_smoothing_stays_within_what_was_seen(values, factor):
    result = smoothed(values, factor)
    assert len(result) == len(values) and result[0] == values[0]
    for i, value in enumerate(result):
        slack = 1e-6 * (1 + max(map(abs, values)))
        assert min(values[: i + 1]) - slack <= value <= max(values[: i + 1]) + slack


@given(FINITE)
def test_no_smoothing_changes_nothing(values):
    assert smoothed(values, 0.0) == values


def test_smoothing_by_hand():
    # (0.5 * 1 + 4) / 1.5, (0.25 * 1 + 0.5 * 4 + 1) / 1.75
    assert smoothed([1.0, 4.0, 1.0], 0.5) == pytest.approx([1.0, 3.0, 3.25 / 1.75])


def test_figure_2(model):
    section = model(plain={"lam": None}, zero={}, contrast={"lam": -0.3})
    figure = figure_2(section, "0", 0.5)
    assert [p.title for p in figure.panels] == [
        "policy entropy (EMA 0.5)", "informative prompts (share)", "subgroup term / standard term",
    ]  # fmt: skip
    entropy = lines(panel(figure, "policy entropy"))["grpo"]
    assert entropy.x == [1, 2, 3, 4, 5, 6]
    assert entropy.faint[1] == pytest.approx([0.47, 0.44, 0.41, 0.38, 0.35, 0.32])
    assert entropy.y[:2] == pytest.approx([0.47, 0.45])
    assert set(lines(panel(figure, "informative"))) == {"strategy_grpo", "contrast (lam=-0.3)"}
    assert set(lines(panel(figure, "subgroup term"))) == {"contrast (lam=-0.3)"}  # identically 0 at lam = 0


def test_seeds_are_a_mean_and_a_band(model):
    section = model(a={"lam": 0.3, "bias": 0.0}, b={"lam": 0.3, "seed": 2, "bias": 0.1})
    (line,) = panel(figure_2(section, "0", 0.0), "informative").series
    assert line.label == "alignment (lam=+0.3), 2 seeds"
    assert (line.low[0], line.y[0], line.high[0]) == pytest.approx((0.78, 0.83, 0.88))


def test_a_seed_that_is_behind_shortens_the_mean_and_the_label_says_so(model):
    section = model(a={"lam": 0.3}, b={"lam": 0.3, "seed": 2, "steps": 2})
    (line,) = panel(figure_2(section, "0", 0.0), "informative").series
    assert (list(line.x), line.label) == ([1, 2], "alignment (lam=+0.3), 2 seeds, to step 2 of 6")


def test_seeds_without_a_common_step_have_lines_of_their_own(model, tmp_path):
    model(a={"lam": 0.3}, b={"lam": 0.3, "seed": 2})
    write_lines(tmp_path / "b" / "metrics.jsonl", [{"step": 9, "data": {"actor/entropy": 1.0}}])
    (section,) = group_runs(load_runs([tmp_path / "a", tmp_path / "b"]))
    found = lines(panel(figure_2(section, "0", 0.0), "policy entropy"))
    assert {label: list(line.x)[-1] for label, line in found.items()} == {
        "alignment (lam=+0.3) (a)": 6, "alignment (lam=+0.3) (b)": 9,
    }  # fmt: skip


def test_validation_is_drawn_from_step_0(model):
    section = model(zero={"accuracy": 0.5})
    (line,) = panel(further(section, "0"), "verl's validation: math_dapo, acc mean@8").series
    assert (list(line.x), list(line.y)) == ([0, 6], pytest.approx([30.0, 50.0]))


def test_nothing_logged_is_no_figure(model):
    section = model(zero={})
    section.groups[0].runs[0].steps = ()
    assert figure_2(section, "0", 0.5) is None
    assert further(section, "0") is None
    assert numbers(section) is None


def test_numbers_are_first_and_mean_of_the_last(model):
    section = model(contrast={"lam": -0.3})
    (row,) = numbers(section).rows
    texts = [cell.text for cell in row.cells]
    # Steps 2 to 6: mean of 0.44 ... 0.32, of 0.76 ... 0.68.
    assert texts[:4] == ["contrast (lam=-0.3) (contrast)", "6", "0.470 → 0.380", "0.780 → 0.720"]
    # Only the last step's longest response is as long as it may be.
    assert texts[-1] == "0.000 → 0.020"


def test_cost(model):
    section = model(plain={"lam": None}, contrast={"lam": -0.3})
    found = cost_table([section])
    texts = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in found.rows[1:]}
    # Tokens a prompt: 0.25 / 0.75 x 18.5 x 16; lengths 16 to 21. Hours: (36 + 5 x 18) s.
    assert texts["contrast (lam=-0.3) (contrast)"] == [
        "6", "25.0%", "99", "1.50", "8.5", "6.0", "18.0", "0.04", "19.0",
    ]  # fmt: skip
    assert texts["grpo (plain)"] == ["6", "–", "–", "–", "–", "6.0", "18.0", "0.04", "19.0"]


def test_yield(model):
    section = model(plain={"lam": None}, contrast={"lam": -0.3})
    found = yield_table([section])
    ((name, *texts),) = [[cell.text for cell in row.cells] for row in found.rows[1:]]
    assert name == "contrast (lam=-0.3) (contrast)"
    # Failed requests and lost prompts: one at each of 6 steps; restarts are counted from the start of the run.
    assert texts == ["97.0%", "1.0%", "0.850", "2.0", "1.0", "6", "0", "0", "6", "3"]


def test_without_a_strategy_stage_there_is_no_yield(model):
    assert yield_table([model(plain={"lam": None})]) is None

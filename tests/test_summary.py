"""Tables of an evaluation: the paper's definitions by hand, its averages, what is missing, two runs compared."""

import numpy as np
import pandas as pd
import pytest
from graded import by_hand, simulated

from subgroup_offset.evaluation.intervals import BootstrapSettings
from subgroup_offset.evaluation.paired import run_values, sign_flip_test
from subgroup_offset.evaluation.samples import ExpectedSamples, SamplesError, complete_replicas
from subgroup_offset.evaluation.summary import (
    comparison_table,
    overall,
    pass_at_k_table,
    summary_table,
)

# Two problems and then one; two replicas of four samples.
HAND = {"aime": {"1": ["1000", "1110"], "2": ["0000", "0100"]}, "hmmt": {"1": ["0000", "00?0"]}}


def of(table: pd.DataFrame, benchmark: str, metric: str | int) -> pd.Series:
    by = "k" if isinstance(metric, int) else "metric"
    (row,) = [row for _, row in table.iterrows() if row["benchmark"] == benchmark and row[by] == metric]
    return row


@pytest.fixture(scope="module")
def runs():
    """Two runs on 22 + 6 problems, the second better; replicas of 4 samples."""
    rng = np.random.default_rng(0)
    chances = {"aime": rng.beta(0.5, 1, 22), "hmmt": rng.beta(0.5, 2, 6)}
    better = {name: np.clip(p + 0.15, 0, 1) for name, p in chances.items()}
    return [simulated(chances, 5, 4, seed=1), simulated(better, 8, 4, seed=2)]


def test_the_papers_definitions_by_hand():
    table = summary_table(complete_replicas(by_hand(HAND)))
    assert table["benchmark"].tolist() == ["aime"] * 2 + ["hmmt"] * 2 + ["overall"] * 2
    assert table["metric"].tolist() == ["pass@1", "pass@4"] * 3
    # aime, replica by replica: accuracies (1/4 + 0)/2 and (3/4 + 1/4)/2, solved 1/2 and 2/2.
    assert of(table, "aime", "pass@1")["value"] == pytest.approx((1 / 8 + 4 / 8) / 2)
    assert of(table, "aime", "pass@4")["value"] == pytest.approx((1 / 2 + 1) / 2)
    assert of(table, "hmmt", "pass@1")["value"] == of(table, "hmmt", "pass@4")["value"] == 0
    # Unweighted over benchmarks, though one has more problems.
    assert of(table, "overall", "pass@1")["value"] == pytest.approx(5 / 32)
    assert of(table, "overall", "pass@4")["value"] == pytest.approx(3 / 8)
    assert of(table, "overall", "pass@4")[["problems", "replicas", "samples", "ungraded"]].tolist() == [3, 6, 24, 1]


def test_samples_without_a_verdict_are_wrong_and_bounded():
    table = summary_table(complete_replicas(by_hand(HAND)))
    for metric, right in (("pass@1", 1 / 8), ("pass@4", 1 / 2)):
        row = of(table, "hmmt", metric)
        assert (row["value"], row["ungraded_wrong"], row["ungraded_right"], row["ungraded"]) == (0, 0, right, 1)
    row = of(table, "overall", "pass@4")
    assert (row["ungraded_wrong"], row["ungraded_right"]) == (3 / 8, 5 / 8)
    assert (table["ungraded_wrong"] == table["value"]).all()


TABLE_1 = {  # Qwen3-8B-Base and Olmo3-7B-Base; AIME 2024, 2025, 2026, HMMT 2025; (pass@1, pass@16) in percent
    "qwen": {
        "anchor": [(30.2, 65.6), (23.0, 47.9), (23.5, 53.8), (12.6, 32.5)],
        "alignment": [(31.1, 66.4), (24.0, 49.8), (24.4, 56.0), (12.1, 32.7)],
        "contrast": [(31.8, 69.1), (23.8, 50.6), (24.6, 58.8), (13.0, 36.3)],
    },
    "olmo": {
        "anchor": [(38.8, 69.8), (30.4, 54.6), (30.3, 62.2), (16.3, 34.7)],
        "alignment": [(38.8, 71.4), (31.2, 56.4), (29.6, 62.9), (15.4, 36.1)],
        "contrast": [(40.1, 72.9), (31.5, 56.3), (30.5, 65.2), (14.6, 37.3)],
    },
}


@pytest.mark.parametrize(
    ("model", "method", "gains"),
    [
        ("qwen", "contrast", (1.0, 3.8)),
        ("qwen", "alignment", (0.6, 1.3)),
        ("olmo", "contrast", (0.2, 2.6)),
        ("olmo", "alignment", (-0.2, 1.4)),
    ],
)
def test_the_papers_averages(model, method, gains):
    """Gains in the text of "Main Results", from the columns of Table 1, to the rounding of both."""
    rows = TABLE_1[model]
    found = overall(np.array(rows[method])) - overall(np.array(rows["anchor"]))
    np.testing.assert_allclose(found, gains, atol=0.051)


def test_order_of_rows_does_not_matter(runs):
    first, _ = runs
    shuffled = [run.sample(frac=1, random_state=3) for run in runs]
    settings = BootstrapSettings(n_boot=200)
    for build in (pass_at_k_table, lambda run: summary_table(run, settings)):
        pd.testing.assert_frame_equal(*(build(complete_replicas(frame)) for frame in (first, shuffled[0])))
    pd.testing.assert_frame_equal(
        *(comparison_table(*map(complete_replicas, pair), settings=settings, draws=500) for pair in (runs, shuffled))
    )


def test_a_benchmarks_rows_do_not_depend_on_the_others(runs):
    whole = summary_table(complete_replicas(runs[0]))
    alone = summary_table(complete_replicas(runs[0][runs[0]["benchmark"] == "hmmt"]))
    pd.testing.assert_frame_equal(
        whole[whole["benchmark"] == "hmmt"].reset_index(drop=True), alone[alone["benchmark"] == "hmmt"]
    )


def test_intervals_of_the_summary(runs):
    table = summary_table(complete_replicas(runs[0]))
    assert table.notna().all(axis=None)
    for over in ("problems", "samples"):
        assert (table[f"{over}_low"] < table["value"]).all() and (table["value"] < table[f"{over}_high"]).all()
    width = {over: table[f"{over}_high"] - table[f"{over}_low"] for over in ("problems", "samples")}
    assert (width["problems"] > 1.5 * width["samples"]).all()
    wider = summary_table(complete_replicas(runs[0]), BootstrapSettings(level=0.99))
    assert (wider["samples_high"] - wider["samples_low"] > width["samples"]).all()
    # The mean of two independent benchmarks: variances add.
    parts = [width["samples"][table["benchmark"] == name].to_numpy() for name in ("aime", "hmmt", "overall")]
    np.testing.assert_allclose(parts[2], np.hypot(parts[0], parts[1]) / 2, rtol=0.15)


def test_what_is_missing_shows(caplog):
    plan = ExpectedSamples(samples=4, replicas=2, problems={"aime": 2, "hmmt": 1, "gsm": 9})
    table = summary_table(complete_replicas(by_hand(HAND), plan))
    assert of(table, "aime", "pass@1")["value"] == 5 / 16
    for name in ("gsm", "overall"):  # the mean of the other two would be another quantity
        row = of(table, name, "pass@1")
        assert np.isnan(row["value"]) and np.isnan(row["problems_low"]) and row["missing_problems"] == 9
    assert of(table, "overall", "pass@1")["replicas"] == 6
    assert "gsm, hmmt: no interval over problems, which needs two problems." in caplog.text
    assert np.isnan(of(table, "hmmt", "pass@1")["problems_low"]) and of(table, "hmmt", "pass@1")["samples_high"] == 0
    curve = pass_at_k_table(complete_replicas(by_hand(HAND), plan))
    assert set(curve["benchmark"]) == {"aime", "hmmt"}


def test_one_replica_has_no_interval_over_samples(caplog):
    table = summary_table(complete_replicas(by_hand({"aime": {"1": ["1"], "2": ["0"], "3": ["1"]}})))
    assert table["metric"].tolist() == ["pass@1", "pass@1"]
    assert table["samples_low"].isna().all() and table["problems_low"].notna().all()
    assert "aime: no interval over samples" in caplog.text


def test_curve(runs):
    run = complete_replicas(runs[0])
    curve, table = pass_at_k_table(run), summary_table(run)
    assert curve.query("benchmark == 'aime'")["k"].tolist() == [1, 2, 4, 8, 16, 20]
    for name in ("aime", "hmmt", "overall"):
        rows = curve[curve["benchmark"] == name]
        assert (rows["value"].diff().dropna() > 0).all()
        assert of(curve, name, 1)["value"] == pytest.approx(of(table, name, "pass@1")["value"], abs=1e-12)
        # The same quantity with less noise: inside the interval of the average over replicas.
        summary = of(table, name, "pass@4")
        assert summary["samples_low"] < of(curve, name, 4)["value"] < summary["samples_high"]
    solved = run.stack("aime")[0].sum(axis=1) > 0
    assert of(curve, "aime", 20)["value"] == pytest.approx(solved.mean())
    assert of(curve, "overall", 20)["problems"] == 28


def test_curve_of_unequal_samples():
    run = complete_replicas(by_hand({"aime": {"1": ["10", "00", "11"], "2": ["0?"]}, "hmmt": {"1": ["01"] * 4}}))
    curve = pass_at_k_table(run)
    assert curve.query("benchmark == 'aime'")["k"].tolist() == [1, 2]
    assert curve.query("benchmark == 'overall'")["k"].tolist() == [1, 2]
    assert curve.query("benchmark == 'hmmt'")["samples_min"].tolist() == [8] * 4
    row = of(curve, "aime", 2)
    assert row["value"] == pytest.approx((1 - 3 / 15) / 2) and row["ungraded_right"] == pytest.approx((0.8 + 1) / 2)


def test_comparison(runs):
    first, second = map(complete_replicas, runs)
    table = comparison_table(first, second, settings=BootstrapSettings(seed=3), draws=20_000)
    tables = [summary_table(run) for run in (first, second)]
    np.testing.assert_allclose(table["first"], tables[0]["value"])
    np.testing.assert_allclose(table["second"], tables[1]["value"])
    np.testing.assert_allclose(table["difference"], table["second"] - table["first"])
    means = [run_values(run, "hmmt").problem_means[:, 1] for run in (first, second)]
    row = of(table, "hmmt", "pass@4")
    assert row["permutation_exact"] and row["permutation_p"] == sign_flip_test(means[1] - means[0]).p
    row = of(table, "overall", "pass@1")
    assert not row["permutation_exact"] and row["permutation_p"] < 0.01 and row["sign_p"] < 0.01
    assert row["ahead"] + row["behind"] + row["level"] == row["problems"] == 28
    # Paired: narrower than the two spreads together.
    pair = [of(t, "aime", "pass@1") for t in tables]
    apart = np.hypot(*(side["problems_high"] - side["problems_low"] for side in pair))
    row = of(table, "aime", "pass@1")
    assert 0 < row["problems_low"] < row["difference"] < row["problems_high"]
    assert row["problems_high"] - row["problems_low"] < 0.6 * apart
    assert row["samples_low"] < row["difference"] < row["samples_high"]


def test_comparison_weighs_benchmarks_equally():
    """Three problems ahead in one benchmark and one behind in the other cancel in the mean over benchmarks."""
    first = by_hand({"aime": {name: ["00", "00"] for name in "123"}, "hmmt": {"1": ["10", "10"]}})
    second = by_hand({"aime": {name: ["10", "10"] for name in "123"}, "hmmt": {"1": ["00", "00"]}})
    table = comparison_table(complete_replicas(first), complete_replicas(second))
    row = of(table, "overall", "pass@1")
    assert (row["difference"], row["ahead"], row["behind"], row["permutation_p"]) == (0, 3, 1, 1)


def test_comparison_with_samples_without_a_verdict():
    first = complete_replicas(by_hand({"aime": {"1": ["1?", "00"], "2": ["00", "00"]}}))
    second = complete_replicas(by_hand({"aime": {"1": ["11", "00"], "2": ["??", "00"]}}))
    row = of(comparison_table(first, second), "aime", "pass@1")
    assert (row["ungraded_low"], row["difference"], row["ungraded_high"]) == (0, 1 / 8, 3 / 8)
    assert (row["first_ungraded"], row["second_ungraded"]) == (1, 2)


def test_comparison_of_a_run_with_itself(runs):
    run = complete_replicas(runs[0])
    table = comparison_table(run, run)
    assert (table[["difference", "ahead", "behind"]] == 0).all(axis=None)
    assert (table[["sign_p", "permutation_p"]] == 1).all(axis=None)
    assert (table["samples_low"] < 0).all() and (table["samples_high"] > 0).all()


def test_comparison_refuses_other_problems_and_shows_missing_benchmarks():
    run, other = (by_hand({"aime": {name: ["10", "00"] for name in names}}) for names in ("12", "13"))
    with pytest.raises(SamplesError, match="in base only, not in new: aime/2"):
        comparison_table(complete_replicas(run), complete_replicas(other), ("base", "new"))
    planned = complete_replicas(run, ExpectedSamples(problems={"aime": 2, "hmmt": 1}))
    table = comparison_table(planned, complete_replicas(run))
    for name in ("hmmt", "overall"):
        assert of(table, name, "pass@1")[["difference", "permutation_p", "sign_p"]].isna().all()
    assert of(table, "aime", "pass@1")["difference"] == 0

"""Tables of an evaluation: per benchmark and overall, the pass@k curve, and two runs compared.

All numbers are fractions in [0, 1]; the paper prints percent. A problem's value is the mean over its complete replicas,
a benchmark's the mean over its problems, and `overall` the unweighted mean over benchmarks, as in the paper: averages
of Table 1's columns give the gains in its text (Contrast over Strategy-GRPO on Qwen3-8B-Base: +3.75 points of pass@16,
printed as 3.8, and +0.975 of pass@1, printed as 1.0). With 30 problems in every benchmark the mean over all problems is
the same number, so the paper does not say which of the two is meant.

A sample without a verdict counts as wrong; next to each number stands what it would be if all of them were right.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from subgroup_offset.evaluation.intervals import OVER, BootstrapSettings, bootstrap_means, percentile_interval
from subgroup_offset.evaluation.paired import check_comparable, run_values, sign_flip_test, sign_test
from subgroup_offset.evaluation.passk import pass_at_k, replica_metrics
from subgroup_offset.evaluation.samples import OVERALL, Replicas

logger = logging.getLogger(__name__)

_NEEDED = {"problems": "problems", "samples": "complete replicas of every problem"}


def overall(values: np.ndarray) -> np.ndarray:
    """The unweighted mean over benchmarks, axis 0; NaN if any benchmark has no value.

    A benchmark without a value is not left out: the mean of the others is another quantity, not an estimate of this.
    """
    return np.mean(values, axis=0)


def summary_table(run: Replicas, settings: BootstrapSettings | None = None) -> pd.DataFrame:
    """pass@1 and pass@S with intervals and counts.

    Args:
        run: of `complete_replicas`.
        settings: of the bootstrap.

    Returns:
        One row per benchmark and metric, `overall` last:

        - `benchmark`, `metric` (`pass@1`, `pass@16`), `value`;
        - `ungraded_wrong`, `ungraded_right`: the value with all samples without a verdict wrong (this is `value`) and
          right, between which it lies whatever they are;
        - `problems_low`, `problems_high`, `samples_low`, `samples_high`: intervals over problems and over samples (see
          `intervals`), of `value`; NaN, with a warning, where there are no two problems or replicas;
        - the counts of `Replicas.counts`, summed for `overall`.

        A benchmark without a complete replica has NaN, and then so has `overall`.
    """
    settings = settings or BootstrapSettings()
    values = [run_values(run, name) for name in run.benchmarks]
    means = [v.problem_means for v in values]
    best = [run_values(run, name, ungraded_right=True).problem_means for name in run.benchmarks]
    draws = {
        over: [bootstrap_means([v], over, settings, name)[0] for name, v in zip(run.benchmarks, values, strict=True)]
        for over in OVER
    }
    columns = {"value": means, "ungraded_wrong": means, "ungraded_right": best}
    counts = pd.concat([run.counts, run.counts.sum().to_frame(OVERALL).T])
    return _table(run.benchmarks, run.samples, columns, draws, settings.level).join(counts, on="benchmark")


def pass_at_k_table(run: Replicas) -> pd.DataFrame:
    """The unbiased pass@k curve over all samples of each problem's complete replicas.

    Its k=1 is pass@1 of `summary_table`. Its k=S estimates the same as the summary's pass@S with less noise, and the
    two differ by that noise (see `passk`).

    Returns:
        One row per benchmark and k, which is 1, 2, 4, ... and the number of samples of the problem that has the fewest:
        `benchmark`, `k`, `value` (samples without a verdict are wrong), `ungraded_right`, `problems`, `samples_min`
        (samples of the problem with the fewest). `overall` has the k that all benchmarks have, and no row where a
        benchmark has no complete replica.
    """
    by_problem = run.table.groupby(level=[0, 1])
    problems = by_problem.sum().assign(samples=by_problem.size() * run.samples)
    tables = []
    for name, rows in problems.groupby(level=0):
        n = rows["samples"].to_numpy()
        ks = np.unique([*(1 << i for i in range(int(n.min()).bit_length())), n.min()])
        wrong, right = (pass_at_k(n, rows["right"] + more, ks).mean(axis=0) for more in (0, rows["ungraded"]))
        curve = {"benchmark": name, "k": ks, "value": wrong, "ungraded_right": right}
        tables.append(pd.DataFrame(curve | {"problems": len(n), "samples_min": n.min()}))
    table = pd.concat(tables, ignore_index=True)
    by_k = table.groupby("k")
    columns = {"value": "mean", "ungraded_right": "mean", "problems": "sum", "samples_min": "min"}
    mean = by_k.agg(columns)[by_k.size() == len(run.benchmarks)].reset_index().assign(benchmark=OVERALL)
    return pd.concat([table, mean], ignore_index=True)


def comparison_table(
    first: Replicas,
    second: Replicas,
    names: tuple[str, str] = ("first", "second"),
    settings: BootstrapSettings | None = None,
    draws: int = 100_000,
) -> pd.DataFrame:
    """The second run beside the first, paired by problem.

    Args:
        first: for example the anchor, Strategy-GRPO.
        second: for example Contrast; differences are second minus first.
        names: of the two, for error messages; the table's columns are always `first` and `second`.
        settings: of the bootstrap; its seed is the permutation test's as well.
        draws: of the permutation test where it is not exact.

    Returns:
        One row per benchmark and metric, `overall` last:

        - `benchmark`, `metric`, `first`, `second`, `difference`;
        - `ungraded_low`, `ungraded_high`: the difference if all samples without a verdict were wrong in the second run
          and right in the first, and the other way round;
        - `problems_low`, `problems_high`, `samples_low`, `samples_high`: intervals of the difference. Over problems
          both runs get the same drawn problems; replicas are drawn for each on its own;
        - `ahead`, `behind`, `level`, `sign_p`: problems by the sign of their difference, and the sign test. `overall`
          pools the problems of all benchmarks;
        - `permutation_p`, `permutation_exact`: the sign-flip test of `difference`;
        - `problems`, `first_ungraded`, `second_ungraded`.

        A benchmark without a complete replica in either run has NaN, and then so has `overall`.

    Raises:
        SamplesError: where a problem is in one run only, or the samples per replica differ.
    """
    check_comparable(first, second, names)
    settings, runs = settings or BootstrapSettings(), (first, second)
    benchmarks = sorted({*first.benchmarks, *second.benchmarks})
    pairs = [[run_values(run, name) for run in runs] for name in benchmarks]
    before, after = ([pair[i].problem_means for pair in pairs] for i in (0, 1))
    most_before, most_after = (
        [run_values(run, name, ungraded_right=True).problem_means for name in benchmarks] for run in runs
    )
    differences = _minus(after, before)
    columns = {
        "first": before,
        "second": after,
        "difference": differences,
        "ungraded_low": _minus(after, most_before),
        "ungraded_high": _minus(most_after, before),
    }
    draws_of = {
        over: [
            np.subtract(*reversed(bootstrap_means(pair, over, settings, name)))
            for name, pair in zip(benchmarks, pairs, strict=True)
        ]
        for over in OVER
    }
    table = _table(benchmarks, first.samples, columns, draws_of, settings.level)
    weights = [np.full(len(d), 1.0 / max(len(d), 1)) for d in differences]
    groups = [*zip(differences, weights, strict=True), (np.concatenate(differences), np.concatenate(weights))]
    tests = [_tests(d[:, m], w, draws, settings.seed) for d, w in groups for m in range(d.shape[1])]
    table = table.join(pd.DataFrame(tests))
    table.loc[table["difference"].isna(), ["sign_p", "permutation_p"]] = np.nan
    for label, run in zip(("first", "second"), runs, strict=True):
        ungraded = run.counts["ungraded"].to_dict() | {OVERALL: run.counts["ungraded"].sum()}
        table[f"{label}_ungraded"] = table["benchmark"].map(ungraded).fillna(0).astype("int64")
    return table


def _tests(difference: np.ndarray, weights: np.ndarray, draws: int, seed: int) -> dict[str, Any]:
    signs, flips = sign_test(difference), sign_flip_test(difference, weights, draws=draws, seed=seed)
    tests = {"sign_p": signs.p, "permutation_p": flips.p, "permutation_exact": flips.exact}
    return {"ahead": signs.ahead, "behind": signs.behind, "level": signs.level, **tests, "problems": len(difference)}


def _minus(ones: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [one - other for one, other in zip(ones, others, strict=True)]


def _table(
    benchmarks: Sequence[str],
    samples: int,
    columns: Mapping[str, Sequence[np.ndarray]],
    draws: Mapping[str, Sequence[np.ndarray]],
    level: float,
) -> pd.DataFrame:
    """A row per benchmark (`overall` last) and metric, of what each benchmark has.

    Args:
        benchmarks: their names.
        samples: of a replica.
        columns: values (P, M) of the problems; their means count, NaN where there are none.
        draws: (n_boot, M) of both kinds of interval. Those of benchmarks are independent, so the mean over benchmarks
            of draw i is a draw of the overall value.
        level: of the intervals.
    """

    def with_overall(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.asarray(values), overall(np.asarray(values))[None]])

    def mean(problems: np.ndarray) -> np.ndarray:
        return problems.mean(axis=0) if len(problems) else np.full(problems.shape[1], np.nan)

    found = {name: with_overall([mean(problems) for problems in values]) for name, values in columns.items()}
    for over, per_benchmark in draws.items():
        ends = np.array([percentile_interval(draw, level) for draw in with_overall(per_benchmark)])
        found[f"{over}_low"], found[f"{over}_high"] = ends[:, 0], ends[:, 1]
        without = [name for name, draw in zip(benchmarks, per_benchmark, strict=True) if np.isnan(draw).any()]
        if without:
            logger.warning("%s: no interval over %s, which needs two %s.", ", ".join(without), over, _NEEDED[over])
    names = ["benchmark", "metric"]
    index = pd.MultiIndex.from_product([[*benchmarks, OVERALL], replica_metrics(samples)], names=names)
    return pd.DataFrame({name: values.reshape(-1) for name, values in found.items()}, index=index).reset_index()

"""Step metrics: their values on known batches, the buffer's rules, and the hook into verl's log."""

import logging
import math
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.utils import tracking

from subgroup_offset import metrics as metrics_module
from subgroup_offset.advantage import subgroup_advantages
from subgroup_offset.metrics import STEP_METRICS, StepMetrics, advantage_metrics, install, log_step_metrics


def of(rows: list[tuple[str, int, float]], lam: float, std: str = "sample", valid=None, success=None, **counts) -> dict:
    """Metrics of (prompt, subgroup, reward) rows, with success = reward > 0 unless given."""
    prompts, subgroups, rewards = zip(*rows, strict=True)
    result = subgroup_advantages(torch.tensor(rewards), prompts, subgroups, lam, std=std, valid=valid)
    return advantage_metrics(result, [r > 0 for r in rewards] if success is None else success, **counts)


def group(prompt: str, rates: list[int], size: int) -> list[tuple[str, int, float]]:
    return [(prompt, k, float(z < right)) for k, right in enumerate(rates) for z in range(size)]


def test_the_papers_case():
    """mu = 11/32; |offsets| 13, 5, 7, 11 of 32; A_glob is 21/32 for the 11 successes and -11/32 for the 21 failures."""
    found = of(group("p", [6, 4, 1, 0], 8), -0.3)
    ratio = sum(right * d / 21 + (8 - right) * d / 11 for right, d in ((6, 13), (4, 5), (1, 7), (0, 11))) * 0.3 / 32
    assert found["subgroup/term_ratio"] == pytest.approx(ratio, rel=1e-5)
    assert found["subgroup/abs_offset"] == pytest.approx((13 + 5 + 7 + 11) / 4 / 32)
    assert found["subgroup/success_rate"] == 11 / 32
    assert found["subgroup/informative_share"] == 1
    assert found["subgroup/constant_groups"] == 0
    assert found["subgroup/rollouts_per_subgroup_min"] == found["subgroup/rollouts_per_subgroup_max"] == 8
    assert found["subgroup/subgroups_per_group_min"] == found["subgroup/subgroups_per_group_max"] == 4
    assert all(type(value) is float for value in found.values())
    assert all(key.startswith("subgroup/") for key in found)


@pytest.mark.parametrize("std", ["population", "none"])
def test_the_ratio_does_not_depend_on_what_divides(std):
    rows = group("p", [6, 4, 1, 0], 8)
    assert of(rows, 0.5, std)["subgroup/term_ratio"] == pytest.approx(of(rows, 0.5)["subgroup/term_ratio"], rel=1e-5)


@pytest.mark.parametrize(("rates", "share"), [([5, 2], 1.0), ([5, 3], 0.0), ([8, 8], 0.0), ([0, 3], 1.0)])
def test_informative_means_a_span_of_three_of_eight(rates, share):
    assert of(group("p", rates, 8), 0.3)["subgroup/informative_share"] == share


def test_a_span_of_0_375_that_floats_do_not_hit_exactly():
    rows = [("p", 0, float(z < 33)) for z in range(40)] + [("p", 1, float(z < 18)) for z in range(40)]
    assert 33 / 40 - 18 / 40 < 0.375
    assert of(rows, 0.3)["subgroup/informative_share"] == 1


def test_success_and_reward_are_different_things():
    rows = group("p", [4, 4], 8)
    found = of(rows, 0.3, success=[subgroup == 0 for _, subgroup, _ in rows])
    assert found["subgroup/informative_share"] == 1
    assert found["subgroup/success_rate"] == 0.5
    assert found["subgroup/abs_offset"] == 0


def test_ragged_groups_and_denominators():
    rows = group("two", [3, 0], 3) + group("one", [1], 2) + [("single", 0, 1.0), ("two", 7, 0.0)]
    found = of(rows, 0.3, rows_masked=4, rows_nonfinite=5)
    assert found["subgroup/groups"] == 3
    assert found["subgroup/informative_share"] == 1  # of the one group with two or more subgroups
    assert found["subgroup/constant_groups"] == pytest.approx(1 / 3)
    assert found["subgroup/subgroups_per_group_mean"] == pytest.approx(5 / 3)
    assert (found["subgroup/subgroups_per_group_min"], found["subgroup/subgroups_per_group_max"]) == (1, 3)
    assert found["subgroup/rollouts_per_subgroup_mean"] == pytest.approx(10 / 5)
    assert (found["subgroup/rollouts_per_subgroup_min"], found["subgroup/rollouts_per_subgroup_max"]) == (1, 3)
    assert (found["subgroup/rows_masked"], found["subgroup/rows_nonfinite"]) == (4, 5)
    assert "subgroup/informative_share" not in of(group("one", [1], 2), 0.3)


def test_invalid_rows_are_in_no_metric():
    rows = group("p", [6, 4, 1, 0], 8) + group("gone", [1, 0], 8) + [("p", 9, 100.0)]
    valid = torch.tensor([prompt == "p" and subgroup < 9 for prompt, subgroup, _ in rows])
    found, expected = of(rows, -0.3, valid=valid), of(group("p", [6, 4, 1, 0], 8), -0.3)
    assert found.pop("subgroup/rows_total") == 49
    assert expected.pop("subgroup/rows_total") == 32
    assert found == expected


def test_constant_groups_have_a_ratio_of_0():
    varied, constant = group("p", [6, 4, 1, 0], 8), group("q", [8, 8, 8, 8], 8)
    assert of(varied + constant, 0.3)["subgroup/term_ratio"] == pytest.approx(
        of(varied, 0.3)["subgroup/term_ratio"] / 2
    )
    assert of(constant, 0.3)["subgroup/term_ratio"] == 0


@pytest.mark.parametrize("std", ["sample", "none"])
def test_rollouts_at_the_group_mean_are_left_out_of_the_ratio(std):
    """Rewards 0.1, 0.2, 0.3: the middle one is at the mean but for rounding, and its ratio would be enormous."""
    found = of([("p", 0, 0.1), ("p", 0, 0.2), ("p", 1, 0.3)], 1.0, std)
    assert found["subgroup/rows_zero_global"] == 1
    assert found["subgroup/term_ratio"] == pytest.approx((0.05 / 0.1 + 0.1 / 0.1) / 2, rel=1e-4)


def test_nothing_counted():
    found = of([("p", 0, 1.0)], 0.3, valid=torch.tensor([False]), rows_masked=1)
    assert found["subgroup/rows_total"] == found["subgroup/rows_masked"] == 1
    assert found["subgroup/groups"] == found["subgroup/rows_counted"] == 0
    assert "subgroup/success_rate" not in found


class TestStepMetrics:
    def test_several_values_of_a_key(self):
        buffer = StepMetrics()
        buffer.publish({"a/share": 1.0, "a/seconds_max": 2, "a/n_min": 3, "a/rows_x": 4, "a/groups": 1}, weight=3)
        buffer.publish({"a/share": 0.0, "a/seconds_max": 1, "a/n_min": 5, "a/rows_x": 6, "a/groups": 2}, weight=1)
        buffer.publish({"a/falls_count": 1, "b": 7.0}, weight=0)
        buffer.publish({"a/falls_count": 1})
        expected = {"a/share": 0.75, "a/seconds_max": 2, "a/n_min": 3, "a/rows_x": 10, "a/groups": 3}
        assert buffer.drain() == {**expected, "a/falls_count": 2, "b": 7.0}
        assert buffer.drain() == {}

    @given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0, 9)), min_size=1, max_size=20))
    def test_running_aggregates_are_those_of_all_values(self, pairs):
        buffer = StepMetrics()
        for value, weight in pairs:
            buffer.publish(dict.fromkeys(("a_max", "a_min", "rows_a", "a"), value), weight)
        values, weights = zip(*pairs, strict=True)
        found = buffer.drain()
        assert (found["a_max"], found["a_min"]) == (max(values), min(values))
        assert found["rows_a"] == pytest.approx(sum(values))
        mean = np.average(values, weights=weights) if sum(weights) > 0 else np.mean(values)
        assert found["a"] == pytest.approx(mean, abs=1e-9)

    def test_it_does_not_grow_with_the_number_of_steps(self):
        buffer = StepMetrics()
        for step in range(100):
            buffer.publish({"a": step, "b_max": step})
        assert len(pickle.dumps(buffer._values)) < 500
        assert buffer.drain() == {"a": 49.5, "b_max": 99}

    @pytest.mark.parametrize("bad", [None, "3.5", b"1", [1.0, 2.0], torch.tensor([1.0, 2.0]), 1j, object()])
    def test_what_is_no_number_is_left_out_counted_and_warned_about_once_a_key(self, bad, caplog):
        buffer = StepMetrics()
        with caplog.at_level(logging.WARNING):
            buffer.publish({"a/rows_x": 2, "a/bad": bad, "a/worse": bad})
            buffer.publish({"a/bad": bad, "a/rows_x": 3})
        assert buffer.drain() == {"a/rows_x": 5, "subgroup/metric_values_left_out_count": 3}
        said = [record.getMessage().split("=")[0] for record in caplog.records]
        assert said == ["subgroup_offset: metric a/bad", "subgroup_offset: metric a/worse"]

    def test_a_source_with_a_value_that_is_no_number_keeps_its_others(self):
        buffer = StepMetrics()
        buffer.add_source(lambda: {"strategy/a": None, "strategy/b": 1.0})
        assert buffer.drain() == {"strategy/b": 1.0, "subgroup/metric_values_left_out_count": 1}

    @pytest.mark.parametrize("two", [2, np.float32(2), np.int64(2), torch.tensor(2.0, requires_grad=True)])
    def test_scalars_of_any_library_are_numbers(self, two):
        buffer = StepMetrics()
        buffer.publish({"a": two})
        assert buffer.drain() == {"a": 2.0}

    @pytest.mark.parametrize("key", ["a", "a_max", "a_min", "rows_a"])
    @pytest.mark.parametrize("values", [(math.nan, 1.0, 2.0), (1.0, math.nan, 2.0), (2.0, 1.0, math.nan)])
    def test_nan_is_a_number_and_stays(self, key, values):
        buffer = StepMetrics()
        for value in values:
            buffer.publish({key: value})
        assert math.isnan(buffer.drain()[key])

    def test_sources_are_asked_at_every_drain(self):
        buffer, calls = StepMetrics(), []

        def source() -> dict[str, float]:
            calls.append(len(calls))
            return {"strategy/n": float(len(calls))}

        buffer.add_source(source)
        buffer.add_source(source)
        buffer.publish({"a": 1.0})
        assert buffer.drain() == {"a": 1.0, "strategy/n": 1.0}
        assert buffer.drain() == {"strategy/n": 2.0}

    def test_a_source_that_raises_is_counted_and_logged_once(self, caplog):
        def source() -> dict[str, float]:
            raise RuntimeError("worker died")

        buffer = StepMetrics()
        buffer.add_source(source)
        buffer.publish({"a": 1.0})
        with caplog.at_level(logging.WARNING):
            assert buffer.drain() == {"a": 1.0, "subgroup/metric_source_errors": 1}
            assert buffer.drain() == {"subgroup/metric_source_errors": 1}
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "worker died" in caplog.text

    def test_threads_lose_nothing(self):
        buffer, drained = StepMetrics(), []
        publishers = [
            threading.Thread(target=lambda: [buffer.publish({"a/rows_x": 1.0}) for _ in range(500)]) for _ in range(4)
        ]
        for thread in publishers:
            thread.start()
        while any(thread.is_alive() for thread in publishers):
            drained.append(buffer.drain())
        drained.append(buffer.drain())
        assert sum(part.get("a/rows_x", 0) for part in drained) == 2000


@pytest.fixture
def buffer(monkeypatch):
    fresh = StepMetrics()
    monkeypatch.setattr(metrics_module, "STEP_METRICS", fresh)
    return fresh


class TestHook:
    def log(self, *args, **kwargs):
        """What reaches verl's own `log` when it is called like this."""
        seen = []
        log_step_metrics(lambda *a, **k: seen.append((a, k)), None, args, kwargs)
        return seen[0]

    @pytest.mark.parametrize("key", ["training/global_step", "actor/loss", "critic/score/mean"])
    def test_a_training_step_takes_the_metrics_along(self, buffer, key):
        data = {key: 1.0}
        buffer.publish({"subgroup/groups": 2.0})
        assert self.log(data=data, step=1) == ((), {"data": {key: 1.0, "subgroup/groups": 2.0}, "step": 1})
        buffer.publish({"subgroup/groups": 3.0})
        assert self.log(data, 2, "console") == (({key: 1.0, "subgroup/groups": 3.0}, 2, "console"), {})
        assert data == {key: 1.0}

    def test_validation_before_training_leaves_them_for_the_step(self, buffer):
        buffer.publish({"subgroup/groups": 2.0})
        validation = {"val-core/gsm8k/acc/mean@1": 0.5, "val-aux/num_turns/min": 2}
        assert self.log(data=validation, step=0)[1]["data"] is validation
        step = {**validation, "training/global_step": 1}
        assert self.log(data=step, step=1)[1]["data"] == {**step, "subgroup/groups": 2.0}

    def test_with_nothing_published_the_call_is_untouched(self, buffer):
        data = {"training/global_step": 1}
        arguments, keywords = self.log(data=data, step=1)
        assert arguments == ()
        assert keywords["data"] is data

    def test_verls_own_keys_win(self, buffer):
        buffer.publish({"actor/loss": 9.0, "a": 1.0})
        assert self.log({"actor/loss": 1.0}, 1)[0][0] == {"actor/loss": 1.0, "a": 1.0}

    @pytest.mark.parametrize("data", [None, "text", 3])
    def test_data_of_another_kind_passes(self, buffer, data):
        buffer.publish({"a": 1.0})
        assert self.log(data, 1) == ((data, 1), {})

    def test_a_failure_here_never_breaks_the_log(self, monkeypatch, caplog):
        def drain():
            raise RuntimeError("broken buffer")

        monkeypatch.setattr(metrics_module, "STEP_METRICS", SimpleNamespace(drain=drain))
        data = {"training/global_step": 1}
        with caplog.at_level(logging.WARNING):
            assert self.log(data=data, step=1)[1]["data"] is data
        assert "broken buffer" in caplog.text

    def test_a_failure_of_verls_log_is_verls(self):
        def wrapped(*args, **kwargs):
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            log_step_metrics(wrapped, None, ({"a": 1}, 1), {})


class TestInstall:
    def make_module(self) -> SimpleNamespace:
        class Tracking:
            def __init__(self) -> None:
                self.logged: list[tuple] = []

            def log(self, data, step, backend=None):
                self.logged.append((data, step, backend))

        return SimpleNamespace(Tracking=Tracking)

    def test_wraps_once(self, buffer):
        module = self.make_module()
        install(module)
        once = vars(module.Tracking)["log"]
        install(module)
        assert vars(module.Tracking)["log"] is once
        tracker = module.Tracking()
        buffer.publish({"subgroup/groups": 2.0})
        tracker.log(data={"training/global_step": 1}, step=1)
        assert tracker.logged == [({"training/global_step": 1, "subgroup/groups": 2.0}, 1, None)]

    def test_recognises_itself_under_another_wrapper(self):
        import wrapt

        module = self.make_module()
        install(module)
        wrapt.wrap_function_wrapper(module, "Tracking.log", lambda wrapped, instance, args, kwargs: wrapped(*args))
        outer = vars(module.Tracking)["log"]
        install(module)
        assert vars(module.Tracking)["log"] is outer

    def test_verls_own_tracking(self, capsys):
        install(tracking)
        STEP_METRICS.drain()
        STEP_METRICS.publish({"subgroup/term_ratio": 0.25})
        tracking.Tracking("project", "experiment", "console").log(data={"training/global_step": 3}, step=3)
        assert "subgroup/term_ratio:0.25" in capsys.readouterr().out

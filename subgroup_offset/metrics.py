"""Training dynamics of a step, and the one hook that puts them into verl's own log.

An estimator cannot return metrics to verl, and verl's trainer asks no plugin for any. So what there is to say is
published to a buffer of the process (`STEP_METRICS`), and the next training step that verl logs takes it along.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from subgroup_offset.logs import WarnOnce

if TYPE_CHECKING:
    from subgroup_offset.advantage import SubgroupAdvantages

logger = logging.getLogger(__name__)

INFORMATIVE_SPAN = 0.375
"""Success rates of a prompt's subgroups that span at least this are informative: 3 of 8 rollouts."""

SOURCE_ERRORS = "subgroup/metric_source_errors"
LEFT_OUT = "subgroup/metric_values_left_out_count"
# A dict that verl logs for a training step has keys of these; validation before the first step has only `val...`.
_STEP_PREFIXES = ("training/", "actor/", "critic/")


def advantage_metrics(
    result: SubgroupAdvantages,
    success: Sequence[bool] | np.ndarray,
    *,
    rows_masked: int = 0,
    rows_nonfinite: int = 0,
) -> dict[str, float]:
    """What the estimator did in one step ("Training Dynamics" of the paper), keys under `subgroup/`.

    Below, a rollout is a row that counted (`result.valid`), a group a prompt with at least one rollout, a subgroup
    one with at least one rollout. A key whose denominator is 0 is left out.

    - informative_share: of the groups with two or more subgroups, the share whose subgroups' success rates span at
      least 0.375.
    - term_ratio: mean over rollouts of |lam * delta / sigma| / |A_glob|. Rollouts of constant groups contribute 0.
      Rollouts of other groups whose A_glob is 0 (reward at the group mean, to 1e-6 standard deviations) have no
      ratio: they are left out and counted in rows_zero_global.
    - abs_offset: mean over rollouts of |delta|, in units of the reward.
    - success_rate: mean over rollouts of `success`.
    - constant_groups: of all groups, the share without two different rewards (groups of one rollout included).
    - groups, subgroups_per_group_{mean,min,max}, rollouts_per_subgroup_{mean,min,max}.
    - rows_total, rows_counted, rows_masked, rows_nonfinite, rows_zero_global: numbers of rows. Total minus counted
      minus masked minus nonfinite are the rows of multi-output sessions for which the last row speaks.

    Args:
        result: of `subgroup_advantages`, (B,) rows.
        success: (B,) whether the rollout solved its problem.
        rows_masked: rows left out because they have no response token.
        rows_nonfinite: rows left out because of their reward.
    """
    valid = result.valid.cpu().numpy()
    rows = {
        "total": len(valid),
        "counted": int(valid.sum()),
        "masked": rows_masked,
        "nonfinite": rows_nonfinite,
    }
    metrics = {f"subgroup/rows_{name}": float(count) for name, count in rows.items()}
    if not rows["counted"]:
        return metrics | {"subgroup/groups": 0.0, "subgroup/rows_zero_global": 0.0}

    def column(name: str) -> np.ndarray:
        return getattr(result, name).cpu().numpy()[valid]

    group, subgroup, constant = column("group"), column("subgroup"), column("constant")
    solved = np.asarray(success, dtype=np.float64)[valid]
    metrics |= _structure_metrics(group, subgroup, constant, solved)
    metrics |= _term_metrics(column("offset_term"), column("global_advantages"), column("group_std"), constant)
    metrics["subgroup/abs_offset"] = float(np.abs(column("offsets")).mean())
    metrics["subgroup/success_rate"] = float(solved.mean())
    return metrics


def _structure_metrics(
    group: np.ndarray, subgroup: np.ndarray, constant: np.ndarray, solved: np.ndarray
) -> dict[str, float]:
    """Counts per group and subgroup, and what the subgroups' success rates say; arguments (rollouts,)."""
    rollouts = np.bincount(subgroup)
    parent = np.zeros(len(rollouts), dtype=np.int64)
    parent[subgroup] = group
    there = rollouts > 0
    rates = np.bincount(subgroup, solved)[there] / rollouts[there]
    rollouts, parent = rollouts[there], parent[there]

    subgroups = np.bincount(parent)
    lowest, highest = np.full(len(subgroups), np.inf), np.full(len(subgroups), -np.inf)
    np.minimum.at(lowest, parent, rates)
    np.maximum.at(highest, parent, rates)
    several = subgroups > 1
    is_constant = np.zeros(len(subgroups), dtype=bool)
    is_constant[group] = constant
    exists = subgroups > 0
    metrics = {
        "subgroup/groups": float(exists.sum()),
        "subgroup/constant_groups": float(is_constant[exists].mean()),
        **_spread_of("subgroup/subgroups_per_group", subgroups[exists]),
        **_spread_of("subgroup/rollouts_per_subgroup", rollouts),
    }
    if several.any():
        # Rates are quotients of integers: 5/8 - 2/8 is exact, 0.8 - 0.425 is not.
        span = highest[several] - lowest[several]
        metrics["subgroup/informative_share"] = float((span >= INFORMATIVE_SPAN - 1e-9).mean())
    return metrics


def _spread_of(key: str, counts: np.ndarray) -> dict[str, float]:
    return {
        f"{key}_mean": float(counts.mean()),
        f"{key}_min": float(counts.min()),
        f"{key}_max": float(counts.max()),
    }


def _term_metrics(
    term: np.ndarray, global_advantage: np.ndarray, group_std: np.ndarray, constant: np.ndarray
) -> dict[str, float]:
    """The subgroup term's size relative to the standard term; arguments (rollouts,)."""
    size = np.abs(global_advantage)
    # A_glob is in standard deviations, or in units of the reward where nothing was divided: hence the minimum.
    undefined = ~constant & (size <= 1e-6 * np.minimum(1.0, group_std))
    metrics = {"subgroup/rows_zero_global": float(undefined.sum())}
    ratio = np.divide(np.abs(term), size, out=np.zeros(len(term)), where=~constant & ~undefined)
    if not undefined.all():
        metrics["subgroup/term_ratio"] = float(ratio[~undefined].mean())
    return metrics


class StepMetrics:
    """Collects metrics until they are logged; safe to use from several threads. Holds one aggregate a key, so that it
    does not grow where nobody drains it, as in a trainer of one's own.

    Several values of one key between two drains become one: keys that end in `_max` or `_min` keep the extreme,
    counts (last part `groups`, or starting with `rows_`, or ending in `_count`) are summed, all others are averaged
    by weight. NaN is a number and makes the result NaN, as in verl's own reduction of metrics. What is no number (None,
    text) is left out and counted in `subgroup/metric_values_left_out_count`; it is warned about once a key.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, _Aggregate] = {}
        self._sources: list[Callable[[], Mapping[str, float]]] = []
        self._warn_once = WarnOnce(logger)

    def publish(self, metrics: Mapping[str, float], weight: float = 1.0) -> None:
        """Add values to what the next drain returns. `weight` counts only for keys that are averaged."""
        numbers = {key: found for key, value in metrics.items() if (found := number(value)) is not None}
        bad = [key for key in metrics if key not in numbers]
        for key in bad:
            message = f"subgroup_offset: metric {key}={metrics[key]!r} is no number and was left out (see {LEFT_OUT})"
            self._warn_once(key, message)
        if bad:
            numbers[LEFT_OUT] = float(len(bad))
        with self._lock:
            for key, value in numbers.items():
                self._values.setdefault(key, _Aggregate()).add(value, float(weight))

    def add_source(self, source: Callable[[], Mapping[str, float]]) -> None:
        """Ask `source` for metrics at every drain. One that raises is logged once and counted at every drain."""
        with self._lock:
            if source not in self._sources:
                self._sources.append(source)

    def drain(self) -> dict[str, float]:
        """What was published since the last drain, one value a key, and what the sources say; {} if nothing."""
        with self._lock:
            sources = list(self._sources)
        errors = 0
        for source in sources:  # outside the lock: a source may wait for other processes
            try:
                self.publish(source())
            except Exception as error:
                errors += 1
                self._warn_once(id(source), f"subgroup_offset: a source of step metrics failed: {error!r}", error)
        if errors:
            self.publish({SOURCE_ERRORS: errors})
        with self._lock:
            values, self._values = self._values, {}
        return {key: aggregate.value(key) for key, aggregate in values.items()}


STEP_METRICS = StepMetrics()
"""The buffer of this process: estimators and the rollout manager publish to it, the hook below drains it."""


@dataclass(slots=True)
class _Aggregate:
    """What the values of a key come to, in whatever way its name asks for."""

    count: int = 0
    total: float = 0.0
    weight: float = 0.0
    weighted: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf

    def add(self, value: float, weight: float) -> None:
        self.count += 1
        self.total += value
        self.weight += weight
        self.weighted += value * weight
        # In this order of the arguments NaN stays, once it is there.
        self.lowest = value if value != value else min(self.lowest, value)
        self.highest = value if value != value else max(self.highest, value)

    def value(self, key: str) -> float:
        name = key.rsplit("/", 1)[-1]
        if name.endswith("_max"):
            return self.highest
        if name.endswith("_min"):
            return self.lowest
        if name == "groups" or name.startswith("rows_") or name.endswith("_count"):
            return self.total
        return self.weighted / self.weight if self.weight > 0 else self.total / self.count


def number(value: Any) -> float | None:
    """As a float; None for what is no number. Scalars of NumPy and torch are numbers, numerals in a text are not."""
    if isinstance(value, str | bytes | bytearray):
        return None
    try:
        return float(value)
    except Exception:  # a type of someone else's raises what it likes
        return None


def log_step_metrics(wrapped: Callable[..., Any], instance: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Wrapper (in wrapt's form) of `verl.utils.tracking.Tracking.log(data, step, backend=None)`.

    Adds what `STEP_METRICS` holds to the log of a training step. The caller's dict stays as it is, its keys win, and
    with nothing to add the call passes through untouched. Whatever goes wrong here, verl's log is written.
    """
    try:
        args, kwargs = _with_step_metrics(args, kwargs)
    except Exception:
        logger.warning("subgroup_offset: could not add step metrics to verl's log", exc_info=True)
    return wrapped(*args, **kwargs)


def install(tracking_module: Any) -> None:
    """Wrap `Tracking.log` of `verl.utils.tracking` with `log_step_metrics`; calling it again changes nothing."""
    import wrapt

    layer = vars(tracking_module.Tracking)["log"]
    while layer is not None:
        if getattr(layer, "_self_wrapper", None) is log_step_metrics:
            return
        layer = getattr(layer, "__wrapped__", None)
    wrapt.wrap_function_wrapper(tracking_module, "Tracking.log", log_step_metrics)


def _with_step_metrics(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    data = args[0] if args else kwargs.get("data")
    if not isinstance(data, Mapping) or not any(str(key).startswith(_STEP_PREFIXES) for key in data):
        return args, kwargs
    metrics = STEP_METRICS.drain()
    if not metrics:
        return args, kwargs
    merged = {**data, **{key: value for key, value in metrics.items() if key not in data}}
    return ((merged, *args[1:]), kwargs) if args else (args, {**kwargs, "data": merged})

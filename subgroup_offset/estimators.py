"""The advantage estimator as verl calls it: labels in, `advantage.py`, response mask out.

verl gives an estimator the token rewards, the response mask and one id per row. What this module adds to the maths
is which rows count: rows without a response token (verl's padding rows among them) and rows whose reward is not
finite are left out and get 0; of a session with several output rows the last one counts, and all get its advantage.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subgroup_offset.advantage import offset_advantages
from subgroup_offset.config import SubgroupConfig
from subgroup_offset.grouping import Grouping, GroupStatistics, group_statistics
from subgroup_offset.labels import LabelColumns, decode_columns, factorize, number_pairs
from subgroup_offset.lam import LamRule, lam_text, parse_lam
from subgroup_offset.logs import WarnOnce
from subgroup_offset.methods.compose import Composed, compose
from subgroup_offset.methods.groups import GroupView, partial_credit_groups
from subgroup_offset.methods.reliability import offset_reliability, offset_share, shrunk
from subgroup_offset.methods.rows import LOSS_FIELD, GivenRows, QueueRows, Rows
from subgroup_offset.metrics import STEP_METRICS, advantage_metrics

logger = logging.getLogger(__name__)

NAME = "grpo_subgroup"
HOW_TO_LABEL = (
    "Sample with strategies: +actor_rollout_ref.rollout.agent.agent_loop_manager_class="
    "subgroup_offset.rollout.StrategyAgentLoopManager; or pass a `subgroup_id` per row in non_tensor_batch where your "
    "verl hands it to estimators; or set algorithm.subgroup.lam=0 for plain GRPO."
)
HOW_TO_IDENTIFY = (
    "Give every row that counts an id of its subgroup, any value but None and NaN; or leave subgroup_id out where the "
    "uid field has labels; or set algorithm.subgroup.lam=0 for plain GRPO."
)
# Elements of the mask that are looked at together where a row's first token does not settle the matter.
_BLOCK = 1 << 18

_warn_once = WarnOnce(logger)
# One running mean a rule, over the steps of this process.
_lam_rules: dict[str, LamRule] = {}


def register() -> None:
    """Register the estimator with verl under `grpo_subgroup`; calling it again changes nothing."""
    from verl.trainer.ppo.core_algos import register_adv_est

    register_adv_est(NAME)(compute_grpo_subgroup_advantage)


@torch.no_grad()
def compute_grpo_subgroup_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Any,
    config: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """GRPO with a baseline shifted along the subgroup offset (Eqs. (1), (5)-(9) of the paper, see `advantage.py`).

    Args:
        token_level_rewards: (B, T) floating point. A row's reward is the sum over all its tokens, as in verl's grpo.
        response_mask: (B, T) of any dtype, 0 where a token is none of the policy's.
        index: (B,) the `uid` field: labels (`labels.RolloutLabel`) or, for plain GRPO, any ids of the prompts.
        config: verl's `config.algorithm`; the settings are under its `subgroup` key (`config.SubgroupConfig`).
        **kwargs: `non_tensor_batch` may hold `subgroup_id` (B,), which then wins over the labels' subgroups. `rows`
            may hold the fields of the rows that a configured method reads (`methods/rows.py`), and takes what it
            writes. All others are accepted and ignored.

    Returns:
        Advantages and returns, (B, T) float32: one and the same tensor, each row's advantage times its mask.

    Raises:
        ValueError: lam != 0 while rows that count have no subgroup (no label, or a `subgroup_id` that is None or
            NaN), shapes that do not match, malformed labels.
    """
    cfg = SubgroupConfig.from_algorithm(config)
    _check_shapes(token_level_rewards, response_mask, index)
    columns = decode_columns(index)
    explicit = _explicit_subgroups(kwargs.get("non_tensor_batch"), len(response_mask))

    rewards = token_level_rewards.sum(dim=-1)
    rewards = rewards if rewards.is_floating_point() else rewards.float()
    has_token = _has_token(response_mask).to(rewards.device)
    usable = has_token & torch.isfinite(rewards)
    with_token, countable = int(has_token.sum()), int(usable.sum())
    _warn_nonfinite(with_token - countable)
    if cfg.lam != 0:
        _require_subgroups(columns, explicit, usable.cpu().numpy(), cfg.lam)

    sessions = _sessions(columns)
    valid = usable if sessions is None else usable & torch.from_numpy(sessions.is_last).to(rewards.device)
    last_row = None if sessions is None else torch.from_numpy(sessions.last_row).to(rewards.device)
    success = np.where(columns.success >= 0, columns.success > 0, rewards.cpu().float().numpy() > 0)
    methods, metrics = cfg.methods(), {}
    grouping = _grouping(columns, explicit, named=cfg.shuffle_offsets)
    if any(method.on_verdicts for method in methods.values()):
        verdicts = torch.from_numpy(success).to(rewards.device)
        stats = group_statistics(verdicts.double(), grouping, valid)
        metrics["subgroup/partial_credit_groups"] = partial_credit_groups(rewards, verdicts, stats)
    else:
        stats = group_statistics(rewards, grouping, valid)
    lam, offsets = _lam_and_offsets(cfg, stats, metrics)
    if methods:
        rows = _rows(kwargs, columns, index)
        view = GroupView(stats, torch.from_numpy(success), response_mask, last_row, rows)
        composed = compose(view, methods, lam=lam, offsets=offsets, std=cfg.std)
        if composed.rarity is not None:
            rows.write({LOSS_FIELD: view.of_rollout(composed.rarity).float()[:, None]})
        metrics |= view.metrics
    else:
        composed = Composed(offset_advantages(stats, lam, offsets, cfg.std))
    advantages = _tokens(composed, response_mask, usable, last_row)
    metrics |= advantage_metrics(
        composed.result, success, rows_masked=len(rewards) - with_token, rows_nonfinite=with_token - countable
    )
    STEP_METRICS.publish(metrics, weight=metrics["subgroup/groups"])
    _warn_without_offsets(metrics, cfg.lam)
    return advantages, advantages


def _lam_and_offsets(cfg: SubgroupConfig, stats: GroupStatistics, metrics: dict[str, float]) -> tuple[float, Tensor]:
    """The step's lam and (S + 1,) offsets as used; a rule's lam follows from this step and the ones before it here."""
    reliability = offset_reliability(stats)
    offsets = stats.offsets(cfg.seed if cfg.shuffle_offsets else None)
    if cfg.offset_shrinkage == "batch":
        offsets = shrunk(offsets, stats, reliability)
    if reliability is not None:
        metrics["subgroup/offset_reliability"] = reliability.mean
    if isinstance(cfg.lam, int | float):
        return float(cfg.lam), offsets
    rule = _lam_rules.setdefault(lam_text(cfg.lam), parse_lam(cfg.lam))
    lam = rule.step(None if reliability is None else reliability.mean, offset_share(stats))
    metrics["subgroup/lam"] = lam
    return lam, offsets


def _rows(given: Mapping[str, Any], columns: LabelColumns, index: Any) -> Rows:
    """Where a method finds what verl does not hand to estimators.

    ``rows`` (a mapping of fields, or `methods.rows.Rows`) is for a trainer of one's own; without it, it is verl's
    TransferQueue.
    """
    rows = given.get("rows")
    if rows is None:
        return QueueRows(columns, index)
    return GivenRows(rows) if isinstance(rows, Mapping) else rows


def _tokens(composed: Composed, mask: Tensor, usable: Tensor, last_row: Tensor | None) -> Tensor:
    """(B, T) advantages: each rollout's on all of its rows and tokens, times the tokens' weights."""
    scalar = composed.result.advantages
    if last_row is not None:
        scalar = torch.where(usable, scalar.index_select(0, last_row), 0.0)
    advantages = _spread(scalar, mask)
    if composed.credit is not None:
        rows, credit = composed.credit
        credited = torch.where(mask != 0, credit, 0.0).to(advantages)
        advantages = torch.where((rows & usable).to(mask.device)[:, None], credited, advantages)
    if composed.token_weights is not None:
        advantages = advantages.mul_(composed.token_weights.to(advantages))
    return advantages


# Public: our checks before a run let any registered estimator with this attribute train on two-stage rollouts, whose
# `uid` field holds labels; one without it would take every label for a prompt of its own.
compute_grpo_subgroup_advantage.reads_rollout_labels = True  # type: ignore[attr-defined]


def _check_shapes(token_level_rewards: Tensor, response_mask: Tensor, index: Any) -> None:
    shape = tuple(response_mask.shape)
    if len(shape) != 2 or tuple(token_level_rewards.shape) != shape:
        got = tuple(token_level_rewards.shape)
        raise ValueError(f"token_level_rewards and response_mask must both be (B, T), got {got} and {shape}")
    if len(index) != shape[0]:
        raise ValueError(f"index must have one id per row: got {len(index)} ids for {shape[0]} rows")


def _explicit_subgroups(non_tensor_batch: Mapping[str, Any] | None, rows: int) -> list[Any] | None:
    ids = None if non_tensor_batch is None else non_tensor_batch.get("subgroup_id")
    if ids is None:
        return None
    if len(ids) != rows:
        raise ValueError(f"non_tensor_batch['subgroup_id'] must have one id per row: got {len(ids)} for {rows} rows")
    return ids.tolist() if hasattr(ids, "tolist") else list(ids)


def _require_subgroups(columns: LabelColumns, explicit: list[Any] | None, usable: np.ndarray, lam: Any) -> None:
    """Every row that counts needs a subgroup: without, it would silently be treated as if its offset were 0."""
    if explicit is None:
        labelled, lack, fix = columns.labelled, ("carries a label", "carry no label"), HOW_TO_LABEL
    else:
        labelled = np.fromiter((not _is_missing(subgroup) for subgroup in explicit), bool, len(explicit))
        lack = ("has a subgroup_id other than None or NaN", "have the subgroup_id None or NaN")
        fix = HOW_TO_IDENTIFY
    missing, rows = int((usable & ~labelled).sum()), int(usable.sum())
    if missing:
        found = f"none of the {rows} rows {lack[0]}" if missing == rows else f"{missing} of {rows} rows {lack[1]}"
        raise ValueError(f"algorithm.subgroup.lam={lam_text(lam)} needs subgroups, but {found}. {fix}")


def _is_missing(subgroup: Any) -> bool:
    """What a join of tables leaves where there was nothing."""
    return subgroup is None or (isinstance(subgroup, numbers.Real) and subgroup != subgroup)


def _grouping(columns: LabelColumns, explicit: list[Any] | None, named: bool) -> Grouping:
    """The rows' groups and subgroups as tensors; with the ids themselves only where a shuffle needs them."""
    subgroup, parent, ids = columns.subgroup, columns.parent, columns.subgroup_ids
    if explicit is not None:
        subgroup, pairs = factorize(list(zip(columns.prompt.tolist(), explicit, strict=True)))
        parent = np.array([prompt for prompt, _ in pairs], dtype=np.int64)
        ids = [name for _, name in pairs]
    names = [(columns.prompts[p], name) for p, name in zip(parent.tolist(), ids, strict=True)] if named else ()
    return Grouping(torch.from_numpy(subgroup), torch.from_numpy(parent), len(columns.prompts), names)


@dataclass(frozen=True, slots=True)
class _Sessions:
    is_last: np.ndarray  # (B,) bool: the row is its session's last output
    last_row: np.ndarray  # (B,) int64: the row number of the last output of the row's session


def _sessions(columns: LabelColumns) -> _Sessions | None:
    """Which row speaks for each session; None where every row is a session of its own.

    The last output is the one with the highest `output`: load balancing has shuffled the rows.
    """
    if not columns.labelled.any():
        return None
    session, distinct = number_pairs(columns.prompt, len(columns.prompts), columns.session)
    if distinct == len(session):
        return None
    order = np.lexsort((columns.output, session))
    last_of_session = order[np.flatnonzero(np.diff(session[order], append=-1))]
    is_last = np.zeros(len(session), dtype=bool)
    is_last[last_of_session] = True
    return _Sessions(is_last, last_of_session[session])


def _has_token(mask: Tensor) -> Tensor:
    """(B,) bool: rows with any token. Nearly every response starts with one, so the rest of a row is seldom read."""
    rows, width = mask.shape
    if width == 0:
        return torch.zeros(rows, dtype=torch.bool, device=mask.device)
    found = mask[:, 0] != 0
    unsure = torch.nonzero(~found).flatten()
    for part in unsure.split(max(1, _BLOCK // width)) if len(unsure) else ():
        found[part] = (mask[part] != 0).any(dim=-1)
    return found


def _spread(scalar: Tensor, mask: Tensor) -> Tensor:
    """Each row's scalar (B,) times its mask (B, T) as float32, with no second (B, T) matrix beside the result.

    On a CPU torch would convert a mask of another type into a matrix of its own before it multiplies; copying it
    into the result converts it in passing.
    """
    scalar = scalar.to(mask.device)[:, None]
    out = torch.empty(mask.shape, dtype=torch.float32, device=mask.device)
    if mask.device.type == "cpu" and mask.dtype != torch.float32:
        return out.copy_(mask).mul_(scalar)
    return torch.mul(mask, scalar, out=out)


def _warn_nonfinite(count: int) -> None:
    if count:
        _warn_once(
            "nonfinite",
            f"{NAME}: {count} rows have a reward that is not finite; they count in no statistic and get advantage 0. "
            "Said once; see subgroup/rows_nonfinite for every step.",
        )


def _warn_without_offsets(metrics: Mapping[str, float], lam: Any) -> None:
    """A lam that does nothing in a whole step: no prompt had two subgroups, though one had several rollouts."""
    one_each = metrics.get("subgroup/subgroups_per_group_max") == 1
    if lam != 0 and one_each and metrics["subgroup/rollouts_per_subgroup_max"] > 1:
        _warn_once(
            "without offsets",
            f"{NAME}: algorithm.subgroup.lam={lam_text(lam)} did nothing in this step: every prompt's rollouts are one "
            "subgroup, so that all offsets are 0, which is plain GRPO. With a partition (or subgroup_id), choose one "
            "that tells the rollouts of a prompt apart. With strategies, no slot had a usable preview, and the slots "
            "without one are one subgroup (strategy.merge_empty): see strategy/usable_per_candidate, "
            "strategy/empty_slots, and the templates. Said once; subgroup/subgroups_per_group_max is 1 in every such "
            "step.",
        )

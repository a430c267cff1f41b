"""A real run with other settings than the default: JSONL, rollouts and metrics show that each does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_run import toy_overrides

from subgroup_offset.cluster.launch import TrainingRun
from subgroup_offset.strategy.record import read_records
from subgroup_offset.strategy.selection import mean_pairwise_distance, select_pairs
from subgroup_offset.strategy.subgroups import PromptRecord

pytestmark = pytest.mark.slow

PROMPTS, K = 4, 4
#: Ten rollouts over four strategies.
RAGGED = [3, 3, 2, 2]


#: Replicas of their own beside the trainer's, with weights through the CPU's checkpoint engine.
SEPARATE_ASYNC = [
    "trainer.v1.trainer_mode=separate_async",
    "trainer.v1.separate_async.parameter_sync_step=1",
    "ray_kwargs.ray_init.num_gpus=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=tcp_store",
    "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=subgroup_offset.cpu.checkpoint_engine",
]


def records_of(directory: Path) -> list[PromptRecord]:
    """Of all prompts that had ended when the last step was logged; asynchronous modes work ahead."""
    return [r for path in sorted((directory / "strategy").glob("*.jsonl")) for r in read_records(path)]


def test_random_pairs_with_subgroup_affinity_in_separate_async(toy, tmp_path):
    """Paired calls at T = 0.7, random ones kept, duplicates dropped, all empty slots in one subgroup, ragged slots.

    Two steps: weights go to the replicas once.
    """
    settings = {"sampling": "paired", "selection": "random", "affinity": "subgroup", "temperature": 0.7}
    settings |= {"deduplicate": True, "num_candidates": 3, "rollouts_per_strategy": "null"}
    overrides = [f"algorithm.subgroup.strategy.{key}={value}" for key, value in settings.items()]
    overrides += [
        *SEPARATE_ASYNC,
        f"actor_rollout_ref.rollout.n={sum(RAGGED)}",
        f"algorithm.subgroup.strategy.data_dir={tmp_path}/strategy",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=False",
    ]
    run = TrainingRun(tmp_path / "run", [*toy_overrides(toy, PROMPTS), *overrides])
    steps = [step.metrics for step in run.wait(timeout=600)]
    records = records_of(tmp_path)
    empty, usable, distances, differs = 0, 0, [], False
    for record in records:
        assert len(record.candidates) == 3
        assert [slot.rollouts for slot in record.slots] == RAGGED
        for candidate in record.candidates:
            usable += candidate.previews is not None
            if candidate.kept:
                first, second = candidate.slots
                assert first % 2 == 0 and second == first + 1  # halves are adjacent
                assert (record.slots[first].preview, record.slots[second].preview) == tuple(candidate.previews)
                assert "[ANOTHER APPROACH]" in candidate.text
        kept = {frozenset(c.previews) for c in record.candidates if c.kept}
        pairs = [c.previews for c in record.candidates if c.previews is not None and len(set(c.previews)) == 2]
        distinct = list({frozenset(pair): pair for pair in pairs}.values())
        assert len(kept) == sum(c.kept for c in record.candidates) == min(K // 2, len(distinct))
        differs |= kept != {frozenset(distinct[i]) for i in select_pairs(distinct, K // 2)}
        vacant = [k for k, slot in enumerate(record.slots) if slot.preview is None]
        assert len({record.slots[k].subgroup for k in vacant}) <= 1
        empty += len(vacant)
        distances.append(mean_pairwise_distance([slot.preview for slot in record.slots if slot.preview is not None]))
    assert differs  # the diverse choice would have been another

    prompts = [m.get("strategy/prompts", 0) for m in steps]
    assert sum(prompts) == len(records) >= 2 * PROMPTS

    def logged(name: str) -> float:
        return sum(m[f"strategy/{name}"] * n for m, n in zip(steps, prompts, strict=True) if n)

    assert logged("empty_slots") == pytest.approx(empty / K)
    assert logged("usable_per_candidate") == pytest.approx(usable / 3)
    if None not in distances:
        assert logged("jaccard_distance") == pytest.approx(sum(distances))
    for m in steps:
        assert m.get("strategy/failed_requests", 0) == 0
        assert m["subgroup/groups"] == PROMPTS and m["subgroup/rows_counted"] == PROMPTS * sum(RAGGED)
        assert 2 <= m["subgroup/subgroups_per_group_min"] <= m["subgroup/subgroups_per_group_max"] <= K

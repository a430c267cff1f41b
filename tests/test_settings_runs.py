"""Real runs with other settings than the default: JSONL, rollouts and metrics show that each does what it says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from subgroup_offset.launch import TrainingRun
from subgroup_offset.partition import FinishedRollout, make_partition
from subgroup_offset.reports.inspect import PromptRecord, read_records
from subgroup_offset.reports.prompt_table import read_rollouts
from subgroup_offset.strategy import jaccard_distance, select_previews

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parent
PROMPTS, K, Z = 4, 4, 4


def train(toy: Path, directory: Path, *overrides: str) -> dict[str, float]:
    """One training step of Contrast on the toy world; its metrics."""
    run = TrainingRun(
        directory / "run",
        [
            "--config-name=contrast",
            "+experiment=toy",
            "+platform=cpu",
            f"toy_dir={toy}",
            f"data.train_batch_size={PROMPTS}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
            "trainer.total_training_steps=1",
            "trainer.val_before_train=False",
            f"trainer.rollout_data_dir={directory}/rollouts",
            f"+algorithm.subgroup.strategy.data_dir={directory}/strategy",
            *overrides,
        ],
    )
    (step,) = run.wait(timeout=600)
    return step.metrics


def records_of(directory: Path) -> list[PromptRecord]:
    records = read_records(directory / "strategy" / "1.jsonl")
    assert len(records) == PROMPTS
    return records


def test_paired_sampling(toy, tmp_path):
    """Paired calls at T = 0.7, with duplicates dropped and all empty slots in one subgroup."""
    key = "+algorithm.subgroup.strategy"
    settings = [
        f"{key}.sampling=paired",
        f"{key}.temperature=0.7",
        f"{key}.deduplicate=True",
        f"{key}.merge_empty=True",
    ]
    # Two calls for the two pairs that four slots hold: now and then one of them fails.
    metrics = train(toy, tmp_path, *settings, "algorithm.subgroup.strategy.num_candidates=2")
    empty = usable = 0
    for record in records_of(tmp_path):
        assert len(record.candidates) == 2
        for candidate in record.candidates:
            usable += candidate.previews is not None
            if candidate.kept:
                first, second = candidate.slots
                assert first % 2 == 0 and second == first + 1  # halves are adjacent
                assert (record.slots[first].preview, record.slots[second].preview) == tuple(candidate.previews)
                assert "[ANOTHER APPROACH]" in candidate.text
        vacant = [k for k, slot in enumerate(record.slots) if slot.preview is None]
        assert len({record.slots[k].subgroup for k in vacant}) <= 1
        empty += len(vacant)
        pairs = [tuple(c.previews) for c in record.candidates if c.kept]
        assert len(pairs) == len(set(pairs))
    assert metrics["strategy/empty_slots"] == empty / (PROMPTS * K)
    assert metrics["strategy/usable_per_candidate"] == usable / (PROMPTS * 2)
    assert usable > 0


def test_random_selection_with_subgroup_affinity(toy, tmp_path):
    key = "+algorithm.subgroup.strategy"
    metrics = train(toy, tmp_path, f"{key}.selection=random", f"{key}.affinity=subgroup", f"{key}.temperature=0.7")
    differs, distances = False, []
    for record in records_of(tmp_path):
        usable = [c.previews[0] for c in record.candidates if c.previews is not None]
        kept = [slot.preview for slot in record.slots if slot.preview is not None]
        assert set(kept) <= set(usable) and len(kept) == min(K, len(usable))
        pairs = [jaccard_distance(a, b) for i, a in enumerate(kept) for b in kept[i + 1 :]]
        distances.append(sum(pairs) / len(pairs))
        differs |= kept != [usable[i] for i in select_previews(usable, K)]
    assert differs  # the diverse choice would have been another
    assert metrics["strategy/jaccard_distance"] == pytest.approx(sum(distances) / PROMPTS)
    assert metrics["strategy/failed_requests"] == 0


PARTITIONS = {
    "length": [],
    "turns": [],
    "answer": [],
    "field": ["+algorithm.subgroup.partition_field=pred"],
    "parts.ByMethod": [f"+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH='{TESTS}'"],
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition(toy, tmp_path, name, monkeypatch):
    """Single-stage rollouts, parted by what they are: the offsets in verl's log are those of the dumped rollouts."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))  # the driver checks a user's class before Ray starts
    metrics = train(toy, tmp_path, f"+algorithm.subgroup.partition={name}", *PARTITIONS[name])
    assert "strategy/prompts" not in metrics and not (tmp_path / "strategy").exists()
    groups = defaultdict(list)
    for rollout in read_rollouts(tmp_path / "rollouts" / "1.jsonl"):
        assert "[KEY" not in rollout.input
        groups[rollout.prompt].append(rollout)
    assert metrics["subgroup/groups"] == len(groups) == PROMPTS
    sizes = [len(group) for group in groups.values()]
    assert sizes == [K * Z] * PROMPTS
    if name == "turns":  # a single-turn loop: one subgroup, no offset
        assert metrics["subgroup/subgroups_per_group_max"] == 1 and metrics["subgroup/abs_offset"] == 0
    elif name in ("answer", "field", "parts.ByMethod"):
        label = label_of(name)
        expected = [len({label(r.output) for r in group}) for group in groups.values()]
        assert metrics["subgroup/subgroups_per_group_mean"] == pytest.approx(sum(expected) / PROMPTS)
        assert max(expected) > 1
    else:
        assert 1 <= metrics["subgroup/subgroups_per_group_max"] <= 2


def label_of(name: str):
    """How a partition labels one response of the toy world, from its text alone."""
    if name == "parts.ByMethod":
        return lambda text: text.split("\n", 1)[0]
    answer = make_partition("answer")
    return lambda text: answer([FinishedRollout(0, text, 1, 2, None, None, {})])[0]

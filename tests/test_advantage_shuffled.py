"""The maths: offsets shuffled among the subgroups of a prompt."""

import subprocess
import sys

import torch
from advantage_cases import OFFSETS, Rows, batches, close, paper_case, run
from hypothesis import given
from hypothesis import strategies as st

from subgroup_offset.advantage import subgroup_advantages


def test_shuffling_permutes_offsets_and_keeps_none_in_place():
    rows = paper_case()
    plain = run(rows, -0.3)
    seen = set()
    for seed in range(40):
        result = run(rows, -0.3, shuffle_seed=seed)
        assigned = result.offsets[::8].tolist()
        assert sorted(assigned) == sorted(OFFSETS)
        assert all(a != b for a, b in zip(assigned, OFFSETS, strict=True))
        assert result.offsets.tolist() == [assigned[k] for k in rows.subgroups]
        assert torch.equal(result.global_advantages, plain.global_advantages)
        close(result.advantages, result.global_advantages + 0.3 * result.offsets / (plain.group_std + 1e-6), 1e-6)
        seen.add(tuple(assigned))
    assert len(seen) == 6  # (4 - 1)! rings


@given(batches(), st.integers(0, 5))
def test_shuffling_is_the_same_whatever_else_is_in_the_batch(rows, seed):
    everything = run(rows, 0.3, shuffle_seed=seed).offsets
    only = [i for i, prompt in enumerate(rows.prompts) if prompt == rows.prompts[-1]][::-1]
    alone = Rows(rows.rewards[only], [rows.prompts[i] for i in only], [rows.subgroups[i] for i in only])
    close(run(alone, 0.3, shuffle_seed=seed).offsets, everything[only], 1e-6)


def test_shuffling_is_the_same_in_every_process():
    code = (
        "import torch; from subgroup_offset.advantage import subgroup_advantages as f;"
        "print(f(torch.arange(8.), ['p'] * 8, list('abcdefgh'), 1.0, shuffle_seed=1).offsets.tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    }
    assert len(outputs) == 1


def test_one_subgroup_keeps_its_offset_when_shuffled():
    result = subgroup_advantages(torch.tensor([1.0, 0.0]), ["p", "p"], ["only", "only"], 0.5, shuffle_seed=0)
    assert result.offsets.tolist() == [0, 0]
    assert result.advantages[0] == -result.advantages[1] > 0

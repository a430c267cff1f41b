"""The maths: which ids, types and devices it takes, and the errors about others."""

import math
import subprocess
import sys

import pytest
import torch
from advantage_cases import FLOATS, close, paper_case, run

from subgroup_offset.advantage import subgroup_advantages


def test_the_same_subgroup_id_under_two_prompts_is_two_subgroups():
    result = subgroup_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), ["a", "a", "b", "b"], [0, 1, 0, 1], 0.5)
    assert result.offsets.tolist() == [0.5, -0.5, -0.5, 0.5]


def test_ids_may_be_any_hashables_or_tensors():
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])
    expected = subgroup_advantages(rewards, [0, 0, 1, 1, 1], [0, 1, 0, 0, 2], 0.3)
    prompts = torch.tensor([0, 0, 1, 1, 1])
    for group, subgroup in (
        (prompts, torch.tensor([0, 1, 0, 0, 2])),
        ([("a", 1), ("a", 1), None, None, None], ["x", "y", "x", "x", 3.5]),
        (prompts.numpy(), ["0", "1", "0", "0", "2"]),
    ):
        assert torch.equal(subgroup_advantages(rewards, group, subgroup, 0.3).advantages, expected.advantages)


def test_results_need_no_gradient():
    rewards = torch.tensor([0.0, 1.0], requires_grad=True)
    assert not subgroup_advantages(rewards, [0, 0], [0, 1], 0.3).advantages.requires_grad


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rewards": torch.zeros(2, 1)}, r"rewards must have shape \(B,\)"),
        ({"prompt_ids": ["p"]}, "prompt_ids must have one id per row: got 1 ids for 2"),
        ({"subgroup_ids": torch.zeros(2, 1)}, "subgroup_ids must be one id per row"),
        ({"std": "robust"}, "std must be one of sample, population, none, got 'robust'"),
        ({"lam": math.nan}, "lam must be a finite number, got nan"),
        ({"valid": torch.ones(3, dtype=torch.bool)}, "valid must have the shape of rewards"),
    ],
)
def test_errors_name_the_argument(change, match):
    arguments = {"rewards": torch.zeros(2), "prompt_ids": ["p", "p"], "subgroup_ids": [0, 1], "lam": 0.3, **change}
    with pytest.raises(ValueError, match=match):
        subgroup_advantages(**arguments)


def test_integer_rewards_are_refused():
    with pytest.raises(TypeError, match=r"rewards must be a floating-point tensor.*rewards\.float"):
        subgroup_advantages(torch.zeros(2, dtype=torch.int64), [0, 0], [0, 1], 0.3)


def test_the_module_needs_torch_only():
    code = (
        "import sys, subgroup_offset.advantage;"
        "print([m for m in ('verl', 'ray', 'vllm', 'hydra', 'omegaconf') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert output.strip() == "[]"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_a_device_gives_what_the_cpu_gives(shuffle_seed):
    rows = paper_case()
    on_device = run(rows._replace(rewards=rows.rewards.cuda()), -0.3, shuffle_seed=shuffle_seed)
    for name in FLOATS:
        assert getattr(on_device, name).is_cuda
        close(getattr(on_device, name).cpu(), getattr(run(rows, -0.3, shuffle_seed=shuffle_seed), name), 1e-6)

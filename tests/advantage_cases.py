"""Batches for the tests of the maths: the paper's case study, and any batch of few prompts and subgroups."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st

from subgroup_offset.advantage import SubgroupAdvantages, subgroup_advantages

# The paper's case study (Table 6): successes of four strategies out of 8. Mean 11/32, sample variance 231/992.
SUCCESSES = (6, 4, 1, 0)
OFFSETS = (0.40625, 0.15625, -0.21875, -0.34375)
FLOATS = (
    "advantages",
    "global_advantages",
    "offsets",
    "offset_term",
    "group_mean",
    "group_std",
    "baseline",
)


class Rows(NamedTuple):
    rewards: torch.Tensor
    prompts: list
    subgroups: list


def paper_case() -> Rows:
    rows = [(k, float(z < successes)) for k, successes in enumerate(SUCCESSES) for z in range(8)]
    return Rows(torch.tensor([r for _, r in rows]), ["p"] * 32, [k for k, _ in rows])


# Quarters: exact in float32, so that what is compared is the estimator and not the rounding of its input.
QUARTERS = st.integers(-12, 12).map(lambda n: n / 4)
LAMBDAS = st.floats(-1, 1, allow_nan=False)


@st.composite
def batches(draw, rewards=QUARTERS) -> Rows:
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), rewards), min_size=1, max_size=40))
    prompts, subgroups, values = zip(*rows, strict=True)
    return Rows(torch.tensor(values, dtype=torch.float64), list(prompts), list(subgroups))


def run(rows: Rows, lam: float, **kwargs) -> SubgroupAdvantages:
    return subgroup_advantages(rows.rewards, rows.prompts, rows.subgroups, lam, **kwargs)


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=tolerance, atol=tolerance)

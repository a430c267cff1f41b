"""The estimator as verl calls it: equal to verl's where the method is GRPO, and exact about which rows count."""

import logging
import math
import random
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch.profiler import ProfilerActivity, profile
from verl import DataProto
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from subgroup_offset import estimators
from subgroup_offset.advantage import subgroup_advantages
from subgroup_offset.estimators import compute_grpo_subgroup_advantage
from subgroup_offset.labels import RolloutLabel
from subgroup_offset.metrics import STEP_METRICS

WIDTH = 4
SUCCESSES = (6, 4, 1, 0)


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(estimators, "_warned_nonfinite", False)
    STEP_METRICS.drain()
    yield
    STEP_METRICS.drain()


def settings(lam: float, **others):
    return {"subgroup": {"lam": lam, **others}}


def tokens(rewards: list[float], mask_dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, WIDTH) rewards on the second of WIDTH tokens, three of which are the policy's."""
    token_level = torch.zeros(len(rewards), WIDTH)
    token_level[:, 1] = torch.tensor(rewards)
    mask = torch.ones(len(rewards), WIDTH, dtype=mask_dtype)
    mask[:, 3] = 0
    return token_level, mask


def estimate(ids: list, rewards: list[float], config=None, **kwargs) -> torch.Tensor:
    """Advantages per row, read from the first token; that the others agree with the mask is checked on the way."""
    token_level, mask = tokens(rewards)
    advantages, returns = compute_grpo_subgroup_advantage(
        token_level, mask, np.array(ids, dtype=object), config=config, **kwargs
    )
    assert returns is advantages
    assert advantages.dtype == torch.float32
    assert torch.equal(advantages, advantages[:, :1] * mask)
    return advantages[:, 0]


def paper_rows() -> tuple[list[RolloutLabel], list[float]]:
    """The paper's case study, four strategies with 6, 4, 1, 0 of 8, beside a second prompt, rows shuffled."""
    rows = [
        (RolloutLabel(prompt, k, k * 8 + z), float(z < right))
        for prompt, counts in (("p", SUCCESSES), ("q", (1, 8, 3, 3)))
        for k, right in enumerate(counts)
        for z in range(8)
    ]
    random.Random(1).shuffle(rows)
    labels, rewards = zip(*rows, strict=True)
    return list(labels), list(rewards)


def of(labels: list[RolloutLabel], rewards: list[float], lam: float, **kwargs) -> torch.Tensor:
    prompts, subgroups = [label.prompt for label in labels], [label.subgroup for label in labels]
    return subgroup_advantages(torch.tensor(rewards), prompts, subgroups, lam, **kwargs).advantages


# Groups of two or more with two different rewards: elsewhere verl's own are not 0 where they should be.
GROUPS = st.lists(
    st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=2, max_size=9).filter(lambda g: len(set(g)) > 1),
    min_size=1,
    max_size=5,
)


@given(GROUPS, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_lam_0_is_verls_own_grpo(groups, labelled, normalised, shuffle):
    rows = [(f"uid-{g}", i, reward) for g, group in enumerate(groups) for i, reward in enumerate(group)]
    shuffle.shuffle(rows)
    uids = [uid for uid, _, _ in rows]
    ids = [RolloutLabel(uid, i % 3, i).encode() for uid, i, _ in rows] if labelled else uids
    rewards = [reward for _, _, reward in rows]
    config = {"norm_adv_by_std_in_grpo": normalised, "subgroup": {"lam": 0.0}}
    token_level, mask = tokens(rewards)
    ours, _ = compute_grpo_subgroup_advantage(token_level, mask, np.array(ids, dtype=object), config=config)
    for verls in (core_algos.compute_grpo_outcome_advantage, core_algos.compute_grpo_vectorized_outcome_advantage):
        theirs, _ = verls(token_level, mask, np.array(uids, dtype=object), norm_adv_by_std_in_grpo=normalised)
        torch.testing.assert_close(ours, theirs, rtol=3e-6, atol=3e-6)


def test_no_config_is_plain_grpo():
    values = estimate(["a", "a", "b", "b"], [1.0, 0.0, 2.0, 5.0])
    half = 1 / math.sqrt(2)
    torch.testing.assert_close(values, torch.tensor([half, -half, -half, half]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("lam", [-0.3, 0.3, 1.0])
@pytest.mark.parametrize("std", ["sample", "population", "none"])
def test_labels_give_the_subgroups(lam, std):
    labels, rewards = paper_rows()
    values = estimate([label.encode() for label in labels], rewards, settings(lam, std=std))
    assert torch.equal(values, of(labels, rewards, lam, std=std))
    assert values.unique().numel() > 6


def test_shuffled_offsets_follow_the_seed():
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    values = [estimate(ids, rewards, settings(-0.3, shuffle_offsets=True, seed=seed)) for seed in (1, 2)]
    for seed, value in zip((1, 2), values, strict=True):
        assert torch.equal(value, of(labels, rewards, -0.3, shuffle_seed=seed))
    assert not torch.equal(*values)
    assert not torch.equal(values[0], estimate(ids, rewards, settings(-0.3)))


@pytest.mark.parametrize("constant", [0.1, 0.9, 1000.1, -1.3])
def test_constant_groups_get_exactly_0_where_verls_do_not(constant):
    ids = [RolloutLabel("p", i % 4, i).encode() for i in range(32)]
    assert (estimate(ids, [constant] * 32, settings(-0.3)) == 0).all()


def test_rewards_are_summed_over_all_tokens():
    token_level = torch.tensor([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 0.0, 0.5]])
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]])
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p", "p"], {"norm_adv_by_std_in_grpo": False})
    assert advantages.tolist() == [[0.25, 0.25, 0, 0], [-0.25, 0, 0, 0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite(bad, caplog):
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    clean = estimate(ids, rewards, settings(-0.3))
    where = next(i for i, label in enumerate(labels) if label.prompt == "q")
    spoiled = list(rewards)
    spoiled[where] = bad
    STEP_METRICS.drain()
    with caplog.at_level(logging.WARNING):
        values = estimate(ids, spoiled, settings(-0.3))
        metrics = STEP_METRICS.drain()
        estimate(ids, spoiled, settings(-0.3))
    assert [record.getMessage() for record in caplog.records if "1 rows have a reward" in record.getMessage()]
    assert len(caplog.records) == 1
    assert metrics["subgroup/rows_nonfinite"] == 1
    assert metrics["subgroup/rows_masked"] == 0
    others = [i for i, label in enumerate(labels) if label.prompt != "q"]
    assert torch.equal(values[others], clean[others])
    rest = [i for i in range(len(labels)) if i != where]
    assert values[where] == 0
    torch.testing.assert_close(values[rest], of([labels[i] for i in rest], [rewards[i] for i in rest], -0.3))


def test_padding_and_masked_rows_count_in_nothing():
    labels, rewards = paper_rows()
    ids = [label.encode() for label in labels]
    clean = estimate(ids, rewards, settings(-0.3))
    token_level, mask = tokens([*rewards, 7.0, 7.0, 7.0])
    ids += ["pad0", "pad0", RolloutLabel("p", 0, 99).encode()]
    mask[-3:] = 0
    STEP_METRICS.drain()
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, np.array(ids, dtype=object), settings(-0.3))
    assert torch.equal(advantages[:-3, 0], clean)
    assert (advantages[-3:] == 0).all()
    metrics = STEP_METRICS.drain()
    assert metrics["subgroup/rows_masked"] == 3
    assert metrics["subgroup/rows_total"] == 67
    assert metrics["subgroup/rows_counted"] == 64
    assert metrics["subgroup/groups"] == 2


def test_a_row_that_begins_with_a_token_of_the_environment_counts():
    token_level = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    advantages, _ = compute_grpo_subgroup_advantage(token_level, torch.tensor([[0, 1], [1, 1]]), ["p", "p"])
    assert advantages[0].tolist() == [0, -advantages[1, 0].item()]
    assert advantages[0, 1] > 0


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("width", [0, 2])
def test_batches_without_anything_to_count(rows, width):
    zeros = torch.zeros(rows, width)
    advantages, _ = compute_grpo_subgroup_advantage(zeros, zeros.long(), ["pad"] * rows, settings(-0.3))
    assert torch.equal(advantages, zeros)


class TestSessions:
    """Sessions with several output rows."""

    def test_the_last_row_speaks_and_all_rows_get_its_advantage(self):
        singles = [
            (RolloutLabel("p", k, k * 2 + z), reward) for k, z, reward in ((0, 0, 1.0), (0, 1, 0.0), (1, 0, 0.0))
        ]
        session = [(RolloutLabel("p", 1, 3, output), reward) for output, reward in ((1, 9.0), (10, 1.0), (0, -5.0))]
        rows = [session[0], singles[0], session[1], *singles[1:], session[2]]
        values = estimate([label.encode() for label, _ in rows], [reward for _, reward in rows], settings(-0.3))
        last = [*singles, session[1]]
        expected = of([label for label, _ in last], [reward for _, reward in last], -0.3)
        assert values[[1, 3, 4]].tolist() == expected[:3].tolist()
        assert values[[0, 2, 5]].tolist() == [expected[3].item()] * 3
        metrics = STEP_METRICS.drain()
        assert metrics["subgroup/rows_total"] == 6
        assert metrics["subgroup/rows_counted"] == 4

    @pytest.mark.parametrize("reason", ["mask", "reward"])
    def test_without_its_last_row_a_session_is_left_out(self, reason):
        labels = [RolloutLabel("p", 0, 0), RolloutLabel("p", 1, 1), RolloutLabel("p", 1, 2), RolloutLabel("p", 1, 2, 1)]
        token_level, mask = tokens([1.0, 0.0, 1.0, math.nan if reason == "reward" else 1.0])
        if reason == "mask":
            mask[3] = 0
        ids = [label.encode() for label in labels]
        advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ids, settings(0.5))
        expected = of(labels[:2], [1.0, 0.0], 0.5)
        assert advantages[:, 0].tolist() == [*expected.tolist(), 0, 0]

    def test_a_spoiled_row_before_the_last_gets_0_itself(self):
        labels = [RolloutLabel("p", 0, 0), RolloutLabel("p", 1, 1), RolloutLabel("p", 1, 1, 1)]
        values = estimate([label.encode() for label in labels], [1.0, math.nan, 0.0], settings(0.5))
        assert values.tolist() == [values[0].item(), 0, -values[0].item()]
        assert values[0] > 0

    def test_equal_session_numbers_of_two_prompts_are_two_sessions(self):
        labels = [RolloutLabel(p, k, k, 0) for p in ("p", "q") for k in (0, 1)] + [RolloutLabel("p", 0, 0, 1)]
        values = estimate([label.encode() for label in labels], [0.0, 1.0, 0.0, 1.0, 2.0], settings(-0.3))
        assert values[0] == values[4] > 0 > values[1]
        assert values[3] > 0 > values[2]

    def test_lam_0_equals_what_verl_does_for_grpo(self):
        """verl's own treatment, by its keys `{uid}_{session}_{output}`, on the same rows."""
        shuffle = random.Random(5)
        labels = [RolloutLabel(p, s % 2, s, o) for p in "pq" for s in range(4) for o in range(shuffle.randint(1, 3))]
        shuffle.shuffle(labels)
        rewards = [float(shuffle.randint(0, 4)) for _ in labels]
        token_level, mask = tokens(rewards)
        keys = [f"{label.prompt}_{label.session}_{label.output}" for label in labels]
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask},
            non_tensors={"uid": np.array([label.prompt for label in labels], dtype=object)},
        )
        expected = compute_advantage_for_multi_trajectories(data, keys, core_algos.AdvantageEstimator.GRPO)
        values = estimate([label.encode() for label in labels], rewards, settings(0.0))
        torch.testing.assert_close(values, expected.batch["advantages"][:, 0], rtol=3e-6, atol=3e-6)


class TestWhereSubgroupsComeFrom:
    def test_explicit_ids_win_over_labels(self):
        labels, rewards = paper_rows()
        explicit = [label.session % 3 for label in labels]
        others = {"non_tensor_batch": {"subgroup_id": np.array(explicit, dtype=object)}, "batch": None, "unknown": 1}
        values = estimate([label.encode() for label in labels], rewards, settings(-0.3), **others)
        renamed = [RolloutLabel(label.prompt, e, label.session) for label, e in zip(labels, explicit, strict=True)]
        assert torch.equal(values, of(renamed, rewards, -0.3))
        assert not torch.equal(values, of(labels, rewards, -0.3))

    def test_explicit_ids_serve_plain_uids(self):
        labels, rewards = paper_rows()
        explicit = np.array([label.subgroup for label in labels])
        values = estimate(
            [label.prompt for label in labels],
            rewards,
            settings(-0.3, shuffle_offsets=True),
            non_tensor_batch={"subgroup_id": explicit},
        )
        assert torch.equal(values, of(labels, rewards, -0.3, shuffle_seed=0))

    def test_explicit_ids_of_another_length_are_refused(self):
        with pytest.raises(ValueError, match=r"subgroup_id'\] must have one id per row: got 1 for 2 rows"):
            estimate(["p", "p"], [0.0, 1.0], settings(0.3), non_tensor_batch={"subgroup_id": [1]})

    def test_lam_without_labels_says_how_to_supply_them(self):
        with pytest.raises(ValueError) as error:
            estimate(["p", "p"], [0.0, 1.0], settings(0.3), non_tensor_batch={})
        for part in (
            "lam=0.3",
            "none of the 2 rows",
            "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=subgroup_offset.rollout.StrategyAgentLoopManager",
            "`subgroup_id`",
            "lam=0 ",
        ):
            assert part in str(error.value)

    def test_partly_labelled_batches_are_refused_with_counts(self):
        ids = [RolloutLabel("p", 0, 0).encode(), "p", "q"]
        with pytest.raises(ValueError, match="2 of 3 rows carry no label"):
            estimate(ids, [0.0, 1.0, 1.0], settings(0.3))

    def test_partly_labelled_batches_are_grpo_at_lam_0(self):
        values = estimate([RolloutLabel("p", 0, 0).encode(), "p", "p"], [1.0, 0.0, 0.0], settings(0.0))
        expected = of([RolloutLabel("p", 0, 0)] * 3, [1.0, 0.0, 0.0], 0.0)
        assert torch.equal(values, expected)

    def test_malformed_labels_are_refused(self):
        with pytest.raises(ValueError, match="malformed rollout label"):
            estimate(["sgo1:p#0.0.-.i0", "sgo1:p"], [0.0, 1.0], settings(0.3))


@pytest.mark.parametrize(
    ("rewards", "mask", "index", "match"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), ["p", "p"], "must both be"),
        (torch.zeros(2), torch.zeros(2), ["p", "p"], "must both be"),
        (torch.zeros(2, 3), torch.zeros(2, 3), ["p"], "got 1 ids for 2 rows"),
    ],
)
def test_shapes_are_checked(rewards, mask, index, match):
    with pytest.raises(ValueError, match=match):
        compute_grpo_subgroup_advantage(rewards, mask, index)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32, torch.float64, torch.bfloat16])
def test_masks_of_any_type(dtype):
    token_level, mask = tokens([1.0, 0.0, 0.5], dtype)
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p"] * 3)
    expected = of([RolloutLabel("p", 0, 0)] * 3, [1.0, 0.0, 0.5], 0.0)[:, None] * mask.float()
    assert advantages.dtype == torch.float32
    assert torch.equal(advantages, expected)
    assert torch.equal(mask, tokens([0.0] * 3, dtype)[1])


def large_allocations(estimator, mask_dtype: torch.dtype, first_token: int) -> list[int]:
    """Sizes in bytes of what an estimator allocates, as large as the (B, T) matrix of bools or larger."""
    rows, width = 64, 50_000
    token_level = torch.zeros(rows, width)
    token_level[:32, -1] = 1
    mask = torch.ones(rows, width, dtype=mask_dtype)
    mask[:, 0] = first_token
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        kept = estimator(token_level, mask, np.array(["p"] * rows, dtype=object))
    del kept
    # The raw records: per operator, the profiler nets what was allocated against what was freed meanwhile.
    events = record.profiler.kineto_results.events()
    return [e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() >= rows * width]


@pytest.mark.parametrize("mask_dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize("first_token", [0, 1])
def test_the_result_is_the_only_large_allocation(mask_dtype, first_token):
    ours = partial(compute_grpo_subgroup_advantage, config=settings(0.0))
    assert large_allocations(ours, mask_dtype, first_token) == [64 * 50_000 * 4]


def test_the_measure_of_allocations_sees_verls_two():
    verls = core_algos.compute_grpo_vectorized_outcome_advantage
    assert large_allocations(verls, torch.int64, 1) == [64 * 50_000 * 4] * 2


def test_inputs_stay_as_they_are_and_no_gradient_is_kept():
    token_level, mask = tokens([1.0, 0.0])
    token_level.requires_grad_()
    before = token_level.detach().clone()
    advantages, _ = compute_grpo_subgroup_advantage(token_level, mask, ["p", "p"])
    assert torch.equal(token_level, before)
    assert not advantages.requires_grad


class TestInVerl:
    """Through verl's own dispatch, as its trainer calls it."""

    @pytest.mark.parametrize("kind", ["DictConfig", "AlgoConfig"])
    def test_compute_advantage(self, kind):
        estimators.register()
        labels, rewards = paper_rows()
        token_level, mask = tokens(rewards)
        uid = np.array([label.encode() for label in labels], dtype=object)
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask}, non_tensors={"uid": uid}
        )
        config = OmegaConf.create({"adv_estimator": "grpo_subgroup", "lam": 1.0, **settings(-0.3)})
        if kind == "AlgoConfig":
            config = AlgoConfig(adv_estimator="grpo_subgroup")
            expected = of(labels, rewards, 0.0)
        else:
            expected = of(labels, rewards, -0.3)
        data = compute_advantage(data, adv_estimator="grpo_subgroup", config=config)
        assert torch.equal(data.batch["advantages"], expected[:, None] * mask)
        assert torch.equal(data.batch["returns"], data.batch["advantages"])
        assert STEP_METRICS.drain()["subgroup/groups"] == 2

    def test_through_the_v1_trainers_multi_output_path(self):
        estimators.register()
        labels = [RolloutLabel("p", 0, 0, 1), RolloutLabel("p", 1, 1), RolloutLabel("p", 0, 0, 0)]
        token_level, mask = tokens([1.0, 0.0, 0.0])
        uid = np.array([label.encode() for label in labels], dtype=object)
        data = DataProto.from_dict(
            {"token_level_rewards": token_level, "response_mask": mask}, non_tensors={"uid": uid}
        )
        keys = ["p_0_1", "p_1_0", "p_0_0"]
        config = OmegaConf.create(settings(-0.3))
        data = compute_advantage_for_multi_trajectories(data, keys, "grpo_subgroup", config=config)
        values = data.batch["advantages"][:, 0]
        assert values[0] == values[2] == -values[1] > 0

    def test_registering_twice_changes_nothing(self):
        estimators.register()
        estimators.register()
        assert core_algos.get_adv_estimator_fn("grpo_subgroup") is compute_grpo_subgroup_advantage

    def test_importing_the_module_does_not_import_verl(self):
        code = "import sys, subgroup_offset.estimators; print('verl' in sys.modules, 'ray' in sys.modules)"
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
        assert output.split() == ["False", "False"]

"""Methods by their configs, runs by their seeds, and what is compared with what."""

import pytest
from report_runs import write_run

from subgroup_offset.reports.groups import group_runs
from subgroup_offset.reports.methods import model_name
from subgroup_offset.reports.runs import load_runs

SHUFFLE = "algorithm__subgroup__shuffle_offsets"
METHOD, NAME = "algorithm__subgroup__method", "algorithm__subgroup__name"
TEMPERATURE = "algorithm__subgroup__strategy__temperature"
SELECTION = "algorithm__subgroup__strategy__selection"
LR = "actor_rollout_ref__actor__optim__lr"


@pytest.fixture
def sections(tmp_path):
    """Makes runs, given as (name, lam, seed, changes), and groups them."""

    def make(*runs):
        for name, lam, seed, changes in runs:
            write_run(tmp_path / name, lam=lam, seed=seed, steps=1, records=False, dumps=False, changes=changes)
        return group_runs(load_runs([tmp_path / name for name, *_ in runs]))

    return make


def labels(section):
    return [group.label for group in section.groups]


@pytest.mark.parametrize(
    ("lam", "changes", "label", "direction"),
    [
        (None, {}, "grpo", "grpo"),
        (None, {"algorithm__adv_estimator": "grpo"}, "grpo", "grpo"),
        (None, {"algorithm__adv_estimator": "rloo"}, "rloo", "other"),
        (None, {"algorithm__subgroup__lam": 0.3}, "grpo (lam=0.3 without subgroups)", "grpo"),
        (0.0, {}, "strategy_grpo", "anchor"),
        (0, {"algorithm__subgroup__name": "contrast"}, "strategy_grpo", "anchor"),  # a sweep over lam
        (0.3, {}, "alignment (lam=+0.3)", "alignment"),
        (-0.5, {}, "contrast (lam=-0.5)", "contrast"),
        (-0.3, {SHUFFLE: True}, "contrast (lam=-0.3) + shuffle", "contrast"),
        (0.3, {TEMPERATURE: 0.7, SELECTION: "random"}, "alignment (lam=+0.3) + T=0.7 + random", "alignment"),
        (None, {"algorithm__subgroup__lam": 1, "algorithm__subgroup__partition": "length"},
         "alignment (lam=+1) by length", "alignment"),
        (0.0, {"algorithm__adv_estimator": "grpo"}, "strategy_grpo", "anchor"),  # taken over at the start of the run
        (0.0, {"algorithm__adv_estimator": "rloo"}, "rloo on strategy rollouts", "other"),
        (0.0, {"algorithm__subgroup__lam": "${oc.env:LAM}"}, "run (lam=${oc.env:LAM})", "other"),
        (0.0, {"algorithm__subgroup__lam": {"budget": 0.05}}, "run (lam=budget=0.05)", "other"),
        (-0.3, {METHOD: {"oc_grpo": {"gamma": 1.0}, "gapo": {}}}, "gapo+oc_grpo, lam=-0.3", "method"),
        (0.0, {METHOD: {"oc_grpo": {"gamma": 1.0}}, NAME: "oc_grpo"}, "oc_grpo", "method"),
        (None, {METHOD: {"f_grpo": {"gamma": 1.0}}}, "f_grpo", "method"),
        (0.3, {METHOD: {}, NAME: "alignment_shuffled", SHUFFLE: True}, "alignment (lam=+0.3) + shuffle", "alignment"),
        (-0.1, {NAME: "gentle"}, "gentle, lam=-0.1", "method"),
        (-0.1, {NAME: "contrast_mine"}, "contrast_mine, lam=-0.1", "method"),
    ],
)  # fmt: skip
def test_the_config_decides_the_method(sections, lam, changes, label, direction):
    (section,) = sections(("run", lam, 1, changes))
    assert labels(section) == [label]
    assert section.groups[0].method.direction == direction


def test_runs_that_differ_only_in_seeds_and_places_are_one_group(sections):
    seeds = {"algorithm__subgroup__seed": 7, "actor_rollout_ref__actor__data_loader_seed": 7}
    (section,) = sections(("a", 0.3, 1, {}), ("b", 0.3, 2, {**seeds, "trainer__logger": ["file"]}), ("c", 0.0, 1, {}))
    assert [(group.label, [run.name for run in group.runs]) for group in section.groups] == [
        ("strategy_grpo", ["c"]),
        ("alignment (lam=+0.3)", ["a", "b"]),
    ]


def test_another_setting_makes_another_group_that_is_called_by_its_run(sections):
    (section,) = sections(("a", 0.3, 1, {}), ("b", 0.3, 2, {LR: 1e-5}))
    assert labels(section) == ["alignment (lam=+0.3) [a]", "alignment (lam=+0.3) [b]"]


def test_the_order_is_table_1s(sections):
    runs = [(f"r{i}", lam, 1, {}) for i, lam in enumerate((-0.3, 0.5, 0.3, 0.0, None, -0.7))]
    (section,) = sections(*runs)
    assert [group.method.lam for group in section.groups] == [None, 0, 0.3, 0.5, -0.3, -0.7]
    assert [group.style for group in section.groups] == [0, 1, 2, 3, 4, 5]


def test_the_anchor_is_the_same_with_lam_0(sections):
    (section,) = sections(
        ("plain", None, 1, {}),
        ("zero", 0.0, 1, {}),
        ("zero-lr", 0.0, 1, {LR: 1e-5}),
        ("contrast-lr", -0.3, 1, {LR: 1e-5}),
        ("shuffled", -0.3, 1, {SHUFFLE: True}),
        ("cool", -0.3, 1, {TEMPERATURE: 0.7}),
    )
    anchors = {group.runs[0].name: section.anchor(group) for group in section.groups}
    assert anchors["plain"] is anchors["zero"] is anchors["zero-lr"] is None
    names = {name: (a.group.runs[0].name, a.note) for name, a in anchors.items() if a}
    assert names["contrast-lr"] == ("zero-lr", "")
    assert names["shuffled"] == ("zero", "")
    assert names["cool"] == ("zero", "which also differs in algorithm.subgroup.strategy.temperature")


def test_a_method_at_lam_0_is_compared_with_the_papers_and_else_with_itself(sections):
    gapo = {METHOD: {"gapo": {"beta": 0.5}}}
    (section,) = sections(("zero", 0.0, 1, {}), ("gapo", 0.0, 1, gapo), ("both", -0.3, 1, gapo), ("c", -0.3, 1, {}))
    anchors = {group.label: section.anchor(group) for group in section.groups}
    assert {label: (a.group.label, a.note) for label, a in anchors.items() if a} == {
        "contrast (lam=-0.3)": ("strategy_grpo", ""),
        "gapo": ("strategy_grpo", "which also differs in algorithm.subgroup.method.gapo.beta"),
        "gapo, lam=-0.3": ("gapo", ""),
    }
    assert [[group.label for group in family] for family in section.families()] == [
        ["contrast (lam=-0.3)", "strategy_grpo"], ["gapo, lam=-0.3", "gapo"],
    ]  # fmt: skip


def test_contrast_is_not_compared_with_another_papers_method(sections):
    (section,) = sections(("c", -0.3, 1, {}), ("oc", 0.0, 1, {METHOD: {"oc_grpo": {"gamma": 1.0}}}))
    assert [section.anchor(group) for group in section.groups] == [None, None]


def test_without_lam_0_the_first_run_given_is_the_anchor(sections):
    (section,) = sections(("a", -0.3, 1, {}), ("b", 0.3, 1, {}))
    alignment, contrast = section.groups
    anchor = section.anchor(alignment)
    assert anchor.group is contrast and "none with lam = 0" in anchor.note
    assert section.anchor(contrast) is None


def test_families_differ_only_in_lam(sections):
    (section,) = sections(
        *((f"{lam}", lam, 1, {}) for lam in (0.3, 0.0, -0.3)),
        ("shuffled", -0.3, 1, {SHUFFLE: True}),
        ("cool", -0.3, 1, {TEMPERATURE: 0.7}),
        ("cool+", 0.3, 1, {TEMPERATURE: 0.7}),
        ("plain", None, 1, {}),
    )
    assert [[group.method.lam for group in family] for family in section.families()] == [[-0.3, 0, 0.3]]


def test_ablations_stand_beside_their_base_and_leave_the_main_table(sections):
    (section,) = sections(
        ("zero", 0.0, 1, {}),
        ("base", -0.3, 1, {}),
        ("shuffled", -0.3, 1, {SHUFFLE: True}),
        ("cool", -0.3, 1, {TEMPERATURE: 0.7}),
        ("random", -0.3, 1, {SELECTION: "random"}),
        ("orphan", 0.3, 1, {SHUFFLE: True}),
        ("both", -0.3, 1, {SHUFFLE: True, LR: 1e-5}),
    )
    (shuffle,) = section.shuffle_ablations()
    assert shuffle.base.runs[0].name == "base"
    assert [(change, group.runs[0].name) for change, group in shuffle.variants] == [("+ shuffle", "shuffled")]
    (sampling,) = section.strategy_ablations()
    assert [change for change, _ in sampling.variants] == ["+ T=0.7", "+ random"]
    assert {group.runs[0].name for group in section.headline()} == {"zero", "base", "orphan", "both"}


def test_models_are_sections(sections):
    path = "actor_rollout_ref__model__path"
    found = sections(("a", 0.0, 1, {}), ("b", 0.0, 1, {path: "x/model"}), ("c", 0.0, 1, {path: "y/x/model"}))
    assert [section.name for section in found] == ["Tiny-1B", "x/model", "y/x/model"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Qwen/Qwen3-8B-Base", "Qwen3-8B-Base"),
        ("/models/Qwen3-8B-Base/", "Qwen3-8B-Base"),
        ("/cache/toy-1/model", "toy-1/model"),
        ("/c/hub/models--Qwen--Qwen3-8B-Base/snapshots/0123abc", "Qwen/Qwen3-8B-Base"),
        ("model", "model"),
    ],
)
def test_model_names(path, name):
    assert model_name(path) == name

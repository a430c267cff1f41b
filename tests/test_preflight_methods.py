"""Checks before a run of what a method and the rest of the config ask of each other."""

from __future__ import annotations

import pytest
from preflight_configs import changed

from subgroup_offset.config import ConfigError
from subgroup_offset.preflight import check_run

ACTOR, ROLLOUT, METHOD = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm.subgroup.method"
LOSS = f"{ACTOR}.policy_loss.loss_mode"
GAPO = {f"{METHOD}.gapo.bound": "count", LOSS: "subgroup_gapo", f"{ACTOR}.ppo_mini_batch_size": 256}
OC = {f"{METHOD}.oc_grpo.gamma": 1.0, f"{ROLLOUT}.calculate_log_probs": True}
MANAGER = f"{ROLLOUT}.agent.agent_loop_manager_class"
VERLS = {MANAGER: None, "algorithm.subgroup.lam": 0.0}

REFUSED = [
    (
        GAPO | {LOSS: "vanilla"},
        r"method\.gapo acts in its own policy loss, but .*loss_mode=vanilla: set it to subgroup_",
    ),
    ({LOSS: "subgroup_gapo"}, r"loss_mode=subgroup_gapo needs the method that it belongs to"),
    ({LOSS: "subgroup_gapa"}, r"loss_mode=subgroup_gapa is not registered with verl.*did you mean subgroup_gapo"),
    (GAPO | {f"{ACTOR}.ppo_mini_batch_size": 1024}, r"ppo_mini_batch_size=1024 is the whole batch .*never acts"),
    (
        GAPO | {"algorithm.rollout_correction.rollout_is": "token"},
        r"rollout_is=token and .*gapo cannot be used together",
    ),
    (GAPO | {"distillation.enabled": True}, r"distillation\.enabled=True and .*gapo cannot be used together"),
    (
        GAPO | {f"{ACTOR}.clip_ratio_low": 0.3, f"{ACTOR}.clip_ratio_high": 0.2},
        r"clip_ratio_high=0\.2, .* is below .*clip_ratio_low=0\.3",
    ),
    (GAPO | {f"{METHOD}.gapo.bound": "advantage"}, r"gapo\.bound=advantage reads .*std=sample divides it"),
    (GAPO | VERLS, r"method\.gapo finds its rows by their labels.*partition=none"),
    (OC | {f"{ROLLOUT}.calculate_log_probs": False}, r"oc_grpo compares with .*calculate_log_probs=False keeps none"),
    (OC | {"algorithm.rollout_correction.bypass_mode": True}, r"bypass_mode=True takes .*oc_grpo would compare them"),
    (OC | {"algorithm.rollout_correction.rollout_is": "token"}, r"rollout_is=token and .*oc_grpo cannot be used tog"),
    (OC | {"algorithm.subgroup.partition": "length"}, r"method\.oc_grpo trains rollouts .* this run samples none"),
    ({"algorithm.subgroup.context": "plain"} | VERLS, r"context=plain trains rollouts .* this run samples none"),
    ({"algorithm.subgroup.context": "plain", f"{ROLLOUT}.enable_rollout_routing_replay": True}, r"router replay"),
    ({f"{METHOD}.rcc.form": "linear"}, r"rcc compares with the reference policy, and .*use_kl_loss=False has none"),
    (
        {f"{METHOD}.stratified.alpha": 0.8},
        r"lam=-0\.3 and algorithm\.subgroup\.method\.stratified cannot be used together",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_run(changed(changes))


@pytest.mark.parametrize(
    "changes",
    [
        GAPO,
        GAPO | {f"{ACTOR}.ppo_mini_batch_size": 1024, f"{ACTOR}.ppo_epochs": 2},
        GAPO | OC,
        GAPO | {f"{METHOD}.gapo.bound": "advantage", "algorithm.subgroup.std": "none"},
        OC,
        {"algorithm.subgroup.context": "plain"},
        {f"{METHOD}.rcc.form": "linear", f"{ACTOR}.use_kl_loss": True},
        {f"{METHOD}.reco.variance": True, LOSS: "subgroup_reco"},
        {"algorithm.subgroup.lam": "auto"},
        {"algorithm.subgroup.lam": {"budget": 0.05}},
    ],
)
def test_accepted(changes):
    check_run(changed(changes))


def test_renormalised_log_probabilities_are_warned_about(caplog):
    check_run(changed(OC | {f"{ROLLOUT}.top_p": 0.95}))
    assert "top_p=0.95" in caplog.text and "oc_grpo" in caplog.text


def test_a_tokens_bounds_for_sequences_are_warned_about(caplog):
    sequence = GAPO | {LOSS: "subgroup_gapo_seq", f"{ACTOR}.clip_ratio_low": 0.003, f"{ACTOR}.clip_ratio_high": 0.005}
    check_run(changed(sequence))
    assert "thousandths" not in caplog.text
    check_run(changed(sequence | {f"{ACTOR}.clip_ratio_high": 0.28}))
    assert "clip_ratio_high=0.28 is a bound for ratios of tokens" in caplog.text


def test_verls_weights_under_the_plain_prompt_are_warned_about(caplog):
    correction = {"algorithm.rollout_correction.rollout_is": "token", f"{ROLLOUT}.calculate_log_probs": True}
    check_run(changed({"algorithm.subgroup.context": "plain"} | correction))
    assert "rollout_is=token with algorithm.subgroup.context=plain" in caplog.text


def test_a_run_is_told_that_verls_comparison_is_large_by_design(capsys):
    check_run(changed(OC))
    assert "training/rollout_probs_diff_*" in capsys.readouterr().out

"""Run directories as verl, the plugin and the sweep leave them, made in a moment: for the tests of the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

MANAGER = "subgroup_offset.rollout.StrategyAgentLoopManager"
K = Z = 4
PREVIEW = "[KEY CONDITIONS]\n- two numbers\n[KEY IDEA]\n- idea {}\n- then compute"


def config(directory: Path, lam: float | None = 0.0, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """A composed config, cut down: what decides a method, seeds, places of outputs and an interpolation.

    Args:
        directory: of the run.
        lam: None gives plain GRPO.
        seed: of the data.
        changes: dotted keys, ``__`` for the dots.
    """
    subgroup: dict[str, Any] = {"name": "strategy_grpo", "lam": lam or 0.0}
    rollout: dict[str, Any] = {"n": K * Z, "agent": {"agent_loop_manager_class": None}}
    if lam is not None:
        subgroup["strategy"] = {
            "num_strategies": K,
            "rollouts_per_strategy": Z,
            "data_dir": str(directory / "strategy"),
        }
        rollout["agent"]["agent_loop_manager_class"] = MANAGER
    made = {
        "algorithm": {"adv_estimator": "grpo_subgroup", "subgroup": subgroup},
        "data": {
            "seed": seed,
            "max_response_length": 32,
            "train_batch_size": 16,
            "train_files": ["a.parquet", "b.parquet"],
        },
        "actor_rollout_ref": {
            "model": {"path": "hub/Tiny-1B"},
            "actor": {"rollout_n": "${actor_rollout_ref.rollout.n}", "optim": {"lr": 1e-6}},
            "rollout": rollout,
        },
        "trainer": {
            "project_name": "project",
            "experiment_name": directory.name,
            "total_training_steps": 6,
            "rollout_data_dir": str(directory / "rollouts"),
            "default_local_dir": str(directory / "checkpoints"),
        },
    }
    for key, value in changes.items():
        *parents, last = key.split("__")
        section = made
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return made


def metrics(step: int, lam: float | None, bias: float = 0.0) -> dict[str, float]:
    """What verl and the plugin log for a step, under their names."""
    values = {
        "actor/entropy": 0.5 - 0.03 * step + bias,
        "critic/score/mean": -0.4 + 0.1 * step + bias,
        "response_length/mean": 15.0 + step,
        # verl counts those as long as the longest; only in the last step one of them is as long as it may be.
        "response_length/clip_ratio": 0.1,
        "response_length/max": 32.0 if step == 6 else 26.0,
        "timing_s/gen": 6.0,
        "timing_s/step": 36.0 if step == 1 else 18.0,
        "training/global_step": step,
        "subgroup/term_ratio": abs(lam or 0.0) * (0.7 - 0.01 * step),
    }
    if lam is not None:
        values |= {
            "subgroup/informative_share": 0.8 - 0.02 * step + bias,
            "subgroup/abs_offset": 0.45,
            "subgroup/success_rate": 0.3 + 0.1 * step + bias,
            "strategy/token_share": 0.25,
            "strategy/seconds_mean": 1.5,
            "strategy/seconds_max": 2.5 + step,
            "strategy/usable_per_candidate": 0.97,
            "strategy/empty_slots": 0.01,
            "strategy/jaccard_distance": 0.85,
            "strategy/duplicate_previews": 1.0,
            "strategy/failed_requests": 1.0,
            "strategy/skipped_prompts": 0.0,
            "strategy/overlong_prompts": 0.0,
            "strategy/echoed_previews": 2.0,
            "rollout/lost_prompts": 1.0,
            "rollout/worker_restarts": 3.0,
        }
    return values


def validation(accuracy: float) -> dict[str, float]:
    """What verl's validation adds."""
    core = "val-core/math_dapo/acc"
    return {f"{core}/mean@8": accuracy, f"{core}/best@8/mean": accuracy + 0.2, f"{core}/best@8/std": 0.05}


def write_run(
    directory: Path,
    *,
    lam: float | None = 0.0,
    seed: int = 1,
    steps: int = 6,
    bias: float = 0.0,
    accuracy: float | None = 0.5,
    pass_rate: float | None = None,
    records: bool = True,
    dumps: bool = True,
    text: str = "an output",
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """A run's directory as :class:`~subgroup_offset.cluster.launch.TrainingRun` makes it.

    Args:
        directory: made here.
        lam: None for plain GRPO.
        seed: of the data.
        steps: how many are logged, of the 6 that are to be.
        bias: added to what is logged.
        accuracy: of the last validation; None: none was logged.
        pass_rate: share of right samples in the evaluation; None: no evaluation.
        records: whether the strategy stage left its records.
        dumps: whether verl dumped rollouts.
        text: what the rollouts say.
        changes: of the config, see :func:`config`.
    """
    directory.mkdir(parents=True)
    made = config(directory, lam, seed, **(changes or {}))
    write_hydra(directory / "hydra" / ".hydra", made, [f"algorithm.subgroup.lam={lam}", f"data.seed={seed}"])
    lines = [{"step": 0, "data": validation(0.3)}] if accuracy is not None else []
    lines += [{"step": step, "data": metrics(step, lam, bias)} for step in range(1, steps + 1)]
    if accuracy is not None and steps:
        lines[-1]["data"] |= validation(accuracy)
    write_lines(directory / "metrics.jsonl", lines)
    for step in range(1, steps + 1):
        if lam is not None and records:
            write_lines(directory / "strategy" / f"{step}.jsonl", [record(step, i) for i in range(6)])
        if dumps:
            rows = [row for i in range(6) for row in rollouts(step, i, text)]
            write_lines(directory / "rollouts" / f"{step}.jsonl", rows)
    if pass_rate is not None:
        write_lines(directory / "evaluation" / "graded.jsonl", graded(pass_rate))
    return directory


def write_hydra(directory: Path, made: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Hydra's own record of a run."""
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(yaml.safe_dump(dict(made)))
    (directory / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    (directory / "hydra.yaml").write_text(yaml.safe_dump({"hydra": {"runtime": {"cwd": str(directory)}}}))


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]], end: str = "\n") -> None:
    """A JSONL file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + end, "utf-8")


def record(step: int, i: int) -> dict[str, Any]:
    """The strategy stage's record of prompt ``i``; its subgroups' success rates span ``min(i, 4) / 4``."""
    wins = (min(i, Z), 0, 0, 0)
    slots = [
        {
            "subgroup": k,
            "preview": PREVIEW.format(k) if k else None,
            "successes": won,
            "rollouts": Z,
            "rewards": [1.0] * won + [-1.0] * (Z - won),
        }
        for k, won in enumerate(wins)
    ]
    return {
        "step": step,
        "uid": f"prompt{step}{i}",
        "index": i,
        "problem": f"Problem {i} of step {step}",
        "seconds": 1.5,
        "status": "finished",
        "slots": slots,
        "candidates": [],
    }


def rollouts(step: int, i: int, text: str) -> list[dict[str, Any]]:
    """verl's dump of the rollouts of prompt ``i``, in agreement with :func:`record`."""
    rows = []
    for session in range(K * Z):
        slot, z = divmod(session, Z)
        won = slot == 0 and z < min(i, Z)
        preview = f"\n{PREVIEW.format(slot)}" if slot else ""
        rows.append(
            {
                "input": f"user\nProblem {i} of step {step}{preview}\nassistant\n",
                "output": f"{text} of session {session}",
                "gts": "1",
                "score": 1.0 if won else -1.0,
                "step": step,
                "uid": f"prompt{step}{i}_{session}_0",
            }
        )
    return rows


def graded(rate: float, samples: int = 4, replicas: int = 2, problems: int = 5) -> list[dict[str, Any]]:
    """Graded samples of two benchmarks: of each problem's samples the first ``rate`` are right, in every replica."""
    return [
        {
            "benchmark": benchmark,
            "problem": f"{benchmark}-{problem}",
            "replica": replica,
            "sample": sample,
            "correct": problem * samples + sample < rate * samples * problems,
        }
        for benchmark in ("aime24", "hmmt25")
        for problem in range(problems)
        for replica in range(replicas)
        for sample in range(samples)
    ]

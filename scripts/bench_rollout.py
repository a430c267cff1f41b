"""What the strategy stage costs: single-stage rollouts, two stages with a barrier over the batch, and this package.

    python scripts/bench_rollout.py OUTPUT                     # seconds, one replica
    python scripts/bench_rollout.py OUTPUT --what cache        # prefix-cache hits by affinity, two replicas
    python scripts/bench_rollout.py OUTPUT --what templates    # the same with the built-in templates, and another order

One real run of ``verl.trainer.main_ppo`` on the toy world takes the ways in turn, several rounds of them, with the same
spread of response lengths (``bench_rollout_worker.py``); the first round warms up and is left out. Each way's seconds
are divided by those of single-stage rollouts in the same round; the table shows the median over rounds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from bench_rollout_worker import VARIABLE, WAYS, Workload

from subgroup_offset.cluster.launch import LoggedStep, TrainingRun

COST, CACHE = ("single", "barrier", "package"), ("none", "subgroup", "prompt")
ORDERS = ("none", "subgroup", "prompt", "preview first")
#: The toy's model knows its own short templates only: with the built-in ones its previews are made up.
PREVIEW_WORDS = 40
BUILT_IN = [f"algorithm.subgroup.strategy.{name}_template=null" for name in ("strategy", "execution")]
SCRIPTS = Path(__file__).resolve().parent


def overrides_of(load: Workload, toy: Path, directory: Path, replicas: int, steps: int, seqs: int) -> list[str]:
    """Hydra arguments of the run."""
    loops = directory / "loops.yaml"
    loops.write_text("- name: spread\n  _target_: bench_rollout_worker.SpreadAgentLoop\n")
    rollout = "actor_rollout_ref.rollout"
    return [
        "--config-name=contrast",
        "+experiment=toy",
        "+platform=cpu",
        f"toy_dir={toy}",
        f"data.train_batch_size={load.prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={load.prompts}",
        f"data.max_response_length={load.longest}",
        f"data.max_prompt_length={1536 if load.preview_words else 160}",
        *(BUILT_IN if load.preview_words else []),
        # Rollouts only: the same model throughout.
        f"trainer.critic_warmup={steps + 1}",
        "algorithm.rollout_correction.bypass_mode=True",
        f"{rollout}.calculate_log_probs=True",
        f"{rollout}.max_num_seqs={seqs}",
        f"{rollout}.disable_log_stats=False",
        f"+{rollout}.engine_kwargs.vllm.block_size=16",  # the toy's prompts are shorter than a default block
        f"{rollout}.agent.agent_loop_manager_class=bench_rollout_worker.BenchManager",
        f"{rollout}.agent.default_agent_loop=spread",
        f"{rollout}.agent.agent_loop_config_path={loops}",
        f"ray_kwargs.ray_init.num_gpus={replicas}",
        f"trainer.n_gpus_per_node={replicas}",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH='{SCRIPTS}'",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.{VARIABLE}='{load.to_text()}'",
        f"trainer.total_training_steps={steps}",
        "trainer.val_before_train=False",
    ]


def table_of(load: Workload, steps: list[LoggedStep]) -> pd.DataFrame:
    """(rounds x ways) measurements, one row each, without the first round."""
    rows = []
    for step in steps:
        m = step.metrics
        way = WAYS[int(m["bench/way"])]
        if way != load.way_of(step.step):
            raise ValueError(f"step {step.step} was rolled out as {way}, not as {load.way_of(step.step)}")
        asked, had = m["bench/cache_queries"], m["bench/cache_hits"]
        rows.append(
            {
                "round": load.round_of(step.step),
                "way": way,
                "seconds": m["bench/seconds"],
                "strategy tokens": m.get("strategy/token_share", 0.0),
                "stage seconds, mean": m["strategy/seconds_mean"],
                "stage seconds, last": m["strategy/seconds_max"],
                "prompt tokens": asked,
                "cache hits": had / asked if asked else float("nan"),
            }
        )
    frame = pd.DataFrame(rows)
    return frame[frame["round"] > 0]


def report(load: Workload, frame: pd.DataFrame) -> str:
    """Medians over the rounds, as text; ratios are taken inside each round."""
    by_round = frame.pivot(index="round", columns="way", values="seconds")
    ratios = by_round.div(by_round[load.ways[0]], axis=0)
    summary = frame.groupby("way").median().loc[list(load.ways)].drop(columns="round")
    summary.insert(1, f"seconds / {load.ways[0]}", ratios.median())
    summary.insert(2, "lowest", ratios.min())
    summary.insert(3, "highest", ratios.max())
    text = summary.round(3).to_string()
    if set(COST) <= set(load.ways):
        added = by_round.sub(by_round["single"], axis=0).sum()
        share = added["package"] / added["barrier"]
        text += f"\nwall-clock added over single, package / barrier (sums over rounds): {share:.2f}"
    return text


def main(
    output: Path,
    what: Annotated[str, typer.Option(help="cost, cache or templates.")] = "cost",
    rounds: Annotated[int, typer.Option(min=2)] = 6,
    prompts: Annotated[int, typer.Option(min=2)] = 32,
    median: Annotated[float, typer.Option(help="Tokens of a response, median.")] = 64,
    sigma: Annotated[float, typer.Option(help="Of the log-normal lengths.")] = 0.8,
    longest: Annotated[int, typer.Option(help="Tokens of the longest response.")] = 320,
    drift: Annotated[float, typer.Option(help="Share of candidates that go on until max_tokens.")] = 0.0,
    seqs: Annotated[int, typer.Option(help="Sequences an engine runs at once.")] = 128,
    data: Annotated[Path | None, typer.Option(help="Prompts (subgroup-offset data) instead of the toy's.")] = None,
) -> None:
    """Run the bench and print its table."""
    from subgroup_offset.toy import build_toy

    ways, replicas = {"cost": (COST, 1), "cache": (CACHE, 2), "templates": (ORDERS, 2)}[what]
    words = PREVIEW_WORDS if what == "templates" else 0
    load = Workload(ways, prompts, median, sigma, longest, drift, words)
    output.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(SCRIPTS)  # the driver looks the classes up as well
    steps = rounds * len(ways)
    overrides = overrides_of(load, build_toy().root, output.resolve(), replicas, steps, seqs)
    run = TrainingRun(output, [*overrides, *([f"data.train_files={data.resolve()}"] if data else [])])
    done = []
    for step in run.follow():
        done.append(step)
        print(f"{step.step}/{steps} {load.way_of(step.step)} {step.metrics['bench/seconds']:.2f} s", flush=True)
    print(load.to_text(), f"max_num_seqs={seqs}")
    print(report(load, table_of(load, done)))


if __name__ == "__main__":
    typer.run(main)

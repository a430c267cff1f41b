"""Two Ray nodes on this machine: one logical GPU each, two FSDP ranks, two vLLM replicas.

    python scripts/two_nodes_cpu.py OUTPUT [--steps 2] [OVERRIDE...]

What it starts it ends, by process; other Ray clusters of this machine are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from ray.cluster_utils import Cluster

from subgroup_offset.cluster.launch import LoggedStep, TrainingRun

NODE = {"num_cpus": 8, "num_gpus": 1, "object_store_memory": 10**9}


@contextmanager
def two_node_cluster() -> Iterator[list[str]]:
    """Start two Ray nodes; yields the overrides with which a run uses both. They end with the block."""
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        yield [
            "trainer.nnodes=2",
            # The cluster is there: its nodes have said what they have.
            f"+ray_kwargs.ray_init.address='{cluster.address}'",
            "ray_kwargs.ray_init.num_cpus=null",
            "ray_kwargs.ray_init.num_gpus=null",
        ]
    finally:
        cluster.shutdown()


def train_on_two_nodes(
    output: Path, toy: Path, steps: int, overrides: tuple[str, ...] = (), timeout: float = 1200
) -> list[LoggedStep]:
    """Train Contrast on the toy world over two nodes; the steps that were logged.

    Args:
        output: directory of the log, the metrics and the rollouts.
        toy: directory of the toy world.
        steps: training steps.
        overrides: more Hydra overrides.
        timeout: seconds after which the run is ended.

    Raises:
        RunFailed: if the run fails or takes longer.
    """
    with two_node_cluster() as cluster:
        run = TrainingRun(
            output,
            [
                "--config-name=contrast",
                "+experiment=toy",
                "+platform=cpu",
                f"toy_dir={toy}",
                *cluster,
                "actor_rollout_ref.rollout.agent.num_workers=2",
                "data.train_batch_size=8",
                "actor_rollout_ref.actor.ppo_mini_batch_size=8",
                f"trainer.total_training_steps={steps}",
                "trainer.val_before_train=False",
                *overrides,
            ],
        )
        return run.wait(timeout)


def main(
    output: Path,
    overrides: Annotated[list[str] | None, typer.Argument()] = None,
    steps: Annotated[int, typer.Option(min=1)] = 2,
) -> None:
    """Build the toy world where it is not cached, train on two nodes, print every step's structure metrics."""
    from subgroup_offset.toy import build_toy

    for record in train_on_two_nodes(output, build_toy().root, steps, tuple(overrides or ())):
        shown = {k: v for k, v in record.metrics.items() if k.startswith(("subgroup/", "strategy/"))}
        print(record.step, shown)


if __name__ == "__main__":
    typer.run(main)

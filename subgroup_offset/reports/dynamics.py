"""A run's training dynamics as a figure (paper, Figure 2: the middle and right columns, and the reward)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgroup_offset.cluster.launch import LoggedStep

PANELS = {
    "critic/score/mean": "mean reward",
    "subgroup/informative_share": "informative prompts (share)",
    "subgroup/term_ratio": "subgroup term / standard term",
}


def plot_dynamics(steps: Sequence[LoggedStep], path: Path, title: str) -> None:
    """Save a PNG with one panel per metric of :data:`PANELS` over the training steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(12, 3.4), constrained_layout=True)
    for axis, (key, label) in zip(axes, PANELS.items(), strict=True):
        points = [(s.step, s.metrics[key]) for s in steps if key in s.metrics]
        axis.plot(*zip(*points, strict=True), marker="o", markersize=4) if points else axis.text(0.5, 0.5, "no data")
        axis.set(xlabel="training step", title=label)
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)

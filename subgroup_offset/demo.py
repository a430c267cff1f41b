"""The demonstration: a short two-stage training on the CPU, then what it did, as a table and a plot."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import matplotlib  # noqa: F401  (for the plot, which comes after minutes of training)
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from subgroup_offset.cluster.launch import LoggedStep, TrainingRun
from subgroup_offset.strategy.dump import Rollout, prompt_of, read_rollouts
from subgroup_offset.strategy.subgroups import PromptRecord, select

K = Z = 4
LAMS = (-0.3, 0.0, 0.3)
METHODS = ("contrast", "alignment", "strategy_grpo", "grpo")
#: A file that marks a directory as a demo's, whose contents another demo may replace.
MARKER = ".subgroup_offset_demo"
ACCURACY = "val-core/math_dapo/acc/mean@8"
SHOWN = {
    "critic/score/mean": "mean reward (-1 to 1)",
    "subgroup/success_rate": "success rate of the rollouts",
    "subgroup/informative_share": "informative prompts (share)",
    "subgroup/term_ratio": "subgroup term / standard term",
    "subgroup/abs_offset": "mean |offset| (reward)",
    "subgroup/constant_groups": "constant groups (share)",
    "strategy/usable_per_candidate": "usable previews per candidate",
    "strategy/empty_slots": "empty slots (share)",
    "strategy/jaccard_distance": "Jaccard distance of kept previews",
    "strategy/token_share": "tokens spent on strategies (share)",
    "strategy/seconds_mean": "seconds of the strategy stage",
}

PANELS = {key: SHOWN[key] for key in ("critic/score/mean", "subgroup/informative_share", "subgroup/term_ratio")}

console = Console()


def run_demo(output: Path, method: str, steps: int) -> None:
    """Build the toy world where it is not cached, train, and print and plot the outcome.

    Args:
        output: directory for the log, the metrics, the rollouts and the plot: a new one, an empty one, or an earlier
            demo's, which is replaced.
        method: name of a config in ``configs/``.
        steps: training steps.

    Raises:
        BadParameter: for another method, or an output that holds something else; before anything is built.
        RunFailed: if the training process fails.
    """
    if method not in METHODS:
        raise typer.BadParameter(f"method={method!r} is unknown: use one of {', '.join(METHODS)}.")
    _require_own(output)
    toy = _toy_world()
    _clear(output)
    console.rule(f"{method}: {steps} steps of verl.trainer.main_ppo, K={K} x Z={Z} rollouts")
    run = TrainingRun(output, _overrides(method, steps, toy, output.resolve()))
    console.print(f"log: {run.log}")
    logged = _follow(run, steps)
    if method != "grpo":
        _print_prompt(output / "rollouts", logged)
    _print_metrics(logged)
    picture = output / "dynamics.png"
    _plot([s for s in logged if s.step > 0], picture, f"Toy world, {method}, K={K}, Z={Z}")
    console.print(f"plot: {picture}")


def _require_own(output: Path) -> None:
    """Refuse a place whose contents no demo has written: they would be lost."""
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"--output {output} is a file: give a directory, new or empty.")
    if output.is_dir() and any(output.iterdir()) and not (output / MARKER).is_file():
        raise typer.BadParameter(
            f"--output {output} holds files and is not marked as an earlier demo's ({MARKER}): give a directory that "
            "is new or empty, or remove it yourself."
        )


def _clear(output: Path) -> None:
    """Empty the directory, not remove it: it may be a link, or a mount. The marker is there as long as others are."""
    _require_own(output)  # again, for the toy world takes minutes
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).write_text("Written by subgroup-offset demo, which replaces what is in this directory.\n")
    for path in output.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()


def _toy_world() -> Path:
    from subgroup_offset.toy import build_toy
    from subgroup_offset.toy.progress import progress_line

    started = time.monotonic()
    with progress_line() as progress:
        paths = build_toy(progress=progress)
    console.print(f"toy world: {paths.root} ({time.monotonic() - started:.0f} s)")
    return paths.root


def _overrides(method: str, steps: int, toy: Path, output: Path) -> list[str]:
    return [
        f"--config-name={method}",
        "+experiment=toy",
        "+platform=cpu",
        f"toy_dir={toy}",
        f"trainer.total_training_steps={steps}",
        f"trainer.test_freq={steps}",
        f"trainer.rollout_data_dir={output}/rollouts",
        f"trainer.default_local_dir={output}/checkpoints",
    ]


def _follow(run: TrainingRun, steps: int) -> list[LoggedStep]:
    logged: list[LoggedStep] = []
    started = time.monotonic()
    with console.status("starting Ray, FSDP and vLLM (a minute or two)") as status:
        for record in run.follow():
            logged.append(record)
            status.update(f"training: {record.step} of {steps} steps")
            console.print(_progress_line(record, steps, time.monotonic() - started))
    return logged


def _progress_line(record: LoggedStep, steps: int, elapsed: float) -> str:
    m = record.metrics
    parts = [f"[{elapsed:4.0f} s] step {record.step:>2}/{steps}".replace("[", "\\[")]
    if "critic/score/mean" in m:
        parts.append(f"reward {m['critic/score/mean']:+.3f}")
        for key, name in (("success_rate", "success"), ("informative_share", "informative"), ("term_ratio", "ratio")):
            if f"subgroup/{key}" in m:
                parts.append(f"{name} {m[f'subgroup/{key}']:.3f}")
    line = "  ".join(parts)
    if ACCURACY in m:
        line += f"\n         validation accuracy {m[ACCURACY]:.3f}"
    return line


def _print_prompt(rollout_dir: Path, logged: list[LoggedStep]) -> None:
    last = max(s.step for s in logged)
    prompt = most_informative(rollout_dir / f"{last}.jsonl", last)
    table = Table(title=f"One prompt of step {last}: the advantage of a success / a failure")
    table.add_column("key idea")
    table.add_column("success", justify="right")
    for lam in LAMS:
        table.add_column(f"lam = {lam:+g}" if lam else "lam = 0", justify="right")
    credits = [credit(prompt, lam) for lam in LAMS]
    for slot in prompt.best_first:
        pairs = (" / ".join("-" if a is None else f"{a:+.2f}" for a in of_slot[slot.slot]) for of_slot in credits)
        idea = "; ".join(line.removeprefix("- ") for line in slot.key_idea.splitlines())
        table.add_row(Text(idea), slot.success, *pairs)
    console.print(table)


def most_informative(path: Path, step: int) -> PromptRecord:
    """Of a rollout dump the prompt whose subgroups' success rates span most, the first of equals."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in read_rollouts(path):
        groups.setdefault(rollout.prompt, []).append(rollout)
    return select((prompt_of(step, group, (Z,) * K) for group in groups.values()), limit=1)[0]


def credit(prompt: PromptRecord, lam: float) -> list[tuple[float | None, float | None]]:
    """Of each slot the advantage of (a success, a failure), from the rewards as they are; None where there was none."""
    import torch

    from subgroup_offset.advantage import subgroup_advantages

    slots = [slot.slot for slot in prompt.slots for _ in slot.rewards]
    rewards = [reward for slot in prompt.slots for reward in slot.rewards]
    values = torch.tensor(rewards, dtype=torch.float64)
    advantages = subgroup_advantages(values, [0] * len(slots), slots, lam).advantages.tolist()
    rows = list(zip(slots, rewards, advantages, strict=True))
    return [
        tuple(next((a for k, r, a in rows if k == slot.slot and (r > 0) == won), None) for won in (True, False))
        for slot in prompt.slots
    ]


def _plot(steps: list[LoggedStep], path: Path, title: str) -> None:
    """Save a PNG with one panel per metric of :data:`PANELS` over the training steps."""
    from subgroup_offset.reports.blocks import Figure, Panel, Series
    from subgroup_offset.reports.figures import figure_png
    from subgroup_offset.reports.steps import as_table

    table = as_table({s.step: s.metrics for s in steps})
    panels = [
        Panel(name, "training step", "", [Series(title, 0, table[key].dropna(), markers=True)])
        for key, name in PANELS.items()
        if key in table
    ]
    figure_png(Figure("dynamics", title, panels), path)


def _print_metrics(logged: list[LoggedStep]) -> None:
    trained = [s.metrics for s in logged if "critic/score/mean" in s.metrics]
    table = Table(title="First and last training step")
    for column in ("metric", "first", "last"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for key, name in SHOWN.items():
        if key in trained[0] and key in trained[-1]:
            table.add_row(name, f"{trained[0][key]:.3f}", f"{trained[-1][key]:.3f}")
    validated = [s.metrics[ACCURACY] for s in logged if ACCURACY in s.metrics]
    if len(validated) > 1:
        table.add_row("validation accuracy (plain prompts)", f"{validated[0]:.3f}", f"{validated[-1]:.3f}")
    console.print(table)

"""``subgroup-offset doctor``: can a run start on this cluster, and if not, what has to be done on which node.

Importing this module is cheap: Ray and verl load when the command runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from subgroup_offset.terminal import errors_as_messages

if TYPE_CHECKING:
    from rich.console import Console

    from subgroup_offset.cluster.findings import Finding, Node, Target
    from subgroup_offset.cluster.needs import Needs

#: Seconds for a round that only reads or removes tokens.
_QUICK_SECONDS = 60.0
#: Nodes side by side in one table.
_COLUMNS = 4
_MARKS = {None: "[green]ok[/]", "error": "[red]error[/]", "warning": "[yellow]warning[/]"}


def doctor(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Hydra overrides of the run, as for verl.trainer.main_ppo.")
    ] = None,
    config_name: Annotated[
        str | None, typer.Option("--config-name", "-cn", help="Config of the run (with overrides alone: ppo_trainer).")
    ] = None,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", "-cd", help="Directory of more configs, as Hydra's option.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="auto or host:port of a running Ray cluster (default: the config's; else Ray starts here)."),
    ] = None,
    path: Annotated[list[str] | None, typer.Option(help="Directory that all nodes share and write to.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Model directory or name on the hub.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="Parquet or JSONL file of prompts.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes there must be (default: trainer.nnodes).")] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for that many nodes.")] = 0.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds a node has to answer.")] = 300.0,
    cfg: Annotated[str | None, typer.Option("--cfg", "-c", hidden=True)] = None,
    resolve: Annotated[bool, typer.Option("--resolve", hidden=True)] = False,
) -> None:
    """Check every node of a Ray cluster: versions, plugin, GPUs, memory, shared paths, model, data, the run's config.

    The arguments of ``python -m verl.trainer.main_ppo`` can be given as they are (Hydra's --cfg and --resolve do
    nothing here). Exits with 1 if there is an error, with 0 if there are only warnings.
    """
    from rich.console import Console

    from subgroup_offset.cluster.needs import Needs, with_options
    from subgroup_offset.cluster.ray_nodes import NoCluster

    status = Console(stderr=True)
    needs, findings = Needs(), []
    if config_name or config_dir or overrides:
        status.print("... composing the run's config")
        needs, findings = of_run(config_name or "ppo_trainer", config_dir, overrides or [])
    needs = with_options(needs, path or (), model or (), data or (), nodes)
    address = address or needs.ray_init.get("address")
    with errors_as_messages(NoCluster):
        report = examine(needs, address, timeout, wait, lambda text: status.print(f"... {text}", soft_wrap=True))
    report = replace(report, findings=(*findings, *report.findings))
    show(report, Console())
    if any(finding.level == "error" for finding in report.findings):
        raise typer.Exit(1)


def of_run(name: str, directory: Path | None, overrides: list[str]) -> tuple[Needs, list[Finding]]:
    """What the run's config needs, and whether the run's own start would refuse it."""
    from subgroup_offset.cluster.findings import Findings
    from subgroup_offset.cluster.needs import Needs, compose_run, of_config
    from subgroup_offset.preflight import check_as_main_ppo

    found, needs = Findings("config"), Needs()
    try:
        config = compose_run(name, directory, overrides)
        needs = of_config(config)
        check_as_main_ppo(config)
    except Exception as error:  # Hydra's and OmegaConf's, for anything wrong; verl's checks raise what they like
        text = " ".join(str(error).split()) or type(error).__name__
        found.error(f"the run's config is refused: {text}", "correct the setting that it names")
    return needs, found.all


@dataclass(frozen=True)
class Report:
    """Outcome of all checks: node name -> check -> text of its cell, and the findings of nodes and cluster."""

    cells: dict[str, dict[str, str]]
    findings: tuple[Finding, ...]


def examine(needs: Needs, address: str | None, timeout: float, wait: float, progress: Callable[[str], None]) -> Report:
    """Examine the cluster at ``address``, or this machine alone.

    Args:
        needs: what is to be found there.
        address: as of ``ray_nodes.connected``.
        timeout: seconds that a node has to answer.
        wait: seconds to wait for ``needs.nodes`` nodes.
        progress: called with what is going on.

    Raises:
        NoCluster: where Ray cannot be joined.
    """
    from subgroup_offset.cluster import ray_nodes
    from subgroup_offset.cluster.findings import Target
    from subgroup_offset.cluster.node_script import host
    from subgroup_offset.cluster.versions import package_bounds

    progress(f"joining Ray at {address}" if address else "starting Ray on this machine")
    with ray_nodes.connected(address, {**needs.ray_init, "runtime_env": needs.runtime_env}, timeout):
        import ray

        if wait and needs.nodes:
            progress(f"waiting up to {wait:g} s for {needs.nodes} node(s)")
            ray_nodes.wait_for_nodes(needs.nodes, needs.gpus_per_node or 0, wait)
        nodes, dead = ray_nodes.alive_and_dead()
        progress(f"examining {len(nodes)} node(s), up to {timeout:g} s each, all at once")
        free = ray.available_resources().get("GPU", 0)
        target = Target(needs, host({}), package_bounds(), len(nodes))
        nodes = collect(needs, nodes, timeout)
    return judge(nodes, dead, target, free)


def collect(needs: Needs, nodes: Sequence[Node], timeout: float) -> list[Node]:
    """Run the script on all nodes of the cluster that this process is connected to; then see what they share."""
    from subgroup_offset.cluster.node_script import EXAMINATION
    from subgroup_offset.cluster.ray_nodes import ask_nodes

    steps = [step.__name__ for step in EXAMINATION if needs.vllm or step.__name__ != "vllm"]
    request: dict[str, Any] = {
        "steps": steps,
        "directories": [directory._asdict() for directory in needs.directories],
        "models": [model._asdict() for model in needs.models],
        "data": [data.path for data in needs.data],
        "files": needs.files,
    }
    run = secrets.token_hex(4)
    tokens = {node.id: f"{run}-{node.id[:12]}" for node in nodes}
    answers = ask_nodes({ident: {**request, "token": token} for ident, token in tokens.items()}, timeout)
    nodes = [replace(node, **answers[node.id]) for node in nodes]
    places = {node.id: (node.value("storage") or {}).values() for node in nodes}
    written = {ident: [place["token"] for place in found if place["token"]] for ident, found in places.items()}
    written = {ident: files for ident, files in written.items() if files}
    try:
        files = {file: tokens[ident] for ident, names in written.items() for file in names}
        readers = [node.id for node in nodes if node.value("host")] if files and len(nodes) > 1 else []
        read = ask_nodes({ident: {"steps": ["read"], "files": files} for ident in readers}, _QUICK_SECONDS)
    finally:
        ask_nodes({ident: {"steps": ["remove"], "files": names} for ident, names in written.items()}, _QUICK_SECONDS)
    seen = {ident: answer.get("facts", {}).get("read", {}).get("value", {}) for ident, answer in read.items()}
    return [replace(node, seen=seen.get(node.id, {})) for node in nodes]


def judge(nodes: Sequence[Node], dead: Sequence[str], target: Target, free_gpus: float) -> Report:
    """Facts to findings. Pure."""
    from subgroup_offset.cluster.cluster_checks import check_cluster
    from subgroup_offset.cluster.findings import Findings
    from subgroup_offset.cluster.node_checks import CHECKS

    cells: dict[str, dict[str, str]] = {}
    findings: list[Finding] = []
    for node in nodes:
        if not node.value("host"):
            found = Findings("ray", node.name)
            fix = "look at the raylet's log on that node, end the processes that hang, start Ray there again"
            found.error(f"its examination {node.failure or node.error('host')}", fix)
            cells[node.name] = {"ray": "no answer"}
            findings += found.all
            continue
        row = cells[node.name] = {"ray": "head" if node.head else "answers"}
        for name, check in CHECKS.items():
            found = Findings(name, node.name)
            row[name] = check(found, node, target)
            findings += found.all
    answering = [node for node in nodes if node.value("host")]
    return Report(cells, (*findings, *check_cluster(answering, dead, target.needs, free_gpus)))


def show(report: Report, console: Console) -> None:
    """Print a table of checks and nodes, then every finding with its fix on one line, once for all its nodes."""
    from rich.markup import escape
    from rich.table import Table

    from subgroup_offset.cluster.node_checks import CHECKS

    def cell(node: str, check: str) -> str:
        levels = {f.level for f in report.findings if (f.node, f.check) == (node, check)}
        mark = _MARKS["error" if "error" in levels else "warning" if levels else None]
        return f"{mark} {escape(report.cells[node][check])}" if check in report.cells[node] else "-"

    names = list(report.cells)
    for start in range(0, len(names), _COLUMNS):
        part = names[start : start + _COLUMNS]
        table = Table("check", *map(escape, part))
        for check in ("ray", *CHECKS):
            table.add_row(check, *(cell(node, check) for node in part))
        console.print(table)
    lines: dict[Finding, list[str]] = {}
    for finding in report.findings:
        lines.setdefault(replace(finding, node=""), []).append(finding.node)
    errors = sum(finding.level == "error" for finding in lines)
    for finding, where in sorted(lines.items(), key=lambda line: line[0].level):
        nodes = "all nodes: " if len(where) > 1 and set(where) == set(names) else f"{', '.join(where)}: "
        place = f"{'' if where == ['cluster'] else nodes}{finding.check}"
        text = f"{place}: {finding.problem.rstrip('.')}. Fix: {finding.fix}"
        console.print(f"{_MARKS[finding.level]} {escape(text)}", soft_wrap=True, highlight=False)
    summary = f"{errors} error(s), {len(lines) - errors} warning(s) on {len(names)} node(s)"
    console.print(summary, highlight=False)

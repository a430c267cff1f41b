"""The command ``subgroup-offset doctor``. Importing it is cheap: Ray and verl load when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from subgroup_offset.terminal import told

if TYPE_CHECKING:
    from subgroup_offset.doctor.expected import Expected
    from subgroup_offset.doctor.findings import Finding


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

    from subgroup_offset.doctor.cluster import NoCluster
    from subgroup_offset.doctor.cluster_checks import joining
    from subgroup_offset.doctor.examine import Report, examine
    from subgroup_offset.doctor.expected import Expected, with_options
    from subgroup_offset.doctor.findings import ERROR
    from subgroup_offset.doctor.table import show

    console, status = Console(), Console(stderr=True)
    expected, findings = Expected(), []
    if config_name or config_dir or overrides:
        status.print("... composing the run's config")
        expected, findings = _of_run(config_name or "ppo_trainer", config_dir, overrides or [])
    expected = with_options(expected, path or (), model or (), data or (), nodes)
    address = address or expected.ray_init.get("address")
    findings += joining(expected.ray_init, joins=address is not None)
    with told(NoCluster):
        report = examine(expected, address, timeout, wait, lambda text: status.print(f"... {text}", soft_wrap=True))
    report = Report(report.cells, (*findings, *report.findings))
    show(report, console)
    if any(finding.level == ERROR for finding in report.findings):
        raise typer.Exit(1)


def _of_run(name: str, directory: Path | None, overrides: list[str]) -> tuple[Expected, list[Finding]]:
    from subgroup_offset.doctor.expected import Expected, of_config
    from subgroup_offset.doctor.run_config import compose_run, refused, validate

    try:
        config = compose_run(name, directory, overrides)
        return of_config(config), validate(config)
    except Exception as error:  # Hydra's and OmegaConf's, for anything that is wrong with a config
        return Expected(), [refused(error)]

"""The Hydra launcher ``subgroup_offset``: each job of a multirun in a process of its own (``subgroup_offset.sweep``).

Hydra imports this module whenever any Hydra program starts: nothing but Hydra is imported here. It runs the module
before it is in ``sys.modules``, where a dataclass with postponed annotations would look for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class LauncherConf:
    """``hydra.launcher``; the settings are documented where they are checked, ``subgroup_offset.sweep.settings``."""

    _target_: str = "hydra_plugins.subgroup_offset_launcher.SubgroupOffsetLauncher"
    module: str | None = None
    timeout: float | None = None
    retries: int = 0
    env: dict[str, str] = field(default_factory=dict)
    objective: str | None = None


class SubgroupOffsetLauncher(Launcher):
    """Runs the jobs of a sweep one after another, each as its own process, and goes on with a sweep that was ended."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._sweep: Any = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context = hydra_context
        self._task_function = task_function
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from subgroup_offset.sweep.launcher import SweepSession

        if self._sweep is None:
            self._sweep = SweepSession(self._context, self._config, self._settings)
        return self._sweep.launch([list(overrides) for overrides in job_overrides], initial_job_idx)


# The name of what is swept: the recipe or experiment config that was chosen (configs/), or the run's own name.
_RUN = "${oc.select:trainer.experiment_name,run}"
_CHOICE = f"${{oc.select:hydra.runtime.choices.recipe,${{oc.select:hydra.runtime.choices.experiment,{_RUN}}}}}"

ConfigStore.instance().store(
    group="hydra/launcher",
    name="subgroup_offset",
    # Also the sweep's directory: Hydra's default has the time in it, where a sweep started again finds nothing.
    package="_global_",
    node={
        "hydra": {"launcher": LauncherConf, "sweep": {"dir": f"outputs/sweeps/${{hydra.job.config_name}}/{_CHOICE}"}}
    },
    provider="subgroup-offset",
)

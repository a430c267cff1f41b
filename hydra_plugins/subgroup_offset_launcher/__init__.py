"""The Hydra launcher ``subgroup_offset``: each job of a multirun in a process of its own (``cluster.sweep``).

Hydra imports this module whenever any Hydra program starts: nothing but Hydra is imported here. It runs the module
before it is in ``sys.modules``.
"""

from collections.abc import Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class SubgroupOffsetLauncher(Launcher):
    """Runs the jobs of a sweep one after another, each as its own process, and goes on with a sweep that was ended."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context = hydra_context
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from subgroup_offset.cluster.sweep import run_sweep

        return run_sweep(self._context, self._config, job_overrides)


# The name of what is swept: the recipe or experiment config that was chosen (configs/), or the run's own name.
_RUN = "${oc.select:trainer.experiment_name,run}"
_CHOICE = f"${{oc.select:hydra.runtime.choices.recipe,${{oc.select:hydra.runtime.choices.experiment,{_RUN}}}}}"

ConfigStore.instance().store(
    group="hydra/launcher",
    name="subgroup_offset",
    # Also the sweep's directory: Hydra's default has the time in it, where a sweep started again finds nothing.
    package="_global_",
    node={
        "hydra": {
            "launcher": {"_target_": f"{__name__}.SubgroupOffsetLauncher"},
            "sweep": {"dir": f"outputs/sweeps/${{hydra.job.config_name}}/{_CHOICE}"},
        }
    },
    provider="subgroup-offset",
)

"""The settings of the launcher: everything under ``hydra.launcher``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra.errors import CompactHydraException


class SweepError(CompactHydraException):
    """A sweep that cannot be started or went wrong. Hydra prints its message without a traceback and exits with 1."""


@dataclass(frozen=True)
class SweepSettings:
    """``hydra.launcher``, checked. Its twin ``LauncherConf`` in ``hydra_plugins`` gives Hydra the types."""

    #: What a job runs, ``python -m <module>``: a Hydra program that takes verl's ``trainer`` settings. null: the
    #: program that the sweep was started with.
    module: str | None = None
    #: Seconds that a job may take at each start; null: any time. A job over its time has failed.
    timeout: float | None = None
    #: How often a failed job is started again, from its last checkpoint, before the next job's turn.
    retries: int = 0
    #: Environment variables of the jobs (``+hydra.launcher.env.NAME=value``).
    env: Mapping[str, str] = field(default_factory=dict)
    #: The metric whose last logged value is a job's result, for sweepers that optimise one; null: the job's result is
    #: the dict of all metrics of its last step.
    objective: str | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise SweepError(
                f"hydra.launcher.timeout={self.timeout:g} is no time to train in: give seconds above 0, or null."
            )
        if self.retries < 0:
            raise SweepError(f"hydra.launcher.retries={self.retries} is negative: set it to 0 or above.")
        for name in ("module", "objective"):
            if getattr(self, name) == "":
                raise SweepError(f"hydra.launcher.{name} is empty: give a name, or null.")

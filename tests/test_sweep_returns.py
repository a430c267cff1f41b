"""What a sweeper other than Hydra's basic one gets back, and what the plugin costs where nothing is swept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import sweep_program  # noqa: F401  stores the config `tiny`
from hydra import initialize
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobStatus
from hydra.types import HydraContext, RunMode
from omegaconf import OmegaConf
from sweep_tools import PROGRAM, TESTS

from subgroup_offset.sweep.launcher import SweepSession
from subgroup_offset.sweep.settings import SweepError

ACCURACY = "val-core/tiny/acc/mean@2"


@pytest.fixture
def session(tmp_path, monkeypatch) -> Iterator:
    """Sessions of a sweep by a sweeper that makes its values up as it goes, as Optuna's does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "control").mkdir()

    def new(**settings) -> SweepSession:
        hydra = GlobalHydra.instance().hydra
        overrides = ["hydra/launcher=subgroup_offset", f"control={tmp_path}/control", "trainer.total_training_steps=2"]
        config = hydra.compose_config("tiny", overrides, RunMode.MULTIRUN)
        OmegaConf.set_struct(config, False)
        config.hydra.sweeper = {"_target_": "another.Sweeper"}
        settings = {"module": PROGRAM, "env": {"PYTHONPATH": str(TESTS)}, **settings}
        return SweepSession(HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks()), config, settings)

    with initialize(None, version_base=None):
        yield new


def overrides(directory, lam: float) -> list[str]:
    return [f"control={directory}/control", "trainer.total_training_steps=2", f"algorithm.subgroup.lam={lam}"]


def test_a_job_returns_its_objective_and_a_failed_one_raises(session, tmp_path):
    (tmp_path / "control" / "fail-0.5").touch()
    this = session(objective=ACCURACY)
    good, bad = this.launch([overrides(tmp_path, 0.25), overrides(tmp_path, 0.5)], 0)
    assert (good.status, good.return_value) == (JobStatus.COMPLETED, 2.25)
    assert good.overrides == overrides(tmp_path, 0.25) and good.cfg.algorithm.subgroup.lam == 0.25
    assert good.working_dir.endswith("/lam=0.25") and "hydra" not in good.cfg
    assert bad.status == JobStatus.FAILED
    with pytest.raises(SweepError, match=r"lam=0\.5 ended with exit code 1 at step 2 of 2"):
        _ = bad.return_value
    # A sweeper may come back to a value: it is not trained again.
    (again,) = this.launch([overrides(tmp_path, 0.25)], 2)
    assert again.return_value == 2.25
    assert len((tmp_path / "control" / "journal").read_text().splitlines()) == 2


def test_an_objective_that_is_never_logged_is_a_failure_that_names_what_is(session, tmp_path):
    (job,) = session(objective="val-core/tiny/acc/mean@8").launch([overrides(tmp_path, 0.25)], 0)
    assert job.status == JobStatus.FAILED
    with pytest.raises(SweepError, match=r"mean@8 was never logged\. Validation logged: val-core/tiny/acc/mean@2"):
        _ = job.return_value


def test_without_an_objective_a_job_returns_its_last_metrics(session, tmp_path):
    (job,) = session().launch([overrides(tmp_path, 0.25)], 0)
    assert job.return_value == {"lr": 0.1, ACCURACY: 2.25, "start": 0}


def test_a_hydra_program_that_sweeps_nothing_loads_nothing_of_this_package():
    code = """
import sys
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
print([c.__name__ for c in Plugins.instance().discover(Launcher) if "subgroup" in c.__module__])
print(sorted({"subgroup_offset.sweep", "filelock", "psutil", "rich", "torch", "verl", "ray"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["['SubgroupOffsetLauncher']", "[]"]

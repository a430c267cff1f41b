"""What a pip user gets: the wheel carries the configs, the templates, the entry point and the Hydra plugin."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel's files, unpacked beside the environment's packages."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(target / "site")
    return target / "site"


def test_files(installed):
    names = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    for name in ("configs/contrast.yaml", "configs/platform/cpu.yaml", "strategy/templates/strategy.jinja"):
        assert f"subgroup_offset/{name}" in names
    assert "hydra_plugins/subgroup_offset_searchpath/__init__.py" in names
    (entry_points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "[verl.plugins]\nsubgroup_offset = subgroup_offset.plugin:register" in entry_points.read_text()


def test_the_methods_are_found_without_config_dir(installed, tmp_path):
    code = "import subgroup_offset.paths as p; print(p.config_dir())"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    where = subprocess.run([sys.executable, "-c", code], check=True, **run).stdout.strip()
    assert where == str(installed / "subgroup_offset" / "configs")
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name=contrast", "--cfg=job"]
    composed = subprocess.run(command, **run)
    assert composed.returncode == 0, composed.stderr
    assert "lam: -0.3" in composed.stdout and "adv_estimator: grpo_subgroup" in composed.stdout

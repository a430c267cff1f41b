"""What a pip user gets: the wheel carries the configs, the templates, the entry point and the Hydra plugin."""

import json
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
    configs = {str(p.relative_to(ROOT)) for p in (ROOT / "configs").rglob("*.yaml")}
    assert {"configs/contrast.yaml", "configs/platform/cpu.yaml", "configs/recipe/dapo.yaml"} <= configs
    for name in (*configs, "strategy/templates/strategy.jinja", "preflight/run.py"):
        assert f"subgroup_offset/{name}" in names
    for plugin in ("launcher", "searchpath"):
        assert f"hydra_plugins/subgroup_offset_{plugin}/__init__.py" in names
    (entry_points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "[verl.plugins]\nsubgroup_offset = subgroup_offset.plugin:register" in entry_points.read_text()


# Each as on the command line of verl.trainer.main_ppo: the config's name, the overrides.
COMMANDS = [
    ("contrast",),
    ("ppo_trainer", "+subgroup_offset=contrast"),
    ("ppo_trainer", "+subgroup_offset=alignment_shuffled"),
    ("contrast", "+recipe=qwen3_8b"),
    ("contrast", "+recipe=olmo3_7b", "subgroup_offset=contrast_temperature_07"),
    ("grpo", "+recipe=dapo"),
]
COMPOSE = """
import json, sys
from hydra import compose, initialize_config_module
from subgroup_offset.paths import config_dir
from subgroup_offset.preflight import check_run
found = [str(config_dir())]
with initialize_config_module("verl.trainer.config", version_base=None):
    for name, *overrides in json.loads(sys.argv[1]):
        config = compose(name, overrides)
        check_run(config)
        found.append([config.algorithm.adv_estimator, config.algorithm.subgroup.name, config.data.train_batch_size])
print(json.dumps(found))
"""


def test_configs_are_found_without_config_dir(installed, tmp_path):
    """In an empty directory; one process for all, as most of its time goes into imports."""
    process = subprocess.run(
        [sys.executable, "-c", COMPOSE, json.dumps(COMMANDS)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    where, *found = json.loads(process.stdout.splitlines()[-1])
    assert where == str(installed / "subgroup_offset" / "configs")
    assert found == [
        ["grpo_subgroup", name, prompts]
        for name, prompts in (
            ("contrast", 1024),
            ("contrast", 1024),
            ("alignment_shuffled", 1024),
            ("contrast", 256),
            ("contrast_temperature_07", 256),
            ("grpo", 256),
        )
    ]

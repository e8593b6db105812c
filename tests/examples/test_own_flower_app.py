"""The example of somebody's own Flower app, as Flower runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpforest.forest import load

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "own_flower_app"

# What `flwr run` does with the apps once it has unpacked them, without a SuperLink.
_RUN = """
from flwr.simulation import run_simulation
from own_app.client_app import app as client_app
from own_app.server_app import app as server_app
backend = {"init_args": {"address": "local"}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
run_simulation(server_app, client_app, num_supernodes=2, backend_config=backend)
"""


@pytest.mark.e2e
def test_the_example_trains_a_forest_on_rows_of_its_own(tmp_path: Path) -> None:
    environment = dict(os.environ, PYTHONPATH=f"{APP}{os.pathsep}{ROOT}", FLWR_HOME=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _RUN], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    said = done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0, said
    assert "guarantee: epsilon = 2 (pure) for one record" in done.stdout, said
    assert "20 trees" in done.stdout, said
    accuracy = float(done.stdout.split("accuracy ")[1].split()[0])
    assert accuracy > 0.75, said
    assert load(tmp_path / "own-forest" / "forest.json").n_trees == 20


def test_flower_is_not_asked_to_install_dpforest_from_an_index() -> None:
    project = tomllib.loads((APP / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("dpforest")]

"""The wheel in a fresh environment, started from a folder that has packages and configuration of the same names."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from fl_app.client_app import app as client_app

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = "raise SystemExit('a foreign package was imported')\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with our wheel, that shares the dependencies of this one."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("environment")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    venv.create(folder / "venv", symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = folder.glob("dpforest-*.whl")
    install = [*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, timeout=300)
    return folder / "venv" / "bin" / "python"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A working directory of somebody who has a ``strategies/``, ``baselines/`` and ``conf/`` too."""
    for name in ("strategies", "baselines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    (tmp_path / "conf" / "strategy").mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text("foreign: true\n")
    (tmp_path / "conf" / "strategy" / "one_shot.yaml").write_text("foreign: true\n")
    return tmp_path


def execute(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_ours_are_used_in_a_folder_with_others_of_the_same_name(python: Path, foreign: Path) -> None:
    options = ["strategy=one_shot", "engine.kind=in_process", "partition.clients=2", "strategy.depth=3", "output=run"]
    done = execute(python, foreign, "-m", "fl_app", *options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (foreign / "run" / "metrics.json").is_file()
    for name in ("strategies", "baselines"):
        assert f"{foreign / name} is not used: '{name}' is the package of dpforest in " in done.stderr


def test_an_actor_of_a_simulation_finds_ours_too(python: Path, foreign: Path) -> None:
    """It begins with nothing of ours but the app that the engine ships to it."""
    shipped = pickle.dumps(client_app)
    done = execute(python, foreign, "-c", f"import pickle; print(type(pickle.loads({shipped!r})).__name__)")
    assert done.stdout == "ExperimentApp\n", done.stderr[-3000:]


def test_theirs_are_theirs_where_only_the_library_is_used(python: Path, foreign: Path) -> None:
    (foreign / "strategies" / "__init__.py").write_text("mine = True\n")
    done = execute(python, foreign, "-c", "import dpforest.growers, strategies; print(strategies.mine)")
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_one_line_names_a_folder_that_was_imported_before(python: Path, foreign: Path) -> None:
    (foreign / "strategies" / "__init__.py").write_text("mine = True\n")
    done = execute(python, foreign, "-c", "import strategies, fl_app")
    assert done.returncode == 1
    assert f"ImportError: {foreign / 'strategies'} was imported as 'strategies'" in done.stderr.splitlines()[-1]


def test_its_types_can_be_read_by_others(python: Path, tmp_path: Path) -> None:
    code = "import importlib.resources as r; print([(r.files(p) / 'py.typed').is_file() for p in "
    done = execute(python, tmp_path, "-c", code + "('dpforest', 'strategies', 'baselines', 'fl_app')])")
    assert done.stdout == "[True, True, True, True]\n"


def test_the_library_loads_none_of_the_app(python: Path, tmp_path: Path) -> None:
    code = "import sys, dpforest; print({'flwr', 'ray', 'hydra', 'seglearn', 'tensorflow'} & set(sys.modules))"
    assert execute(python, tmp_path, "-c", code).stdout == "set()\n"


def test_a_network_without_tensorflow_is_one_line_before_anything_starts(python: Path, tmp_path: Path) -> None:
    code = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("tensorflow", "keras") else found(name, *more)
from fl_app.commands.cli import main
sys.exit(main(["run", "strategy=fedavg", "output=run"]))
"""
    done = execute(python, tmp_path, "-c", code)
    assert done.returncode == 1
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert len(said) == 1, said
    assert """strategy 'fedavg' trains a network with TensorFlow: pip install "dpforest[mlp]\"""" in said[0]
    assert not (tmp_path / "run").exists()

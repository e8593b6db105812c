"""Methods of installed packages: found by name with their configuration, in process and under Ray; clashes named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import test_end_to_end
from hand_made import CLIENTS, write_table

from dpforest.errors import DPForestError
from fl_app.config.compose import compose_config
from fl_app.results.finished import read_run
from fl_app.results.run_folder import find_runs
from strategies import registry

ROOT = Path(__file__).resolve().parents[2]
dead_cluster, flower = test_end_to_end.dead_cluster, test_end_to_end.flower
PROJECT = ROOT / "examples" / "own_method"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the package into."""
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(PROJECT)], check=True, timeout=120)
    return target


@pytest.mark.parametrize("kind", ["in_process", pytest.param("simulation", marks=pytest.mark.e2e)])
def test_an_installed_package_brings_a_method(installed: Path, tmp_path: Path, kind: str) -> None:
    table = write_table(tmp_path)
    options = [f"dataset.{name}={value}" for name, value in table.items() if name != "name"]
    command = [
        sys.executable,
        "-m",
        "fl_app",
        "strategy=majority_votes",
        "strategy.share=0.5",
        "dataset=table",
        *options,
    ]
    done = subprocess.run(
        [*command, f"engine.kind={kind}", "privacy.epsilon=8", f"output={tmp_path / 'run'}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{installed}", "FLWR_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    run = read_run(tmp_path / "run")
    assert run.guarantee.epsilon == pytest.approx(4.0)
    counts = json.loads((tmp_path / "run" / "model" / "counts.json").read_text())
    assert counts == pytest.approx([CLIENTS * 72 / 3] * 3, abs=15)


@pytest.fixture
def on_the_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is where the processes of Flower look."""
    plain = test_end_to_end.environment
    path = f"{ROOT}{os.pathsep}{installed}"
    monkeypatch.setattr(test_end_to_end, "environment", lambda home, **more: plain(home, PYTHONPATH=path, **more))


@pytest.mark.e2e
@pytest.mark.usefixtures("on_the_path")
def test_flwr_runs_a_method_of_an_installed_package(tmp_path: Path, flower: dict[str, str]) -> None:
    options = "strategy=majority_votes strategy.share=0.5 privacy.epsilon=8 partition.clients=2"
    command = ["flwr", "run", str(ROOT), "--stream", "--federation-config", "num-supernodes=2", "--run-config"]
    done = subprocess.run(
        [*command, f"overrides='{options}' output='{tmp_path / 'runs'}'"],
        cwd=tmp_path,
        env=flower,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (run,) = find_runs([tmp_path / "runs"]) or pytest.fail(done.stdout[-3000:])
    assert read_run(run).guarantee.epsilon == pytest.approx(4.0)


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts a package with an entry point on the path, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(package: str, entry: str, code: str = "METHOD = None", conf: str = "") -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dpforest.methods]\n{entry} = {package}:METHOD\n")
        folder = tmp_path / package / "conf" / "strategy"
        folder.mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(code)
        if conf:
            (folder / f"{conf}.yaml").write_text(f"name: {conf}\n")
        registry.forget_packages()

    yield write
    monkeypatch.undo()
    for package in ("broken", "copycat", "mine"):
        sys.modules.pop(package, None)
    registry.forget_packages()


@pytest.mark.parametrize("name", ["one_shot", "pp_fgrf", "fedavg"])
def test_a_name_of_ours_is_refused(bring: Callable[..., None], name: str) -> None:
    bring("copycat", name, "raise SystemExit('imported')")
    with pytest.raises(DPForestError, match=f"strategy '{name}' is in the installed package copycat and in dpforest: "):
        registry.get_method(name)
    assert registry.get_method("boost").name == "boost"


def test_a_name_of_two_packages_is_refused(bring: Callable[..., None]) -> None:
    bring("first", "majority")
    bring("second", "majority")
    with pytest.raises(DPForestError, match=r"'majority' is in the installed package \w+ and in \w+: uninstall one"):
        registry.get_method("majority")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("", "cannot be loaded: AttributeError"),
        ("METHOD = 3", "broken:METHOD must be a strategies.method.Method with that name"),
        (
            "from strategies.one_shot import METHODS; METHOD = METHODS[0]",
            "must be a strategies.method.Method with that",
        ),
    ],
)
def test_a_package_that_is_broken_is_named(bring: Callable[..., None], code: str, message: str) -> None:
    bring("broken", "mine", code)
    with pytest.raises(DPForestError, match=f"strategy 'mine' of the installed package broken.* {message}") as caught:
        registry.get_method("mine")
    assert "\n" not in str(caught.value)
    with pytest.raises(DPForestError, match=r"did you mean 'mine'\?"):
        registry.get_method("minne")


def test_a_file_of_ours_is_refused(bring: Callable[..., None]) -> None:
    bring("copycat", "mine", conf="one_shot")
    with pytest.raises(
        DPForestError, match=r"conf/strategy/one_shot.yaml is in the installed package copycat and in dp"
    ):
        compose_config(["strategy=one_shot"])


def test_its_configuration_is_found_without_importing_it(bring: Callable[..., None]) -> None:
    bring("mine", "mine", "raise SystemExit('imported')", conf="mine")
    assert compose_config(["strategy=mine"]).strategy == {"name": "mine"}
    with pytest.raises(DPForestError, match=r"no strategy 'minne'; did you mean 'mine'"):
        compose_config(["strategy=minne"])

"""Whole runs through Flower's engines: the same numbers as on the in-process grid."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fl_app.client_app import app as client_app
from fl_app.config.compose import compose_config, to_experiment
from fl_app.engine.in_process import InProcessGrid
from fl_app.engine.run import run_experiment
from fl_app.results.finished import read_run
from fl_app.results.run_folder import find_runs

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = ["strategy.depth=4", "strategy.trees=1", "partition.clients=2"]
pytestmark = pytest.mark.e2e


def in_process(overrides: list[str]) -> dict[str, Any]:
    """Metrics of the same experiment without an engine."""
    return run_experiment(to_experiment(compose_config(overrides)), InProcessGrid(client_app, 2)).metrics


def check_same(metrics: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert {k: v for k, v in metrics.items() if k != "seconds"} == {k: v for k, v in expected.items() if k != "seconds"}


def environment(home: Path, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    return os.environ | quiet | {"PATH": path, "FLWR_HOME": str(home), "PYTHONPATH": str(ROOT)} | more


def test_a_sweep_shares_one_warm_simulation(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fl_app",
        "-m",
        *OVERRIDES,
        "privacy.epsilon=1,5,inf",
        "seed=4",
        "references=false",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(tmp_path / "home", DPFOREST_RUNS=str(tmp_path / "runs")),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("starting a simulation") == 1
    assert done.stderr == "", "nothing of Flower, Ray or TensorFlow that a user cannot act upon"
    (results,) = (tmp_path / "runs").glob("sweep-*/results.csv")
    with results.open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epsilon"]) for row in rows] == [1, 5, float("inf")]
    runs = find_runs([tmp_path / "runs"])
    assert len(runs) == 3
    for run, row, epsilon in zip(runs, rows, ("1", "5", "inf"), strict=True):
        expected = in_process([*OVERRIDES, f"privacy.epsilon={epsilon}", "seed=4"])
        check_same(read_run(run).metrics, json.loads(json.dumps(expected)))
        assert float(row["accuracy"]) == pytest.approx(expected["accuracy"])


def test_a_sweep_runs_what_has_no_budget_once_and_draws_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fl_app", "-m", "strategy=centralized,one_shot", "privacy.epsilon=1,5"]
    command += ["engine.kind=in_process", "partition.clients=2", "references=false", f"output={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with (tmp_path / "results.csv").open() as file:
        rows = [(row["strategy"], float(row["epsilon"])) for row in csv.DictReader(file)]
    assert rows == [("centralized", math.inf), ("one_shot", 1.0), ("one_shot", 5.0)]
    assert done.stdout.count("skipped, as no budget or number of rounds makes a difference to it") == 1
    assert [path.name for path in tmp_path.glob("figures/*/epsilon-*.png")] == ["epsilon-watch-row-split.png"]
    assert (tmp_path / "report.html").is_file()
    assert "guarantee" in done.stdout.split("skipped")[1]  # the table of all runs


# Runs in every process that finds it; looking for the package does not import this part of it, using it does.
_COUNTER = """
import os, sys
class Counter:
    def find_spec(self, name, path, target=None):
        if name == "tensorflow.python":
            with open(os.environ["TENSORFLOW_STARTS"], "a") as file:
                file.write(f"{os.getpid()}\\n")
sys.meta_path.insert(0, Counter())
"""


def test_a_sweep_of_networks_starts_tensorflow_once_a_worker(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    (tmp_path / "sitecustomize.py").write_text(_COUNTER)
    paths = {"DPFOREST_RUNS": str(tmp_path / "runs"), "TENSORFLOW_STARTS": str(tmp_path / "starts")}
    settings = environment(tmp_path / "home", **paths)
    settings["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    runs = ["strategy=fedavg,dp_sgd", "seed=range(10)", "rounds=1", "partition.clients=2", "references=false"]
    command = [sys.executable, "-m", "fl_app", "-m", *runs]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert len(find_runs([tmp_path / "runs"])) == 20
    assert done.stderr == ""
    starts = (tmp_path / "starts").read_text().split()
    # One in each worker, and at most one in the process of the server.
    assert len(starts) == len(set(starts)) <= (os.cpu_count() or 1) + 1


def free_port() -> int:
    """A port below those that systems hand out by themselves: nothing else takes it before the SuperLink does."""
    for port in random.sample(range(20_000, 32_000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


# Flower takes a simulation for lost that shows no sign of life 30 s after its start, and starts another one too. On a
# busy machine that takes longer, and the more there are, the less does any of them get on.
_SUPERLINK = """
import sys
from flwr.supercore.corestate import sql_corestate
from flwr.superlink.cli import flower_superlink
sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = 600
sys.exit(flower_superlink())
"""


@pytest.fixture
def dead_cluster() -> Iterator[dict[str, str]]:
    """An environment in which Ray finds the address of a cluster that is no more."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # the paths of Ray's sockets must be short
    (Path(folder) / "ray").mkdir()
    (Path(folder) / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")
    yield {"RAY_TMPDIR": folder}
    shutil.rmtree(folder, ignore_errors=True)


def processes_with(variable: str) -> list[str]:
    """Command lines of all processes with a variable in their environment, whoever their parents are now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{variable}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs the environments of processes")
def test_a_simulation_next_to_a_dead_cluster_ends_whole_at_sigterm(
    tmp_path: Path, dead_cluster: dict[str, str]
) -> None:
    output, mark = tmp_path / "run", f"DPFOREST_TEST={tmp_path}"
    command = [sys.executable, "-m", "fl_app", *OVERRIDES[2:], "strategy=boost", "strategy.depth=2", "rounds=3000"]
    child = subprocess.Popen(
        [*command, "privacy.epsilon=20", f"output={output}"],
        cwd=ROOT,
        env=environment(tmp_path / "home", DPFOREST_TEST=str(tmp_path), **dead_cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.startswith("exchange 2/"):
                break
        assert len(processes_with(mark)) > 2, "Ray's are among them"
        child.terminate()
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert child.returncode == 128 + signal.SIGTERM, out + err
    assert out.splitlines()[-1] == "interrupted"
    assert "SIGTERM received" not in err
    assert (output / "FAILED.txt").read_text() == "interrupted\n"
    end = time.monotonic() + 30
    while (left := processes_with(mark)) and time.monotonic() < end:
        time.sleep(0.2)
    assert left == []


@pytest.fixture
def flower(tmp_path: Path, dead_cluster: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a SuperLink of this test's own, which ends with the test."""
    port = free_port()
    home = tmp_path / "home"
    home.mkdir()
    # By its address: of a "local" one, `flwr run` asks for a sign of life within 0.4 s, and starts its own without it.
    connection = f'[superlink]\ndefault = "own"\n[superlink.own]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(connection)
    own = environment(home, FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1", **dead_cluster)
    # What `flwr run` would start by itself, but detached and for good.
    command = [
        sys.executable, "-c", _SUPERLINK, "--insecure", "--simulation", "--isolation", "subprocess",
        "--host", "127.0.0.1", "--port", str(port), "--database", str(home / "state.db"),
    ]  # fmt: skip
    with (home / "superlink.log").open("w") as log:
        superlink = subprocess.Popen(
            command, cwd=home, env=own, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait_for(port, superlink, home / "superlink.log")
            yield own
        finally:
            # Its session holds the processes of the run, and nothing else.
            os.killpg(superlink.pid, signal.SIGTERM)
            try:
                superlink.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(superlink.pid, signal.SIGKILL)
                superlink.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the SuperLink did not start: {log.read_text()[-2000:]}")


def test_flwr_run(tmp_path: Path, flower: dict[str, str]) -> None:
    overrides = [*OVERRIDES, "seed=4", "privacy.epsilon=5"]
    output = tmp_path / "runs"
    done = subprocess.run(
        [
            "flwr", "run", str(ROOT), "--stream", "--federation-config", "num-supernodes=2",
            "--run-config", f"overrides='{' '.join(overrides)}' output='{output}'",
        ],
        cwd=tmp_path, env=flower, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    said = done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0, said
    (run,) = find_runs([output])
    check_same(read_run(run).metrics, json.loads(json.dumps(in_process(overrides))))
    assert str(run) in done.stdout, said
    assert "balanced accuracy" in done.stdout, said


def test_flwr_run_names_a_wrong_override(tmp_path: Path, flower: dict[str, str]) -> None:
    done = subprocess.run(
        [
            "flwr", "run", str(ROOT), "--stream", "--federation-config", "num-supernodes=2",
            "--run-config", f"overrides='strategy.dept=3' output='{tmp_path / 'runs'}'",
        ],
        cwd=tmp_path, env=flower, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "no option 'strategy.dept'; did you mean 'strategy.depth'?" in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()

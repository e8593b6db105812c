"""Run folders are written whole or not at all, and a failed run says so."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hand_made import CLIENTS, Interfering, make, write_table

from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import default_output, run_job
from fl_app.results.rows import write_results
from fl_app.results.run_folder import OutputError, RunFolder, find_runs, is_finished
from fl_app.terminal.interrupts import interruptible
from strategies.method import TooFewClients

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests" / "helpers"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"))


def job(dataset: dict[str, Any], output: Path, app: Any = client_app) -> None:
    run_job(make(dataset), InProcessGrid(app, CLIENTS), output)


def _raise(message: object, honest: object) -> Any:
    raise RuntimeError("no power")


def test_a_failed_run_says_why_and_is_not_found(dataset: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TooFewClients):
        job(dataset, tmp_path / "run", Interfering(dict.fromkeys(range(CLIENTS), _raise)))
    reason = (tmp_path / "run" / "FAILED.txt").read_text()
    assert reason.startswith("TooFewClients: round 1: 0 of 4 clients")
    assert "no power" in reason
    assert (tmp_path / "run" / "config.yaml").is_file(), "what was tried can be read and tried again"
    assert not is_finished(tmp_path / "run")
    assert find_runs([tmp_path]) == []
    assert os.listdir(tmp_path) == ["run"]


def test_results_that_cannot_be_written_make_a_failed_run(
    dataset: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, rows: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fl_app.results.run_folder.write_table", full)
    with pytest.raises(
        OutputError, match=r"cannot write .*No space left on device; make room there, or choose another"
    ):
        job(dataset, tmp_path / "run")
    assert sorted(os.listdir(tmp_path / "run")) == ["FAILED.txt", "config.yaml", "run.log"], "no half of the results"
    assert "No space left" in (tmp_path / "run" / "FAILED.txt").read_text()
    assert not is_finished(tmp_path / "run")
    assert find_runs([tmp_path]) == []


@pytest.mark.parametrize("place", ["file/below/run", "file", "/proc/dpforest/run"])
def test_a_folder_that_cannot_be_written_is_named(dataset: dict[str, Any], tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")  # also for root, whom permissions do not stop
    asked: list[object] = []
    with pytest.raises(OutputError, match=r"cannot write .*choose another folder with output=") as caught:
        job(dataset, tmp_path / place, lambda *call: asked.append(call))
    assert "\n" not in str(caught.value)
    assert not asked, "nobody computes for nothing"
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_no_write_permission_is_named(dataset: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    with pytest.raises(OutputError, match=r"cannot write .*run: Permission denied; choose another folder"):
        job(dataset, tmp_path / "run")


def test_a_folder_with_files_is_left_alone(dataset: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds files already: choose another output folder"):
        job(dataset, tmp_path / "run")
    assert os.listdir(tmp_path / "run") == ["precious.txt"]
    assert os.listdir(tmp_path) == ["run"]


def test_an_empty_folder_is_used(dataset: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    job(dataset, tmp_path / "run")
    assert find_runs([tmp_path]) == [tmp_path / "run"]


def test_logging_is_as_before_afterwards(dataset: dict[str, Any], tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    job(dataset, tmp_path / "run")
    with pytest.raises(TooFewClients):
        job(dataset, tmp_path / "failed", Interfering(dict.fromkeys(range(CLIENTS), _raise)))
    assert logging.getLogger().handlers == before


def test_what_was_clipped_is_in_the_log_of_a_simulation(tmp_path: Path) -> None:
    """A column in another unit is all upper bound, and the budget is spent on nothing."""
    dataset = write_table(tmp_path, change="\n".join(f"c{i % CLIENTS},0.5,{i},low" for i in range(2, 22)))
    run_job(make(dataset), InProcessGrid(client_app, CLIENTS), tmp_path / "run")
    said = "WARNING table: 20 cells outside their public bounds were clipped: b 5.26%; is a unit or a bound wrong?"
    assert said in (tmp_path / "run" / "run.log").read_text()


def test_default_folders_do_not_collide(dataset: dict[str, Any], tmp_path: Path) -> None:
    experiment = make(dataset)
    names = set()
    for _ in range(3):
        output = default_output(experiment, tmp_path)
        output.mkdir()
        names.add(output.name)
    assert len(names) == 3
    assert all("one_shot-table" in name for name in names)


KILLED = """
import sys, time
from pathlib import Path
from hand_made import CLIENTS, Interfering, make
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job

def wait(message, honest):
    Path(sys.argv[2]).touch()
    time.sleep(1200)

settings = dict(zip(("name", "path", "schema", "client_column"), sys.argv[3:]))
run_job(make(settings), InProcessGrid(Interfering({2: wait}), CLIENTS), Path(sys.argv[1]))
"""


def test_a_run_killed_half_way_leaves_nothing_that_looks_finished(dataset: dict[str, Any], tmp_path: Path) -> None:
    half_way = tmp_path / "half way"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "sweep" / "run"), str(half_way)]
    command += [str(dataset[key]) for key in ("name", "path", "schema", "client_column")]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])}
    child = subprocess.Popen(command, env=paths)
    try:
        end = time.monotonic() + 300
        while not half_way.exists() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert half_way.exists()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not (tmp_path / "sweep" / "run").exists()
    assert find_runs([tmp_path]) == []
    write_results(tmp_path / "sweep")
    assert not (tmp_path / "sweep" / "results.csv").exists()
    job(dataset, tmp_path / "sweep" / "run")
    assert find_runs([tmp_path]) == [tmp_path / "sweep" / "run"], "the same folder can be used again"
    assert [path.name for path in (tmp_path / "sweep").iterdir() if path.is_dir()] == ["run"]


# Root is stopped by no permission and has no small disk, but its files have a limit too.
LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from fl_app.commands.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""


def command(dataset: dict[str, Any], *arguments: str) -> list[str]:
    table = [f"dataset.{key}={value}" for key, value in dataset.items() if key != "name"]
    return ["engine.kind=in_process", "dataset=table", *table, *arguments]


def started(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *arguments], env=environment, text=True, **pipes, **options)


@pytest.mark.parametrize(("limit", "left"), [(20, None), (400, None), (3000, ["FAILED.txt", "config.yaml", "run.log"])])
def test_a_full_disk_is_one_line_and_leaves_nothing_half(
    dataset: dict[str, Any], tmp_path: Path, limit: int, left: list[str] | None
) -> None:
    pytest.importorskip("resource")
    output = tmp_path / "runs" / "run"
    wanted = command(dataset, "strategy.depth=6", "strategy.trees=1", f"output={output}")
    child = started(["-c", LIMITED, str(limit), *wanted])
    out, err = child.communicate(timeout=300)
    assert (child.returncode, err) == (1, ""), out
    assert out.splitlines()[-1].startswith(f"error: cannot write {output}: File too large; make room there, or choose")
    if left is None:
        assert os.listdir(output.parent) == []
    else:
        assert sorted(os.listdir(output)) == left
        assert "File too large" in (output / "FAILED.txt").read_text()
    assert find_runs([tmp_path]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_the_folder_says_so(dataset: dict[str, Any], tmp_path: Path, number: int) -> None:
    output = tmp_path / "runs" / "run"
    wanted = command(
        dataset, "strategy=boost", "strategy.depth=2", "rounds=3000", "privacy.epsilon=20", f"output={output}"
    )
    child = started(["-m", "fl_app", *wanted])
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.startswith("exchange 3/"):
                child.send_signal(number)
                break
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert (child.returncode, err) == (128 + number, "")
    assert out.splitlines()[-1] == "interrupted"
    assert sorted(os.listdir(output)) == ["FAILED.txt", "config.yaml", "run.log"]
    assert (output / "FAILED.txt").read_text() == "interrupted\n"
    assert os.listdir(output.parent) == ["run"]


def _swallow(message: object, honest: object) -> Any:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    raise SystemError("a library took it for an error of its own")


def test_an_interrupt_is_no_failure_of_a_client(dataset: dict[str, Any], tmp_path: Path) -> None:
    with interruptible(), pytest.raises(KeyboardInterrupt):
        job(dataset, tmp_path / "run", Interfering({2: _swallow}))
    assert (tmp_path / "run" / "FAILED.txt").read_text() == "interrupted\n"
    assert find_runs([tmp_path]) == []
    job(dataset, tmp_path / "next")  # which nobody has interrupted
    assert find_runs([tmp_path]) == [tmp_path / "next"]


def test_a_second_run_into_the_same_folder_is_refused_at_its_start(dataset: dict[str, Any], tmp_path: Path) -> None:
    half_way = tmp_path / "half way"
    arguments = [str(tmp_path / "run"), str(half_way)]
    child = started(["-c", KILLED, *arguments, *(str(dataset[k]) for k in ("name", "path", "schema", "client_column"))])
    try:
        end = time.monotonic() + 300
        while not half_way.exists() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        asked: list[object] = []
        with pytest.raises(
            OutputError, match=f"process {child.pid} is writing a run to .*choose another output folder"
        ):
            job(dataset, tmp_path / "run", lambda *call: asked.append(call))
        assert not asked, "nobody computes for nothing"
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()


def test_nor_may_two_runs_of_one_process_share_a_folder(dataset: dict[str, Any], tmp_path: Path) -> None:
    experiment = make(dataset)
    with RunFolder(tmp_path / "run").recording(experiment):
        for _ in range(2):
            with (
                pytest.raises(OutputError, match="is writing a run"),
                RunFolder(tmp_path / "run").recording(experiment),
            ):
                pass
        taken = default_output(experiment, tmp_path / "base")
        with RunFolder(taken).recording(experiment):
            assert default_output(experiment, tmp_path / "base") != taken
    assert os.listdir(tmp_path / "run")

"""The example of a federation, with TLS, keys and processes as owners have them; all on loopback."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpforest
from fl_app.results.finished import read_run
from fl_app.results.run_folder import find_runs

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "federation"))
from one_machine import Federation, boost_while_a_node_is_away, make_node

pytestmark = pytest.mark.e2e

# The bundle of somebody who may start runs: the server's part is dpforest's, the clients' is not.
_PROJECT = """\
[project]
name = "dpforest"
version = "{version}"
[tool.flwr.app]
publisher = "dpforest"
[tool.flwr.app.components]
serverapp = "taken.server:app"
clientapp = "taken.client:app"
[tool.flwr.app.config]
overrides = ""
output = ""
"""
_SERVER = """\
from fl_app import server_app
app = server_app.app
"""
# As it was tried on a plain SuperNode, which returned the rows.
_CLIENT = """\
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
Path({mark!r}).write_text("the code of a run was here")

@app.train()
def train(message, context):
    rows = Path(context.node_config["data-path"]).read_text()
    return Message(RecordDict({{"config": ConfigRecord({{"error": rows}})}}), reply_to=message)
"""


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("federation")) as federation:
        for number in range(federation.nodes):
            federation.register(number)
            federation.start_node(number)
        for number in range(federation.nodes):
            federation.wait_for(f"node{number}", "answers")
        yield federation


def _bundle(folder: Path, version: str, mark: Path) -> Path:
    package = folder / "taken"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT.format(version=version))
    (package / "__init__.py").touch()
    (package / "server.py").write_text(_SERVER)
    (package / "client.py").write_text(_CLIENT.format(mark=str(mark)))
    return folder


def _run(federation: Federation, app: Path, output: Path) -> str:
    # Whatever the status: `flwr run --stream` ends with 0 for a failed run.
    command = federation.run_command("strategy=one_shot privacy.epsilon=1 timeout=120", output, app)
    return subprocess.run(
        command, env=federation.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600
    ).stdout


def test_the_code_of_a_run_is_not_executed_and_gets_ordinary_answers(federation: Federation, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    said = _run(federation, _bundle(tmp_path / "app", dpforest.__version__, mark), tmp_path / "runs")
    assert "round 1/1: 3/3 clients" in said
    assert not mark.exists()
    (run,) = find_runs([tmp_path / "runs"])
    assert "epsilon = 1 (pure) for one record" in str(read_run(run).privacy["guarantee"])
    assert "1.0" in federation.status(0)


def test_a_bundle_of_another_version_is_refused_in_one_line(federation: Federation, tmp_path: Path) -> None:
    said = _run(federation, _bundle(tmp_path / "app", "9.9.9", tmp_path / "mark"), tmp_path / "runs")
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "no node introduced itself" in line
    assert f"this node runs dpforest {dpforest.__version__}, and the run was started with version 9.9.9" in line
    assert not find_runs([tmp_path / "runs"])
    assert not (tmp_path / "mark").exists()


def test_a_node_that_is_killed_comes_back_with_its_ledger(federation: Federation) -> None:
    boost_while_a_node_is_away(federation)
    (run,) = [run for run in find_runs([federation.folder / "runs"]) if "boost" in run.name]
    with (run / "rounds.csv").open() as file:
        answered = [row["answered"] for row in csv.DictReader(file)]
    assert "2" in answered or "1" in answered, "it was missed"
    assert answered[-1] == "3", "and took part again; how many exchanges it cost depends on how busy the machine is"
    boosts = [line.split() for line in federation.status(1).splitlines() if " boost " in line]
    assert len(boosts) == 1


def test_a_node_with_a_wrong_key_is_turned_away(federation: Federation) -> None:
    folder = federation.folder / "stranger"
    make_node(folder, 7)
    stranger = federation.start("stranger", federation.node_command(folder))
    assert stranger.wait(120) == 1
    said = federation.log("stranger")
    assert said.count("\n") == 1
    assert "turns this node away" in said
    assert "flwr supernode register" in said

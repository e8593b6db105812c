"""The node configuration as owners write it: what is misspelt or of a wrong type allows nothing, and costs nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType
from hand_made import SCHEMA, make, raw_array, write_table
from one_node import ask, error, node, own, spent_nothing

from fl_app.client_app import app
from fl_app.engine.in_process import InProcessGrid
from strategies.messages import ARRAYS
from strategies.node.budget_file import BudgetFile


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture(autouse=True)
def _outside_of_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    InProcessGrid(app, 1)
    monkeypatch.delitem(sys.modules, "ray", raising=False)


EXPERIMENT = make({"name": "table", "schema": SCHEMA})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max-epsilom", "max-epsilon"),
        ("max_epsilon", "max-epsilon"),
        ("Max-Epsilon", "max-epsilon"),
        ("max.epsilon", "max-epsilon"),
        ("epsilon", "max-epsilon"),
        ("delta", "max-delta"),
        ("max-trees", "max-"),
        ("budget_file", "budget-file"),
        ("budget", "budget-file"),
        ("strategy", "strategies"),
        ("strategys", "strategies"),
        ("row", "rows"),
        ("state_folder", "state-folder"),
        ("share_metrics", "share-metrics"),
    ],
)
@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
def test_a_misspelt_limit_allows_nothing(dataset: dict[str, Any], key: str, meant: str, kind: str) -> None:
    """Else a node would spend what is usual while its owner believes in a limit."""
    said = error(ask(node(**own(dataset, **{key: 0.1})), EXPERIMENT, kind, clients=1))
    assert said.startswith(f"Refused: this node's configuration says {key}, which is no setting of dpforest")
    assert f"did you mean {meant}" in said


@pytest.mark.parametrize("key", ["data_path", "datapath", "dataset-path"])
def test_a_misspelt_path_is_named(key: str) -> None:
    assert "did you mean data-path" in error(ask(node(**{key: "/x"}), EXPERIMENT, clients=1))


def test_what_other_programs_of_a_node_are_given_is_not_ours(dataset: dict[str, Any]) -> None:
    others = {"num-partitions": 10, "gpu": True, "name": "ward 3", "log-level": "INFO", "dataset-path": "/x"}
    assert ARRAYS in ask(node(**own(dataset, **others)), EXPERIMENT, clients=1)


def test_readme_and_the_page_on_nodes_warn_of_a_plain_supernode() -> None:
    root = Path(__file__).parents[3]
    words = {
        "README.md": "executes the ClientApp of whoever starts a run",
        "docs/how-to/real-nodes.md": "installs and executes the",
    }
    for page, warning in words.items():
        assert warning in " ".join((root / page).read_text(encoding="utf-8").replace("**", "").split())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"data-path": 5}, "data-path 5 must be the path of a file or a folder"),
        ({"data-path": True}, "data-path True must be the path"),
        ({"data-path": ""}, "data-path '' must be the path"),
        ({"data-path": "a\0b"}, "data-path must be the path of a file or a folder that is there"),
        ({"data-path": "/nowhere/mine.csv"}, "data-path must be the path of a file or a folder that is there"),
        ({"data-path": None}, "this node has no data-path"),
        ({"strategies": ""}, "does not take part in strategy one_shot"),
        ({"strategies": " , "}, "does not take part in strategy one_shot"),
        ({"strategies": 5}, "does not take part in strategy one_shot"),
        ({"strategies": False}, "does not take part in strategy one_shot"),
        ({"state-folder": ""}, "its owner sets state-folder"),
        ({"state-folder": 5}, "its owner sets state-folder"),
        ({"state-folder": False}, "its owner sets state-folder"),
    ],
)
def test_what_is_no_value_of_a_key_allows_nothing_and_costs_nothing(
    dataset: dict[str, Any], settings: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db")} | settings)
    rules = {key: value for key, value in rules.items() if value is not None}
    said = error(ask(node(**rules), EXPERIMENT, clients=1))
    assert reason in said
    assert "/nowhere" not in said, "where files are is no business of a server's"
    assert [file.name for file in tmp_path.iterdir()] == ["spent.db"]
    assert spent_nothing(tmp_path / "spent.db")


@pytest.mark.parametrize(
    ("source", "has_path", "reason"),
    [
        ({"name": "hapt"}, True, "hapt does not read a node's own files"),
        ({"name": "hugadb"}, True, "hugadb does not read a node's own files"),
        ({"name": "exercise"}, False, "this node has no data-path"),
        ({"name": "exercise", "synthetic": 10_000, "synthetic_minutes": 10_080}, False, "makes no rows up"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else None,
)
def test_a_data_set_that_a_node_cannot_have_costs_nothing(
    dataset: dict[str, Any], source: dict[str, Any], has_path: bool, reason: str, tmp_path: Path
) -> None:
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db")})
    if not has_path:
        del rules["data-path"]
    clients = 10_000 if "synthetic" in source else 30 if source["name"] == "hapt" else 18 if has_path else 1
    said = error(ask(node(**rules), make(source), clients=clients))
    assert said.startswith("Refused: ")
    assert reason in said
    assert spent_nothing(tmp_path / "spent.db")


def test_a_message_that_cannot_be_read_costs_nothing(dataset: dict[str, Any], tmp_path: Path) -> None:
    rules = own(dataset, **{"budget-file": str(tmp_path / "spent.db")})
    said = error(ask(node(**rules), EXPERIMENT, MessageType.TRAIN, {"x": raw_array(b"\x80\x04N.")}, clients=1))
    assert "array 'x' cannot be read" in said
    assert spent_nothing(tmp_path / "spent.db")
    context = node(**rules)
    assert ARRAYS in ask(context, EXPERIMENT, clients=1)
    assert len(BudgetFile(tmp_path / "spent.db").runs()) == 1

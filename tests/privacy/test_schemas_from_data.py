"""A schema whose bounds or values were read off data guarantees nothing, whoever uses it and however it travels."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from flwr.app import MessageType
from hand_made import CLIENTS, SCHEMA, Interfering, make, run, table_rows, with_config, write_table
from one_node import ask, error, node, own

import dpforest
from dpforest.errors import PrivacyLeakWarning, SchemaError
from dpforest.forest import load, save
from dpforest.schema import Schema
from fl_app.commands.cli import main as dpforest_command
from fl_app.data import DataSource, build_source

LEAK = "bounds, categories or classes of b, kind were read off data: write public ones into the schema"
READ = SCHEMA | {"from_data": ["b", "kind"]}
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "one_shot"},
    {"name": "boost"},
    {"name": "fext", "k": None},
    {"name": "ldp_bagging"},
    {"name": "pp_fprf", "k": 2},
    {"name": "standalone"},
    {"name": "centralized"},
)


def test_a_list_of_columns_or_all_of_them() -> None:
    schema = Schema.from_dict(READ)
    assert LEAK in schema.leak
    assert "take these names out of its from_data" in schema.leak
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.from_dict(SCHEMA | {"from_data": True}).from_data == ("a", "b", "kind")
    for nothing in (False, []):
        assert Schema.from_dict(SCHEMA | {"from_data": nothing}) == Schema.from_dict(SCHEMA)
    assert "from_data" not in Schema.from_dict(SCHEMA).to_dict()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yes", "from_data 'yes' must be true, false or a list of columns"),
        (1, "from_data 1 must be true, false or a list of columns"),
        (["B"], "from_data names 'B', which is neither a column nor the target"),
        (["knd"], r"from_data names 'knd', .* \(is it 'kind'\?\)"),
        (["a", "a"], "from_data names a column more than once"),
        ([True], "from_data: True is a truth value in YAML"),
    ],
)
def test_what_cannot_be_read_is_refused(given: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(SCHEMA | {"from_data": given})


def test_a_categorical_column_is_named_as_one() -> None:
    column = {"name": "site", "categories": ["north", "south"]}
    plain = SCHEMA | {"features": [column, *SCHEMA["features"]]}  # type: ignore[misc]
    assert Schema.from_dict(plain | {"from_data": ["site"]}).from_data == ("site",)
    assert Schema.from_dict(plain | {"from_data": True}).from_data == ("site", "a", "b", "kind")
    with pytest.raises(SchemaError, match="from_data names 'site=north'"):
        Schema.from_dict(plain | {"from_data": ["site=north"]})


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
def test_no_federated_run_has_a_guarantee(
    tmp_path: Path, method: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    dataset = write_table(tmp_path, schema=READ)
    experiment = make(
        dataset,
        privacy={"delta": 1e-6, "trust": "shared" if method["name"] == "boost" else None},
        strategy=method,
        rounds=1 if method["name"] == "boost" else None,
    )
    with caplog.at_level("WARNING"):
        done = run(experiment)
    assert not done.privacy["holds"]
    assert done.privacy["epsilon"] == "inf"
    assert any(LEAK in reason for reason in done.privacy["reasons"])
    for ledger in done.privacy["clients"].values():
        assert LEAK in ledger["guarantee"]
    assert any("UNPROTECTED: " + LEAK in record.getMessage() for record in caplog.records)


def test_a_client_that_hides_it_changes_nothing(tmp_path: Path) -> None:
    """Nor one that answers nothing."""

    def bare(message: Any, honest: Any) -> Any:
        reply = honest()
        ledger = json.loads(reply.content["config"]["ledger"])
        ledger["entries"] = [entry for entry in ledger["entries"] if entry["protected"]]
        return with_config(ledger=json.dumps(ledger))(message, lambda: reply)

    def silent(message: Any, honest: Any) -> Any:
        raise TimeoutError

    done = run(make(write_table(tmp_path, schema=READ)), app=Interfering({0: bare, 1: silent}))
    for client in range(CLIENTS):
        assert LEAK in done.privacy["clients"][str(client)]["guarantee"]


@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
@pytest.mark.parametrize("from_data", [["b"], True])
def test_a_real_node_refuses_it_whatever_its_rows(tmp_path: Path, kind: str, from_data: Any) -> None:
    dataset = write_table(tmp_path, schema=SCHEMA)
    experiment = make({"name": "table", "schema": SCHEMA | {"from_data": from_data}})
    answers = set()
    for rows in (None, "client,a,b,kind\n", "client,a,b,kind\nc0,broken,0.1,low\n"):
        if rows is not None:
            Path(dataset["path"]).write_text(rows)
        reply = ask(node(**own(dataset, **{"share-metrics": True, "strategies": "one_shot"})), experiment, kind)
        assert reply["config"]["refused"]
        answers.add(error(reply))
    assert len(answers) == 1
    assert "this node takes part in no run without a guarantee, and the schema has none: bounds" in answers.pop()


def test_a_draft_from_data_is_marked_until_it_is_mended(tmp_path: Path) -> None:
    dataset = write_table(tmp_path)
    out = tmp_path / "drafted.yaml"
    command = ["data", "schema", dataset["path"], "--target", "kind", "--leave-out", "client", "--from-data"]
    assert dpforest_command([*command, "--out", str(out)]) == 0
    plain = yaml.safe_load(out.read_text())
    assert plain["from_data"] == ["kind", "a", "b"]
    assert not run(make(dataset | {"schema": str(out)})).privacy["holds"]
    del plain["from_data"]
    out.write_text(yaml.safe_dump(plain))
    assert run(make(dataset | {"schema": str(out)})).privacy["holds"]


def estimator(name: str, **parameters: Any) -> Any:
    return getattr(dpforest, name)(random_state=0, **parameters)


@pytest.mark.parametrize("name", ["PrivateForestClassifier", "PrivateBoostClassifier"])
def test_no_estimator_has_a_guarantee(name: str, tmp_path: Path) -> None:
    X, y = table_rows(300)
    schema = Schema.from_dict(READ)
    with pytest.warns(PrivacyLeakWarning, match=f"no privacy guarantee: {LEAK}") as caught:
        model = estimator(name, schema=schema).fit(X, np.array(SCHEMA["classes"])[y])
    assert caught[0].filename == __file__, "the warning points at the caller"
    assert model.privacy_.guarantee().reasons == (schema.leak,)
    assert load(model.save(tmp_path / "model.json")).schema.from_data == ("b", "kind")
    again = type(model).load(tmp_path / "model.json")
    assert again.schema is None
    assert not again.privacy_.guarantee().holds


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("name", ["PrivateForestClassifier", "PrivateForestRegressor"])
def test_what_an_estimator_read_off_the_data_is_not_public_in_its_schema(name: str, frame: bool) -> None:
    """Neither for the next fit, nor for a federation."""
    X, y = table_rows(300)
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": np.where(X[:, 1] > 0.5, "n", "s")}) if frame else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        read = estimator(name).fit(rows, y).forest_.schema
        again = estimator(name, schema=read).fit(rows, y.astype(str) if "Class" in name else y)
    assert read.from_data == (("site", "a", "b") if frame else ("x0", "x1")) + ("target",)
    assert not again.privacy_.guarantee().holds


def test_public_facts_leave_nothing_behind() -> None:
    X, y = table_rows(300)
    model = estimator("PrivateForestClassifier", bounds=[(0, 1)] * 2, classes=[0, 1, 2]).fit(X, y)
    assert model.forest_.schema.from_data == ()
    assert model.privacy_.guarantee().holds


def test_a_saved_forest_keeps_it(tmp_path: Path) -> None:
    forest = estimator("PrivateForestClassifier", bounds=[(0, 1)] * 2, classes=[0, 1, 2]).fit(*table_rows(300)).forest_
    marked = Schema.from_dict(forest.schema.to_dict() | {"from_data": True})
    assert load(save(dataclasses.replace(forest, schema=marked), tmp_path / "f.json")).schema == marked


def test_the_data_set_of_a_table_says_so(tmp_path: Path) -> None:
    source: DataSource = build_source(
        "table", {k: v for k, v in write_table(tmp_path, schema=READ).items() if k != "name"}
    )
    assert source.schema().leak
    assert source.settings_for_nodes()["schema"]["from_data"] == ["b", "kind"]

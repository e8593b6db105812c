"""A table with gaps gives the same rows in a simulation, on a node, in prediction and to an estimator."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from hand_made import run

from dpforest import PrivateBoostClassifier
from dpforest.cells import NA_VALUES, NaValues
from dpforest.errors import DPForestError
from dpforest.forest import save
from dpforest.schema import Schema
from fl_app.data import DataSource, build_source, describe_dropped
from fl_app.data.reading.cells import ArrowColumn
from fl_app.engine.experiment import Experiment
from fl_app.results.prediction import predict_file
from strategies.method import TooFewClients

FEATURES = [
    {"name": "age", "low": 0, "high": 120},
    {"name": "site", "categories": ["north", "south"]},
    {"name": "dose", "low": 0, "high": 10},
]
SCHEMA: dict[str, Any] = {"target": "outcome", "classes": ["no", "yes"], "rows": 100, "features": FEATURES}
RULES: dict[str, dict[str, Any]] = {
    "branch": {"missing": "branch"},
    "drop": {"missing": "drop"},
    "each its own": {
        "features": [
            FEATURES[0] | {"missing": "branch"},
            FEATURES[1] | {"missing": "drop", "other": True},
            FEATURES[2] | {"missing": "branch"},
        ]
    },
    "own words": {"missing": "drop", "na_values": ["-1", "unknown"]},
}


def table(seed: int = 0, n: int = 300) -> pd.DataFrame:
    """Text cells with gaps in many words; every cell that is no gap fits the schema ``each its own``."""
    rng = np.random.default_rng(seed)
    gaps = np.array(["", "?", "NA", "n/a", "NaN", "null", "None"])

    def with_gaps(cells: np.ndarray) -> np.ndarray:
        return np.where(rng.random(n) < 0.2, gaps[rng.integers(len(gaps), size=n)], cells)

    return pd.DataFrame(
        {
            "client": rng.choice(["a", "b"], n),
            "age": with_gaps(rng.integers(-5, 130, n).astype(str)),
            "site": with_gaps(rng.choice(["north", "south"], n)),
            "dose": with_gaps(rng.uniform(0, 11, n).round(2).astype(str)),
            "outcome": rng.choice(["no", "yes"], n),
        }
    )


def as_words(frame: pd.DataFrame, rules: str) -> pd.DataFrame:
    """The gaps that the rules know."""
    if rules != "own words":
        return frame
    gaps = frame[["age", "site", "dose"]].apply(lambda column: column.str.casefold().isin(GAPS))
    return frame.mask(gaps.reindex(columns=frame.columns, fill_value=False), "-1")


GAPS = ["", "?", "na", "n/a", "nan", "null", "none"]


def source(tmp_path: Path, frame: pd.DataFrame, schema: dict[str, Any], suffix: str = ".csv") -> DataSource:
    file = tmp_path / f"table{suffix}"
    if suffix == ".csv":
        frame.to_csv(file, index=False)
    else:
        frame.to_parquet(file)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    return build_source(
        "table", {"path": str(file), "schema": str(tmp_path / "schema.yaml"), "client_column": "client"}
    )


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table as pandas would hold it: NaN in numbers, None in text."""
    frame = frame.copy()
    for name in ("age", "dose"):
        frame[name] = pd.to_numeric(frame[name].where(~frame[name].str.casefold().isin(GAPS), None))
    frame["site"] = frame["site"].where(~frame["site"].str.casefold().isin(GAPS), None).astype(object)
    return frame


@pytest.mark.parametrize("rules", RULES)
def test_the_same_rows_everywhere(tmp_path: Path, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = as_words(table(), rules)
    plain = SCHEMA | RULES[rules]
    schema = Schema.from_dict(plain)
    simulated = source(tmp_path, frame, plain)
    by_client = {name: simulated.load(name) for name in ("a", "b")}
    seen: list[np.ndarray] = []

    def remember(X: np.ndarray, y: np.ndarray, *rest: Any) -> Any:
        seen.append(X)
        return boost(X, y, *rest)

    from dpforest.estimators.boost import boost

    monkeypatch.setattr("dpforest.estimators.boost.boost", remember)
    estimator = PrivateBoostClassifier(schema=schema, rounds=1, random_state=0)
    for name, rows in by_client.items():
        mine = frame[frame["client"] == name]
        assert 20 < len(rows) <= len(mine)
        assert (len(rows) < len(mine)) == ("branch" not in rules)
        own = tmp_path / name
        own.mkdir()
        mine.to_csv(own / f"{name}.csv", index=False)
        on_node, _ = simulated.at(str(own / f"{name}.csv")).node_rows(name)
        np.testing.assert_array_equal(on_node.X, rows.X)
        np.testing.assert_array_equal(on_node.y, rows.y)
        estimator.fit(mine, mine["outcome"])
        np.testing.assert_array_equal(seen[-1], rows.X)
        predictions, notes = predict_file(estimator.forest_, own / f"{name}.csv")
        known = predictions["probability_yes"].notna().to_numpy()
        np.testing.assert_allclose(predictions["probability_yes"][known], estimator.forest_.predict_proba(rows.X)[:, 1])
        left_out = [note for note in notes if "the model's schema leaves such rows out: there is no prediction" in note]
        assert bool(left_out) == ("branch" not in rules)
        if rules != "own words":
            estimator.fit(typed(mine), mine["outcome"])
            np.testing.assert_array_equal(seen[-1], rows.X)


@pytest.mark.parametrize("rules", ["branch", "drop"])
def test_parquet_with_types_gives_the_rows_of_the_csv(tmp_path: Path, rules: str) -> None:
    frame = table()
    text, parquet = tmp_path / "text", tmp_path / "typed"
    text.mkdir()
    parquet.mkdir()
    wanted = source(text, frame, SCHEMA | RULES[rules]).load("a")
    found = source(parquet, typed(frame), SCHEMA | RULES[rules], ".parquet").load("a")
    np.testing.assert_array_equal(found.X, wanted.X)
    np.testing.assert_array_equal(found.y, wanted.y)


TEXT = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "dictionary")
NUMBERS = ("int8", "uint64", "float16", "float32", "float64", "bool_", "null")


@pytest.mark.parametrize("kind", TEXT + NUMBERS)
def test_gaps_are_found_in_columns_of_every_type(kind: str) -> None:
    """One that fails only where a cell is missing would show on a node that there is such a row."""
    type_ = pa.dictionary(pa.int8(), pa.string()) if kind == "dictionary" else getattr(pa, kind)()
    cells = [None] * 3 if kind == "null" else [1, None, 0] if kind in NUMBERS else ["1", None, "0"]
    cells = [True, None, False] if kind == "bool_" else cells
    if kind == "float16":
        cells = [np.float16(1), None, np.float16(0)]
    for some in (cells, []):
        column = ArrowColumn(pa.chunked_array([pa.array(some, type_), pa.array(some, type_)]))
        missing = NaValues(NA_VALUES).among_numbers(column, column.numbers())
        assert missing.tolist() == [cell is None for cell in some] * 2
        assert [column.text()[row] == "" for row in range(len(missing))] == missing.tolist()


def test_a_refused_gap_is_an_error_here_and_one_row_less_on_a_node(tmp_path: Path) -> None:
    frame = table()
    whole = ~frame.apply(lambda column: column.str.casefold().isin(GAPS)).any(axis=1)
    simulated = source(tmp_path, frame, SCHEMA)
    with pytest.raises(
        DPForestError, match=r"table.csv, line \d+: column 'age' is '.*', which is missing: fill it, or"
    ):
        simulated.load("a")
    rows, _ = simulated.at(str(tmp_path / "table.csv")).node_rows("table")
    assert len(rows) == whole.sum()


def test_a_node_goes_by_the_servers_schema_whatever_others_do(tmp_path: Path) -> None:
    """Rules are not a client's own: a node reads its file by the schema that came with the message."""
    frame = table()
    kept = source(tmp_path, frame, SCHEMA | RULES["branch"])
    message = kept.settings_for_nodes()
    rows, _ = kept.at(str(tmp_path / "table.csv")).node_rows("table")
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))  # the node's own wish, which nobody reads
    again, _ = build_source("table", message).at(str(tmp_path / "table.csv")).node_rows("table")
    np.testing.assert_array_equal(again.X, rows.X)
    assert len(rows) == len(frame)


def test_what_was_left_out_is_counted_by_client_and_class(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "client": list("aaaabb"),
            "age": ["1", "", "3", "?", "5", ""],
            "site": "north",
            "dose": "1",
            "outcome": ["no", "no", "yes", "yes", "no", ""],
        }
    )
    simulated = source(tmp_path, frame, SCHEMA | {"missing": "drop"})
    assert simulated.dropped() == {"a": {"no": (1, 2), "yes": (1, 2)}, "b": {"no outcome": (1, 1)}}
    assert describe_dropped(simulated.dropped()) == (
        "3 rows with missing cells were left out, as the schema says (1 no, 1 yes, 1 no outcome): "
        "a: 1 of 2 no, 1 of 2 yes; b: 1 of 1 no outcome"
    )
    assert source(tmp_path, frame[:1], SCHEMA | {"missing": "branch"}).dropped() == {}
    assert describe_dropped({}) == ""


def test_a_column_without_any_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = table().assign(dose="")
    with pytest.raises(DPForestError, match=r"no row is left.* \('dose' has no value at all\): fill it, set branch"):
        source(tmp_path, frame, SCHEMA | {"missing": "drop"}).load("a")
    rows = source(tmp_path, frame, SCHEMA | {"missing": "branch"}).load("a")
    assert (rows.X[:, 1] == -10).all()
    with caplog.at_level(logging.WARNING):
        left, _ = source(tmp_path, frame, SCHEMA).at(str(tmp_path / "table.csv")).node_rows("table")
    assert len(left) == 0
    assert "dose is missing 100.00%" in caplog.text


def words(tmp_path: Path, column: list[str], feature: dict[str, Any], strategy: str = "one_shot") -> Experiment:
    """A run of two clients over one column of words."""
    frame = pd.DataFrame({"client": ["a", "b"] * 60, "site": column * 60, "outcome": ["no", "no", "yes", "yes"] * 30})
    features = [{"name": "site"} | feature]
    dataset = source(tmp_path, frame, {**SCHEMA, "features": features}).settings
    own = {"name": strategy} | ({"pure": True} if strategy == "boost" else {})
    plain = {"name": "table", "path": dataset.path, "schema": dataset.schema, "client_column": "client"}
    return Experiment.from_dict({"strategy": own, "dataset": plain, "privacy": {"epsilon": 20.0}})


@pytest.mark.parametrize(
    ("cells", "feature", "strategy", "message"),
    [
        (["s1", "s2"], {"categories": [f"s{i}" for i in range(10_000)]}, "boost",
         "column 'site' has 10000 categories; boosting takes at most 254: join rare ones"),
        (["", "?"], {"categories": ["s1", "s2"]}, "one_shot", "line 2: column 'site' is '', which is missing: fill it"),
        (["", "?"], {"categories": ["s1", "s2"], "missing": "drop"}, "one_shot", "'site' has no value at all"),
        (["s1", "s1"], {"categories": ["s1"]}, "one_shot", "categories must be two or more different values, got"),
    ],
)  # fmt: skip
def test_a_run_names_in_one_line_what_nothing_can_be_learned_from(
    tmp_path: Path, cells: list[str], feature: dict[str, Any], strategy: str, message: str
) -> None:
    with pytest.raises((DPForestError, TooFewClients)) as refused:
        run(words(tmp_path, cells, feature, strategy), 2)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("cells", "feature"),
    [
        (["NA", "EU"], {"categories": ["NA", "EU"], "missing": "drop"}),
        (["", "?"], {"categories": ["s1", "s2"], "missing": "branch"}),
        (["s1", "s1"], {"categories": ["s1"], "other": True}),
    ],
)
def test_a_run_takes_words_that_the_rules_explain(tmp_path: Path, cells: list[str], feature: dict[str, Any]) -> None:
    done = run(words(tmp_path, cells, feature), 2)
    assert not done.failures
    assert done.metrics["test_rows"] == 24


def test_predictions_are_scored_where_the_target_is_there(tmp_path: Path) -> None:
    frame = table().assign(outcome=lambda rows: np.where(rows["site"] == "south", "yes", "no"))
    schema = Schema.from_dict(SCHEMA | {"missing": "branch"})
    model = PrivateBoostClassifier(epsilon=1e3, schema=schema, rounds=10, random_state=0).fit(frame, frame["outcome"])
    path = save(model.forest_, tmp_path / "forest.json")
    frame.loc[0, "outcome"] = ""
    frame.to_parquet(tmp_path / "new.parquet")
    _, notes = predict_file(model.forest_, tmp_path / "new.parquet")
    assert any(
        note.startswith("score of 299 rows whose outcome is known: accuracy 1, ") and "AUC 1" in note for note in notes
    )
    frame.assign(outcome="maybe").to_csv(tmp_path / "unknown.csv", index=False)
    _, notes = predict_file(model.forest_, tmp_path / "unknown.csv")
    assert "note: unknown.csv: the model knows the outcome of no row, so nothing is scored" in notes
    assert path.is_file()

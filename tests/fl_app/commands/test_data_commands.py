"""``dpforest data check`` for tables, and ``dpforest data schema``: what people see before they join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from dpforest.boosting.columns import Columns
from dpforest.errors import SchemaError
from dpforest.schema import MOST_CATEGORIES, Schema
from fl_app.commands.cli import main as dpforest
from fl_app.data.reading.schema_draft import FILL_IN

SCHEMA: dict[str, Any] = {
    "target": "outcome",
    "classes": ["no", "yes"],
    "features": [
        {"name": "age", "low": 0, "high": 120},
        {"name": "site", "categories": ["north", "south"], "missing": "branch"},
        {"name": "dose", "low": 0, "high": 10, "missing": "drop"},
        {"name": "kind", "categories": ["a", "b"]},
    ],
}
CSV = (
    "client,age,site,dose,kind,outcome\n"
    "a,30,south,1.5,a,yes\n"
    "b,400,north,,a,no\n"
    'a,50,"north,2,a,no\n'
    "a,,?,3,a,no\n"
    "b,old,east,4,a,maybe\n"
    "b,60,east,NA,a,no\n"
    "b,70,,5,a,no\n"
)


def check(tmp_path: Path, content: str, *options: str, schema: dict[str, Any] = SCHEMA) -> int:
    (tmp_path / "table.csv").write_text(content)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    return dpforest(["data", "check", str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.yaml"), *options])


def test_a_table_is_checked_by_file_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, CSV, "--client-column", "client") == 1
    assert capsys.readouterr().out.splitlines() == [
        "table.csv: 7 rows, of which 2 are used",
        "error: table.csv, line 4: a quote is not closed on its line (1 rows); close it; a record is one line, so no "
        "cell may hold a line break",
        "error: table.csv, line 6: column 'age' is 'old', not a finite number: drop or fill such rows first "
        "(in all 'old' 1 times)",
        "error: table.csv, line 5: column 'age' is missing (1 rows, 14.29%): the row is an error in a simulation and "
        "left out on a node: fill it, or set missing: drop or branch",
        "note: table.csv, line 3: column 'dose' is missing (2 rows, 28.57%): the row is left out (missing: drop)",
        "error: table.csv, line 6: column 'site' is 'east', which is not among its categories ['north', 'south', "
        "'missing']: add it to the schema or drop it (in all 'east' 2 times)",
        "note: table.csv, line 5: column 'site' is missing (2 rows, 28.57%): the row is kept, and the cell counts as "
        "missing (missing: branch)",
        "note: table.csv: column 'kind' has the same value in all rows, which tells nothing",
        "error: table.csv, line 6: column 'outcome' is 'maybe', which is not among the classes ['no', 'yes']: add it "
        "to the schema or drop it (in all 'maybe' 1 times)",
        "warning: table.csv, line 3: column 'age' is 400, outside [0, 120]; 1 cells, 25.00%, are clipped: is a unit or "
        "a bound wrong?",
        "table.csv: client '': 0 rows: no 0, yes 0",
        "table.csv: client 'a': 1 rows: no 0, yes 1",
        "table.csv: client 'b': 1 rows: no 1, yes 0",
    ]


def test_a_good_table_passes_with_its_amounts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = "age,site,dose,kind,outcome\n30,south,1,a,yes\n40,north,2,b,no\n"
    assert check(tmp_path, content) == 0
    assert capsys.readouterr().out.splitlines() == [
        "table.csv: 2 rows, of which 2 are used",
        "table.csv: 2 rows: no 1, yes 1",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age,site,dose,kind,outcome\n,south,1,a,yes\n", "the column has no value at all"),
        ("age,site,dose,kind,outcome\n1,south,,a,yes\n", "of which 0 are used"),
        ("age,site,kind,outcome\n1,south,a,yes\n", "no column 'dose'"),
        ("age,site,dose,kind,outcome\n", "0 rows, of which 0 are used"),
    ],
)
def test_a_table_that_cannot_be_used_fails(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, content) == 1
    assert message in capsys.readouterr().out


def test_a_column_of_ten_thousand_categories_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = SCHEMA | {"features": [{"name": "street", "categories": [f"s{i}" for i in range(10_000)]}]}
    assert check(tmp_path, "street,outcome\nelsewhere,yes\n", schema=schema) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "elsewhere" in line]
    assert "and 9990 more" in line
    assert len(line) < 400


def test_more_categories_than_boosting_takes_are_named_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = SCHEMA | {"features": [{"name": "street", "categories": [f"s{i}" for i in range(10_000)]}]}
    check(tmp_path, "street,outcome\ns1,yes\ns2,no\n", schema=schema)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: schema")]
    assert "column 'street' has 10000 categories; boosting takes at most 254" in line
    schema["features"][0] |= {"categories": ["s1"], "other": True}
    check(tmp_path, "street,outcome\ns1,yes\ns2,no\n", schema=schema)
    assert "note: schema" not in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["refuse", "drop", "branch"])
def test_a_category_that_is_a_word_for_missing_too_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    features = [{"name": "site", "categories": ["NA", "EU"], "missing": missing}]
    check(tmp_path, "site,outcome\nNA,yes\nEU,no\nna,no\n", schema=SCHEMA | {"features": features})
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("note: schema")]
    assert "'NA' is a value of 'site' and a word for a missing cell too" in line
    assert any("line 4: column 'site' is missing (1 rows" in line for line in lines)
    assert lines[0] == f"table.csv: 3 rows, of which {3 if missing == 'branch' else 2} are used"


def test_a_regression_target_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"target": "energy", "target_range": [0, 10], "features": [{"name": "age", "low": 0, "high": 120}]}
    assert check(tmp_path, "age,energy\n1,2\n2,11\n3,\n", schema=schema) == 1
    out = capsys.readouterr().out
    assert "line 3: column 'energy' is 11, outside [0, 10]; 1 cells, 50.00%, are clipped" in out
    assert "line 4: column 'energy' is missing (1 rows, 33.33%)" in out


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({}, "left out on a node: fill it, or set missing_target: drop"),
        ({"missing_target": "drop"}, "the row is left out (missing_target: drop)"),
    ],
)
@pytest.mark.parametrize("target", [{"classes": ["2", "3"]}, {"target_range": [0, 10]}])
def test_a_missing_target_is_named_by_the_key_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: dict[str, Any], rule: dict[str, str], said: str
) -> None:
    schema = {"target": "energy", **target, **rule, "features": [{"name": "age", "low": 0, "high": 120}]}
    check(tmp_path, "age,energy\n1,2\n2,3\n3,\n", schema=schema)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "line 4" in line]
    assert line.endswith(said)


def test_several_files_of_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"age": [1.0, None], "outcome": ["no", "yes"]})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_csv(tmp_path / "b.csv", index=False)
    features = [{"name": "age", "low": 0, "high": 120, "missing": "branch"}]
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA | {"features": features}))
    files = [str(tmp_path / "a.parquet"), str(tmp_path / "b.csv")]
    assert dpforest(["data", "check", "--schema", str(tmp_path / "schema.yaml"), *files]) == 0
    out = capsys.readouterr().out
    assert "a.parquet, row 2: column 'age' is missing (1 rows, 50.00%)" in out
    assert "b.csv, line 3: column 'age' is missing (1 rows, 50.00%)" in out
    assert dpforest(["data", "check", "--schema", str(tmp_path / "none.yaml"), *files]) == 1
    assert "no schema file at" in capsys.readouterr().err


def table_file(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {
            "id": ["k1", "k2", "k3"],
            "age": [30.0, None, 50.0],
            "site": ["north", "?", "south"],
            "member": [True, False, True],
            "day": pd.to_datetime(["2024-01-01"] * 3),
            "empty": [None, None, None],
            "outcome": ["no", "yes", "no"],
        }
    )
    frame.to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


def draft(tmp_path: Path, *options: str) -> int:
    out = str(tmp_path / "schema.yaml")
    return dpforest(["data", "schema", str(table_file(tmp_path)), "--target", "outcome", "--out", out, *options])


def test_a_draft_leaves_public_facts_open_and_is_refused_until_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert draft(tmp_path, "--leave-out", "id", "empty") == 0
    out = capsys.readouterr().out
    assert "note: column 'day' holds dates, times or lists and is left out" in out
    assert "4 public facts are left to fill in (FILL IN); then: dpforest data check " in out
    assert f"table.parquet --schema {tmp_path / 'schema.yaml'}" in out
    text = (tmp_path / "schema.yaml").read_text()
    assert not any(value in text for value in ("30", "50", "north", "yes")), "nothing is read off the data"
    plain = yaml.safe_load(text)
    assert plain == {
        "target": "outcome",
        "classes": FILL_IN,
        "missing": "branch",
        "features": [
            {"name": "age", "low": FILL_IN, "high": FILL_IN},
            {"name": "site", "categories": FILL_IN},
            {"name": "member", "low": 0, "high": 1},
        ],
    }
    for message, fact in (
        ("feature 'age': low: expected a number, got 'FILL IN'", {"low": 0, "high": 120}),
        ("feature 'site': categories: expected a list, got 'FILL IN'", {"categories": ["north", "south"]}),
        ("classes: expected a list, got 'FILL IN'", {}),
    ):
        with pytest.raises(SchemaError, match=message):
            Schema.from_dict(plain)
        for item in plain["features"]:
            item |= {name: value for name, value in fact.items() if item.get(name) == FILL_IN}
    plain["classes"] = ["no", "yes"]
    Schema.from_dict(plain)


def test_a_draft_from_the_data_says_that_no_guarantee_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert draft(tmp_path, "--from-data", "--leave-out", "id", "empty") == 0
    assert "no guarantee holds for what is trained with this schema" in capsys.readouterr().out
    assert "READ OFF THE DATA" in (tmp_path / "schema.yaml").read_text()
    schema = Schema.from_yaml(tmp_path / "schema.yaml")
    assert schema.classes == ("no", "yes")
    assert schema.categories == {"site": ("north", "south", "missing")}
    assert (schema.features[0].low, schema.features[0].high) == (30, 50)
    assert schema.from_data == ("outcome", "age", "site"), "not the truth column, whose bounds are known"
    file = str(tmp_path / "table.parquet")
    assert dpforest(["data", "check", file, "--schema", str(tmp_path / "schema.yaml")]) == 0
    assert "warning: no guarantee holds: bounds, categories or classes of" in capsys.readouterr().out


def test_a_folder_of_tables_is_drafted_by_its_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables, out = tmp_path / "tables", tmp_path / "draft.yaml"
    tables.mkdir()
    for name in ("b", "a"):
        (tables / f"{name}.csv").write_text("age,outcome\n30,no\n40,yes\n")
    command = ["data", "schema", str(tables), "--target", "outcome", "--out", str(out)]
    assert dpforest([*command, "--from-data"]) == 1
    assert f"--from-data reads one file, and {tables} has 2: name one" in capsys.readouterr().err
    assert dpforest(command) == 0
    assert "columns of a.csv, the first of 2 files" in capsys.readouterr().out
    assert [feature["name"] for feature in yaml.safe_load(out.read_text())["features"]] == ["age"]


def test_a_draft_names_columns_that_tell_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert draft(tmp_path, "--from-data") == 1
    assert "column 'empty' has no value at all: leave it out" in capsys.readouterr().err
    streets = pd.DataFrame({"street": np.arange(300).astype(str), "outcome": ["a", "b"] * 150})
    streets["street"] = "s" + streets["street"]
    streets.to_csv(tmp_path / "streets.csv", index=False)
    arguments = ["data", "schema", str(tmp_path / "streets.csv"), "--target", "outcome", "--from-data", "--out"]
    assert dpforest([*arguments, str(tmp_path / "streets.yaml")]) == 0
    assert "column 'street' has 300 different values and is left out" in capsys.readouterr().out


@pytest.mark.parametrize(("values", "kept"), [(MOST_CATEGORIES - 1, True), (MOST_CATEGORIES, False)])
def test_boosting_can_learn_from_what_a_draft_keeps(tmp_path: Path, values: int, kept: bool) -> None:
    streets = pd.DataFrame({"street": [f"s{i}" for i in range(values)], "n": range(values)})
    streets["outcome"] = ["a", "b"] * (values // 2) + ["a"] * (values % 2)
    streets.to_csv(tmp_path / "streets.csv", index=False)
    out = tmp_path / "streets.yaml"
    arguments = ["data", "schema", str(tmp_path / "streets.csv"), "--target", "outcome", "--from-data"]
    assert dpforest([*arguments, "--out", str(out)]) == 0
    schema = Schema.from_yaml(out)
    assert ("street" in schema.categories) == kept
    assert Columns(schema).number == 1 + kept


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "schema.yaml").write_text("mine")
    assert draft(tmp_path) == 1
    assert "is there already: name another file with --out" in capsys.readouterr().err
    assert (tmp_path / "schema.yaml").read_text() == "mine"


def test_people_are_asked_where_there_is_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "age: smallest possible value": ["young", "0"],
        "age: largest possible value": ["120"],
        "site: all possible values": ["north, south"],
        "outcome: all possible values": ["no,yes"],
    }

    def answer(question: str) -> str:
        (known,) = [given for words, given in answers.items() if question.startswith(words)]
        return known.pop(0)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    assert draft(tmp_path, "--leave-out", "id", "empty") == 0
    schema = Schema.from_yaml(tmp_path / "schema.yaml")
    assert (schema.features[0].low, schema.features[0].high) == (0, 120)
    assert schema.categories["site"] == ("north", "south", "missing")


def test_numbers_as_a_target_make_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table.csv").write_text("a,y\n1,0\n?,1\n")
    out = tmp_path / "schema.yaml"
    assert dpforest(["data", "schema", str(tmp_path / "table.csv"), "--target", "y", "--out", str(out)]) == 0
    assert yaml.safe_load(out.read_text())["target_range"] == [FILL_IN, FILL_IN]
    assert "if they are names, write classes" in capsys.readouterr().out

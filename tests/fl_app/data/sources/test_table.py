from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from dpforest.errors import SchemaError
from fl_app.data import DataError, DataSource, Evaluation, Partition, build_source, client_data, node_data

SCHEMA = {
    "target": "outcome",
    "classes": ["no", "yes"],
    "rows": 100,
    "features": [
        {"name": "age", "low": 0, "high": 120, "unit": "years"},
        {"name": "site", "categories": ["north", "south", "NA"]},
        {"name": "dose", "low": 0, "high": 10},
    ],
}
CSV = "client,age,site,dose,outcome\na,30,south,1.5,yes\nb,40,north,2,no\na,50,NA,3,no\n"


def source(tmp_path: Path, content: str | bytes, schema: dict = SCHEMA, **settings: object) -> DataSource:
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    file = tmp_path / "table.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    paths = {"path": str(file), "schema": str(tmp_path / "schema.yaml"), "client_column": "client"}
    return build_source("table", paths | settings)


def check_the_three_rows(table: DataSource) -> None:
    assert table.subjects() == ("a", "b")
    assert table.schema().feature_names == ["age", "dose", "site=north", "site=south", "site=NA"]
    a, b = table.load("a"), table.load("b")
    np.testing.assert_array_equal(a.X, [[30, 1.5, 0, 1, 0], [50, 3, 0, 0, 1]])
    np.testing.assert_array_equal(b.X, [[40, 2, 1, 0, 0]])
    assert a.y.tolist() == [1, 0]
    assert b.y.tolist() == [0]


@pytest.mark.parametrize(
    "content",
    [
        CSV,
        CSV.encode("utf-8-sig"),
        CSV.replace("\n", "\r\n"),
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace(",", ", "),
        CSV.replace("30", '" 30 "').replace("yes", '"yes "'),
        CSV.replace("client,", "extra,client,").replace("\na,", "\n9,a,").replace("\nb,", "\nx,b,"),
        CSV.rstrip("\n"),
        CSV.replace("\n", "\r"),
        CSV.encode("utf-16"),
        CSV.replace(",", ";").replace("1.5", "1,5"),
        CSV.replace("1.5", '"1,5"'),
        CSV.replace(CSV.split("\n")[0], CSV.split("\n")[0].upper()),
        CSV.replace("\n", ",,\n"),
        "\n,,,,\n".join(CSV.split("\n")),
    ],
    ids=[
        "plain",
        "bom",
        "crlf",
        "semicolon",
        "tab",
        "blanks",
        "padded quotes",
        "unused column",
        "no last newline",
        "cr",
        "utf-16",
        "decimal commas",
        "quoted decimal commas",
        "other case",
        "empty cells at the end",
        "blank lines",
    ],
)
def test_csv_dialects(tmp_path: Path, content: str | bytes) -> None:
    check_the_three_rows(source(tmp_path, content))


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "in.csv" if (tmp_path / "in.csv").write_text(CSV) else "", keep_default_na=False)
    check_the_three_rows(source(tmp_path, frame[["dose", "outcome", "site", "client", "age"]].to_csv(index=False)))


def test_parquet(tmp_path: Path) -> None:
    table = source(tmp_path, CSV)
    pd.read_csv(tmp_path / "table.csv", keep_default_na=False).to_parquet(tmp_path / "table.parquet")
    check_the_three_rows(build_source("table", vars(table.settings) | {"path": str(tmp_path / "table.parquet")}))


def test_folder_with_one_file_a_client(tmp_path: Path) -> None:
    table = source(tmp_path, CSV)
    frame, folder = pd.read_csv(tmp_path / "table.csv", keep_default_na=False), tmp_path / "clients"
    folder.mkdir()
    frame[frame.client == "a"].drop(columns="client").to_csv(folder / "a.csv", index=False)
    frame[frame.client == "b"].to_parquet(folder / "b.parquet", index=False)
    (folder / "notes.txt").write_text("not a table")
    (folder / "c.csv").write_text(CSV.split("\n")[0] + "\n")
    table = build_source("table", {"path": str(folder), "schema": table.settings.schema})
    assert table.subjects() == ("a", "b", "c")
    assert table.load("a").y.tolist() == [1, 0]
    assert table.load("b").y.tolist() == [0]
    assert table.load("c").X.shape == (0, 5), "a client may have no rows"
    data = client_data(table, Partition(), Evaluation(), 2, 3)
    assert len(data.train) == 0
    assert len(data.test) == 0


def test_numbered_clients_and_classes(tmp_path: Path) -> None:
    schema = SCHEMA | {"classes": ["1", "2"]}
    content = "client,age,site,dose,outcome\n10,1,north,1,2\n9,1,north,1,1\n"
    table = source(tmp_path, content, schema)
    assert table.subjects() == ("9", "10")
    assert table.load("10").y.tolist() == [1]
    pd.DataFrame(
        {"client": [1.0, 2.0], "age": [1, 1], "site": ["north"] * 2, "dose": [1, 1], "outcome": [2.0, 1.0]}
    ).to_parquet(tmp_path / "t.parquet")
    table = build_source("table", vars(table.settings) | {"path": str(tmp_path / "t.parquet")})
    assert table.subjects() == ("1", "2")
    assert table.load("1").y.tolist() == [1]


def test_recordings_by_column(tmp_path: Path) -> None:
    content = CSV.replace("outcome\n", "outcome,visit\n").replace("yes\n", "yes,v1\n").replace("no\n", "no,v2\n")
    table = source(tmp_path, content, recording_column="visit")
    assert table.load("a").recording.tolist() == [0, 1]
    with pytest.raises(DataError, match=r"set dataset\.recording_column"):
        client_data(source(tmp_path, CSV), Partition(), Evaluation("recording"), 0, 2)


def test_regression(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = {"target": "y", "target_range": [0, 10], "features": [{"name": "x", "low": 0, "high": 1}]}
    content = "client,x,y\na,0.5,3\na,2,12\n"
    with caplog.at_level(logging.INFO):
        rows = source(tmp_path, content, schema).load("a")
    assert rows.y.tolist() == [3.0, 10.0]
    assert rows.X.tolist() == [[0.5], [1.0]]
    assert "2 cells outside their public bounds were clipped" in caplog.text
    with pytest.raises(SchemaError, match=r"subject a: column 'x' row 1 is 2, outside \[0, 1\]"):
        source(tmp_path, content, schema, out_of_bounds="refuse").load("a")
    with pytest.raises(SchemaError, match=r"target 'y' is 12, outside \[0, 10\]"):
        source(tmp_path, content.replace("2,12", "0.5,12"), schema, out_of_bounds="refuse").load("a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            CSV.replace("dose", "doze"),
            r"line 1: no column 'dose' \(is it 'doze'\?\); add or rename it, there are client",
        ),
        (CSV.replace("client", "who"), "table.csv, line 1: no column 'client'"),
        (
            CSV.replace("1.5", ""),
            "subject a: table.csv, line 2: column 'dose' is '', which is missing: fill it, or say in the schema",
        ),
        (CSV.replace(",3,", ",nan,"), "line 4: column 'dose' is 'nan', which is missing"),
        (CSV.replace(",3,", ",inf,"), "line 4: column 'dose' is 'inf', not a finite number"),
        (CSV.replace("30", "thirty"), "line 2: column 'age' is 'thirty', not a finite number"),
        (CSV.replace("south", "east"), "line 2: column 'site' is 'east', which is not among its categories"),
        (CSV.replace("south", ""), "line 2: column 'site' is ''"),
        (CSV.replace("yes", "maybe"), "line 2: column 'outcome' is 'maybe', which is not among the classes"),
        (CSV.replace(",yes", ","), "line 2: column 'outcome' is ''"),
        (
            CSV.replace(",1.5,yes", ""),
            "line 2: fewer cells than the header has columns; write an empty cell",
        ),
        (CSV.replace("1.5", "1,5"), "table.csv, line 2: more cells than the header has columns; name every column"),
        (CSV.replace("south", '"south'), "table.csv, line 2: a quote is not closed on its line; close it"),
        (CSV.replace("south", '"so\nuth"'), "table.csv, line 2: a quote is not closed on its line; close it"),
        (
            CSV.replace("client,", "dose,client,").replace("\n", "\n1,"),
            "column 'dose' is there twice; keep one",
        ),
        ("", "table.csv, line 1: no header"),
        (CSV.split("\n")[0] + "\n", "table.csv has no rows, only a header"),
        (CSV.replace("yes", "y\xe9s").encode("latin-1"), "table.csv, line 2: not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_bad_content_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises((DataError, SchemaError), match=message):
        source(tmp_path, content).load("a")


def test_a_node_without_rows_is_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(CSV.split("\n")[0] + "\n")
    data = node_data(build_source("table", {"schema": SCHEMA}), str(file), 0, 2, b"secret")
    assert len(data.train) + len(data.test) == 0


def test_one_bad_client_does_not_stop_the_others(tmp_path: Path) -> None:
    table = source(tmp_path, CSV.replace("1.5", "?"))
    assert len(table.load("b")) == 1
    with pytest.raises(SchemaError):
        table.load("a")


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    good = vars(source(tmp_path, CSV).settings)
    for change, message in [
        ({"path": None}, "dataset.path is missing"),
        ({"path": ["a", "b"]}, r"dataset.path \['a', 'b'\] must be text"),
        ({"client_column": 3}, "dataset.client_column 3 must be text"),
        ({"schema": None}, "dataset.schema is missing"),
        ({"schema": ["a"]}, "dataset.schema is missing"),
        ({"out_of_bounds": "drop"}, "dataset.out_of_bounds 'drop'"),
        ({"path": str(tmp_path / "nowhere.csv")}, "does not exist"),
        ({"path": str(tmp_path / "schema.yaml")}, "must end in one of .csv, .parquet"),
        ({"client_column": None}, "dataset.client_column is missing"),
        ({"schema": str(tmp_path / "nowhere.yaml")}, "no schema file at"),
        ({"path": str(tmp_path)}, None),
    ]:
        if message is None:
            (tmp_path / "empty").mkdir()
            change, message = {"path": str(tmp_path / "empty")}, "holds no .csv or .parquet file"
        with pytest.raises((DataError, SchemaError), match=message):
            build_source("table", good | change).load("a")


def test_unknown_client(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no subject 'c'; there are a, b"):
        source(tmp_path, CSV).load("c")


def test_broken_parquet(tmp_path: Path) -> None:
    table = source(tmp_path, CSV)
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"t\.parquet is no readable Parquet file"):
        build_source("table", vars(table.settings) | {"path": str(tmp_path / "t.parquet")}).subjects()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert source(tmp_path, CSV).load("b").X[0, 0] == 40
    changed = source(tmp_path, CSV.replace("40", "41"))
    os.utime(tmp_path / "table.csv", ns=(1, 1))
    assert changed.load("b").X[0, 0] == 41


def test_changed_bounds_are_not_served_from_the_cache(tmp_path: Path) -> None:
    assert source(tmp_path, CSV).load("b").X[0, 0] == 40
    narrow = SCHEMA | {"features": [{"name": "age", "low": 0, "high": 35}, *SCHEMA["features"][1:]]}
    assert source(tmp_path, CSV, narrow).load("b").X[0, 0] == 35


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not tell which files are open")
def test_partitions_of_many_subjects_keep_no_files_open(tmp_path: Path) -> None:
    """Three files a subject and partition: a sweep over seeds ran into the usual limit of 1024."""
    lines = [f"c{i % 80},{i % 99},south,{i % 9},{'yes' if i % 3 else 'no'}" for i in range(800)]
    table = source(tmp_path, "\n".join(["client,age,site,dose,outcome", *lines, ""]))
    opened = []
    for seed in range(4):
        client_data(table, Partition("iid", clients=4, seed=seed), Evaluation(), 0, 4)
        files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        opened.append(sum(file.startswith(os.environ["DPFOREST_CACHE"]) for file in files))
    assert max(opened) == opened[0] > 0

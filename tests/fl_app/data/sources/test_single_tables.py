"""german_credit and appliances: one table with one subject, divided by a partition."""

from __future__ import annotations

import logging
import os
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpforest.errors import SchemaError
from dpforest.schema import Schema
from fl_app.data import DataError, Evaluation, Partition, Rows, build_source, client_data, client_rows, client_schema

DATA = Path(os.environ.get("DPFOREST_DATA", ""))
CONF = Path(__file__).parents[4] / "conf"
needs_german = pytest.mark.skipif(
    not (DATA / "german_credit" / "german.data").is_file(), reason="DPFOREST_DATA does not hold german_credit"
)
needs_appliances = pytest.mark.skipif(
    not (DATA / "appliances" / "energydata_complete.csv.zip").is_file(), reason="DPFOREST_DATA does not hold appliances"
)

# german_credit

GOOD = "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
BAD = "A14 48 A30 A410 5951 A61 A73 2 A92 A103 2 A124 22 A141 A153 1 A171 2 A191 A202 2 \n"


def german(folder: Path, content: str, **more: object) -> Rows:
    (folder / "german.data").write_text(content)
    return build_source("german_credit", {"path": str(folder), **more}).load("bank")


def test_german_rows_by_hand(tmp_path: Path) -> None:
    rows = german(tmp_path, GOOD + BAD)
    schema = build_source("german_credit", {}).schema()
    named = [dict(zip(schema.feature_names, row, strict=True)) for row in rows.X.tolist()]
    assert rows.y.tolist() == [0, 1]
    assert schema.classes == ("good", "bad")
    assert (named[0]["duration"], named[0]["amount"], named[0]["age"], named[0]["credits"]) == (6, 1169, 67, 2)
    chosen = [sorted(name for name, value in row.items() if value == 1 and "=" in name) for row in named]
    assert "checking_account=below 0 DM" in chosen[0]
    assert "checking_account=none" in chosen[1]
    assert "purpose=radio or television" in chosen[0]
    assert "purpose=others" in chosen[1]
    assert [len(names) for names in chosen] == [13, 13], "one category of each of the 13"


def test_german_schema_survives_plain_data() -> None:
    schema = build_source("german_credit", {}).schema()
    assert schema.n_features == 7 + 56
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.replace("A34", "A39"), "column 'credit_history' holds 'A39', which is not among its codes A30, A31"),
        (GOOD.replace(" 1169 ", " many "), "column 'amount' holds a cell that is no number"),
        (GOOD.replace("A201 1", "A201 3"), "column 'risk' holds '3'"),
        (GOOD + "1 6 4 12\n", "line 2 of german.data has 4 cells, expected 21"),
        ("\n", "is empty"),
    ],
)
def test_german_malformed_files(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises((DataError, SchemaError), match=message):
        german(tmp_path, content)


def test_german_bounds(tmp_path: Path) -> None:
    assert german(tmp_path, GOOD.replace(" 67 ", " 120 ")).X.max() == 1169
    with pytest.raises(SchemaError, match=r"column 'age' row 0 is 120, outside \[18, 100\]"):
        german(tmp_path, GOOD.replace(" 67 ", " 120 "), out_of_bounds="refuse")


def test_german_absent(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no german\.data"):
        build_source("german_credit", {"path": str(tmp_path)}).load("bank")
    with pytest.raises(DataError, match="download german_credit --to FOLDER"):
        build_source("german_credit", {"path": str(tmp_path / "nowhere")}).load("bank")


@needs_german
def test_eight_banks_have_the_published_skew() -> None:
    source = build_source("german_credit", {"out_of_bounds": "refuse"})
    banks = Partition(**yaml.safe_load((CONF / "partition" / "banks.yaml").read_text()))
    parts = [client_rows(source, banks, client, 8) for client in range(8)]
    assert [len(part) for part in parts] == [125] * 8
    assert sum(int((part.y == 0).sum()) for part in parts) == 700
    # the chapter: bank 1 with 90 per cent good labels, bank 8 with 60 per cent bad ones
    assert np.mean(parts[0].y == 0) == pytest.approx(0.9, abs=0.005)
    assert np.mean(parts[7].y == 1) == 0.6
    assert client_schema(source, 8).rows == 125


@needs_german
@pytest.mark.parametrize("kind", ["iid", "dirichlet", "quantity", "time_blocks"])
def test_one_subject_makes_many_clients(kind: str) -> None:
    source = build_source("german_credit", {})
    data = [client_data(source, Partition(kind, clients=8), Evaluation(), client, 8) for client in range(8)]
    assert sum(len(d.train) + len(d.test) for d in data) == 1000


# appliances

COLUMNS = ["lights", *(f"{kind}{i}" for i in range(1, 10) for kind in ("T", "RH_"))]
COLUMNS += ["T_out", "Press_mm_hg", "RH_out", "Windspeed", "Visibility", "Tdewpoint"]


def energy(rows: list[tuple[str, object]], columns: list[str] = COLUMNS) -> str:
    """A file quoted and padded like the real one; rows are (date, target)."""
    head = ["date", "Appliances", *columns, "rv1", "rv2"]
    lines = [",".join(f'"{name}"' for name in head)]
    for date, target in rows:
        cells = [date, f"  {target}", *("735.5" if name == "Press_mm_hg" else " 20.25" for name in columns), "1", "1"]
        lines.append(",".join(f'"{cell}"' for cell in cells))
    return "\r\n".join(lines) + "\r\n"


ROWS: list[tuple[str, object]] = [
    ("2016-01-12 00:00:00", 50), ("2016-01-11 23:50:00", 1080), ("2016-01-11 17:10:00", 60),
    ("2016-05-14 06:30:00", 1200),
]  # fmt: skip


def house(folder: Path, content: str, **more: object) -> Rows:
    (folder / "energydata_complete.csv").write_text(content, newline="")
    return build_source("appliances", {"path": str(folder), **more}).load("house")


def test_appliances_rows_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        rows = house(tmp_path, energy(ROWS))
    assert "1 cells outside their public bounds were clipped" in caplog.text, "the target above 1080"
    schema = build_source("appliances", {}).schema()
    assert schema.target_range == (0, 1080)
    assert schema.target_unit == "Wh"
    assert schema.n_features == 28
    assert not {"rv1", "rv2", "date", "Appliances"} & set(schema.feature_names)
    columns = dict(zip(schema.feature_names, rows.X.T, strict=True))
    assert rows.y.tolist() == [60, 1080, 50, 1080], "in the order of time"
    assert columns["hour"].tolist() == pytest.approx([17 + 1 / 6, 23 + 5 / 6, 0, 6.5])
    assert columns["weekday"].tolist() == [0, 0, 1, 5], "Monday, Monday, Tuesday, Saturday"
    assert columns["month"].tolist() == [1, 1, 1, 5]
    assert columns["Press_mm_hg"].tolist() == [735.5] * 4
    assert columns["T6"].tolist() == [20.25] * 4
    assert rows.recording.tolist() == [0, 0, 1, 2], "a recording is a day"


def test_appliances_zip_and_lower_target(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "energydata_complete.csv.zip", "w") as archive:
        archive.writestr("energydata_complete.csv", energy(ROWS))
    source = build_source("appliances", {"path": str(tmp_path), "target_high": 400})
    assert source.load("house").y.tolist() == [60, 400, 50, 400]
    assert source.schema().target_range == (0, 400)
    refused = build_source("appliances", {"path": str(tmp_path), "target_high": 400, "out_of_bounds": "refuse"})
    with pytest.raises(
        SchemaError, match=r"target 'Appliances' is 1080, outside \[0, 400\]: raise dataset.target_high"
    ):
        refused.load("house")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (energy(ROWS, COLUMNS[1:]), "energydata_complete.csv cannot be read.*lights"),
        (energy([("11/01/2016", 60)]), "cannot be read"),
        (energy([("2016-01-11 17:00:00", "many")]), "cannot be read"),
        (energy([("2016-01-11 17:00:00", "")]), "cannot be read"),
        (energy([("2016-01-11 17:00:00", "nan")]), "column 'Appliances' row 0 is no finite number"),
        ("", "cannot be read"),
    ],
)
def test_appliances_malformed_files(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises((DataError, SchemaError), match=message):
        house(tmp_path, content)


def test_appliances_absent_and_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds neither energydata_complete.csv nor energydata_complete.csv.zip"):
        build_source("appliances", {"path": str(tmp_path)}).load("house")
    (tmp_path / "energydata_complete.csv.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"energydata_complete.csv.zip gives no energydata_complete.csv"):
        build_source("appliances", {"path": str(tmp_path)}).load("house")
    for wrong in (0, -5, float("inf"), "high", True):
        with pytest.raises(DataError, match=r"dataset.target_high .* must be a number of Wh above 0"):
            build_source("appliances", {"target_high": wrong})


@needs_appliances
def test_appliances_published_figures() -> None:
    source = build_source("appliances", {"out_of_bounds": "refuse"})  # the public bounds hold all of it
    rows = source.load("house")
    # Candanedo et al. 2017: 19,735 rows; mean 97.69 Wh, 10 to 1080 Wh; 2016-01-11 to 2016-05-27 are 138 days
    assert len(rows) == 19_735
    assert rows.y.mean() == pytest.approx(97.69, abs=0.01)
    assert (rows.y.min(), rows.y.max()) == (10, 1080)
    assert len(np.unique(rows.recording)) == 138
    assert client_schema(source, 20).rows == 1000


@needs_appliances
def test_appliances_twenty_clients_at_random_or_in_time() -> None:
    source = build_source("appliances", {})
    random = [client_rows(source, Partition("iid", clients=20), client, 20) for client in range(20)]
    blocks = [client_rows(source, Partition("time_blocks", clients=20), client, 20) for client in range(20)]
    assert {len(part) for part in random} == {986, 987}
    assert sum(map(len, blocks)) == 19_735
    assert all(800 < len(part) < 1200 for part in blocks)
    ends = [(part.recording.min(), part.recording.max()) for part in blocks]
    assert all(last < first for (_, last), (first, _) in pairwise(ends)), "days in order"
    data = client_data(source, Partition("time_blocks", clients=20), Evaluation("recording"), 3, 20)
    assert not set(data.train.recording) & set(data.test.recording)
    assert len(data.test) > 0

"""Exercise recordings: files as devices write them, what is wrong with them, made-up ones, and splits in time."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fl_app.commands.cli import main as dpforest
from fl_app.data import (
    ClientData,
    DataError,
    Evaluation,
    Partition,
    build_source,
    client_data,
    client_roles,
    node_data,
)
from fl_app.data.reading.quality import SENSORS, check_file
from fl_app.data.reading.table_file import read_table
from fl_app.data.sources.synthetic import make_recordings
from fl_app.data.split import split_rows

HEADER = "timestamps,hr,spo2,green,red,ecg,acc_x,acc_y,acc_z,is_exercise"


def lines(n: int = 200) -> list[list[str]]:
    """Rows of the document's example form, one a second, half of them exercise."""
    return [
        [str(1234567890 + i), str(60 + i % 100), "98", "1250", "980", "0.5", "0.25", "-0.125", "9.75", str(i // 10 % 2)]
        for i in range(n)
    ]


def write(path: Path, rows: list[list[str]], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *map(",".join, rows)]) + "\n", encoding="utf-8")
    return path


def test_the_form_of_the_document(tmp_path: Path) -> None:
    checked = check_file(write(tmp_path / "watch.csv", lines()))
    assert checked.findings == ()
    assert checked.X.shape == (200, 8)
    assert checked.X[3].tolist() == [63, 98, 1250, 980, 0.5, 0.25, -0.125, 9.75]
    assert checked.y.tolist() == [i // 10 % 2 for i in range(200)]
    assert np.unique(checked.recording).tolist() == [0]


def to_semicolons(text: str) -> bytes:
    return text.replace(",", ";").replace(".", ",").encode()


def quoted_commas(text: str) -> bytes:
    rows = [[f'"{cell}"'.replace(".", ",") for cell in line.split(",")] for line in text.splitlines()]
    return "\n".join(map(",".join, rows)).encode()


def reordered(text: str) -> bytes:
    return "\n".join(",".join(["x", *line.split(",")[::-1]]) for line in text.splitlines()).encode()


@pytest.mark.parametrize(
    "form",
    [
        to_semicolons,
        quoted_commas,
        reordered,
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace(",", " | ").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.upper().encode(),
        lambda text: text.replace("\n", ",\n").encode(),
        lambda text: text.replace(",0\n", ",False\n").replace(",1\n", ",True\n").encode(),
        lambda text: text.replace(",", ", ").encode() + b"\n\n",
        lambda text: b"\xef\xbb\xbf" + to_semicolons(text).replace(b"\n", b"\r\n"),
    ],
)
def test_other_separators_marks_line_ends_and_decimal_commas(form: Callable[[str], bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "plain.csv", lines())
    (tmp_path / "other.csv").write_bytes(form(path.read_text()))
    expected, found = check_file(path), check_file(tmp_path / "other.csv")
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    assert found.findings == ()


def test_parquet_is_read_as_csv(tmp_path: Path) -> None:
    rows = lines()
    for i, row in enumerate(rows):
        row[0] = f"2023-11-14T10:{i // 60:02d}:{i % 60:02d}Z"
    path = write(tmp_path / "a.csv", rows)
    pd.read_csv(path, parse_dates=["timestamps"]).to_parquet(tmp_path / "b.parquet")
    expected, found = check_file(path), check_file(tmp_path / "b.parquet")
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    assert found.findings == expected.findings == ()


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e9, "date"])
def test_time_stamps_of_other_units(unit: float | str, tmp_path: Path) -> None:
    rows = lines()
    for i, row in enumerate(rows):
        second = 1_700_000_000 + i + (3600 if i >= 150 else 0)
        row[0] = f"2023-11-14T{22 + i // 150}:00:{i % 60:02d}Z" if unit == "date" else str(int(second * float(unit)))
    if unit == "date":
        rows = rows[:60] + rows[150:180]
    checked = check_file(write(tmp_path / "a.csv", rows))
    assert np.unique(checked.recording).tolist() == [0, 1]


def changed(rows: list[list[str]], cells: dict[int, tuple[str, str]]) -> list[list[str]]:
    for row, (name, value) in cells.items():
        rows[row][HEADER.split(",").index(name)] = value
    return rows


@pytest.mark.parametrize(
    ("cells", "finding", "left"),
    [
        ({5: ("hr", "0")}, "warning: w.csv, line 7: hr is 0, which is impossible (20 to 300 1/min) (left out); ", 199),
        ({5: ("spo2", "101"), 9: ("spo2", "0")}, "line 7: spo2 is 101, which is impossible (50 to 100 %), and so", 198),
        ({5: ("ecg", "")}, "line 7: ecg is missing or no number (left out); fill it or delete such rows", 199),
        ({5: ("acc_x", "off"), 6: ("acc_x", "nan"), 8: ("acc_x", "inf")}, "line 7: acc_x is missing or no number, "
         "and so are 2 more rows", 197),
        ({5: ("acc_x", "0,5")}, "line 7: more cells than the header has columns (left out); name every column", 199),
        ({5: ("is_exercise", "run")}, "line 7: is_exercise is missing or no number (left out); write 1", 199),
        ({5: ("is_exercise", "2")}, "line 7: is_exercise is 2 (left out); write 1 for exercise and 0 for rest", 199),
        ({5: ("timestamps", "")}, "line 7: timestamps is missing or no number (left out)", 199),
        ({5: ("timestamps", "1234567890"), 6: ("timestamps", "1234567891")}, "line 7: the time stamp was there before, "
         "and so is 1 more row (left out); record each moment once", 198),
    ],
)  # fmt: skip
def test_bad_rows_are_left_out_with_file_line_and_remedy(
    cells: dict[int, tuple[str, str]], finding: str, left: int, tmp_path: Path
) -> None:
    checked = check_file(write(tmp_path / "w.csv", changed(lines(), cells)))
    assert len(checked.findings) == 1
    assert finding in str(checked.findings[0])
    assert checked.errors == []
    assert len(checked.y) == left


def test_a_clock_that_jumps_starts_a_new_recording(tmp_path: Path) -> None:
    rows = lines()
    for i in range(50, 200):
        rows[i][0] = str(1234567890 + i + 7200)
    for i in range(150, 200):
        rows[i][0] = str(1234560000 + i)
    forward, back = sorted(check_file(write(tmp_path / "w.csv", rows)).findings, key=lambda f: f.line)
    assert str(forward).startswith("warning: w.csv, line 52: the clock jumps forward by 7201 s: a new recording starts")
    assert str(back).startswith("warning: w.csv, line 152: the clock jumps back by")
    assert "set the device's clock" in str(back)
    checked = check_file(tmp_path / "w.csv")
    assert np.bincount(checked.recording).tolist() == [50, 100, 50]
    assert len(np.unique(check_file(tmp_path / "w.csv", gap=10_000).recording)) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "w.csv, line 1: 0 good rows are fewer than 100; record more, or leave this file out"),
        ([["1", *row] for row in lines()], "w.csv, line 201: 0 good rows are fewer than 100"),
        (lines(99), "w.csv, line 100: 99 good rows are fewer than 100; record more, or leave this file out"),
        ([[*row[:-1], "1"] for row in lines()], "w.csv, line 201: all rows are exercise; record rest too"),
        ([[*row[:-1], "0"] for row in lines()], "w.csv, line 201: all rows are rest; record exercise too"),
    ],
)
def test_files_that_cannot_be_used_are_errors(rows: list[list[str]], message: str, tmp_path: Path) -> None:
    write(tmp_path / "w.csv", rows)
    (error,) = check_file(tmp_path / "w.csv").errors
    assert message in str(error)
    source = build_source("exercise", {"path": str(tmp_path)})
    with pytest.raises(DataError) as caught:
        source.load("w")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unequal_classes_are_a_warning(tmp_path: Path) -> None:
    rows = lines()
    for row in rows[40:]:
        row[-1] = "0"
    (finding,) = check_file(write(tmp_path / "w.csv", rows)).findings
    assert "10 % of the rows are exercise; record 30 to 70 % exercise" in str(finding)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "w.csv, line 1: no header"),
        (
            HEADER.replace("spo2", "sp02").encode() + b"\n1,2,3,4,5,6,7,8,9,1",
            r"line 1: no column 'spo2' \(is it 'sp02'\?\)",
        ),
        (HEADER.replace(",hr", "").encode() + b"\n1,2,3,4,5,6,7,8,1", "line 1: no column 'hr'"),
        (
            HEADER.replace("red", "green").encode() + b"\n1,2,3,4,5,6,7,8,9,1",
            "line 1: (no column 'red'|column 'green')",
        ),
        (HEADER.encode() + b"\n1,2,\xff,4,5,6,7,8,9,1", "w.csv, line 2: not UTF-8 text; save the file as UTF-8"),
        (b'a,"b\n1,2', "line 1: no column"),
    ],
)
def test_files_that_are_no_tables(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        check_file(tmp_path / "w.csv")


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("a,b\n1,2\n\n3,4\n,\n5,6\n")
    file = read_table(path, ["b"])
    assert file.lines.tolist() == [2, 4, 6]
    assert file.numbers("b").tolist() == [2, 4, 6]
    assert file.others == ("a",)


def test_the_report_stays_on_the_client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "w.csv", changed(lines(), {5: ("hr", "0")}))
    with caplog.at_level(logging.WARNING):
        build_source("exercise", {"path": str(tmp_path)}).load("w")
    (record,) = [r for r in caplog.records if "hr is 0" in r.getMessage()]
    assert record.name.startswith("fl_app.data"), "such records are kept out of run.log"
    assert "this report stays local" in record.getMessage()


def test_a_node_refuses_nothing_since_that_would_tell_about_its_rows(tmp_path: Path) -> None:
    write(tmp_path / "w.csv", changed(lines(60), {5: ("hr", "0"), 6: ("green", "99999")}))
    source = build_source("exercise", {"out_of_bounds": "refuse"})
    assert source.on_nodes
    data = node_data(source, str(tmp_path / "w.csv"), 0, 2, b"secret")
    assert len(data.train) + len(data.test) == 59
    assert data.train.X[:, 2].max() <= 4095
    # One record less must not show either, not even where it was the only one.
    data = node_data(source, str(write(tmp_path / "empty.csv", [])), 0, 2, b"secret")
    assert len(data.train) + len(data.test) == 0


@pytest.mark.parametrize("cell", [("timestamps", "2024-01-31T10:00:05Z"), ("timestamps", "7"), ("is_exercise", "1")])
def test_on_a_node_one_record_less_leaves_all_others_where_they_are(cell: tuple[str, str], tmp_path: Path) -> None:
    """The odd record repeats a time stamp, or has another form of time or label than all others."""
    rows = lines(120)
    for i, row in enumerate(rows):
        row[0] = f"2024-01-31T10:{i // 60:02d}:{i % 60:02d}Z"
        row[-1] = "true" if i % 2 else "false"
    source = build_source("exercise", {})
    write(tmp_path / "a.csv", changed([list(row) for row in rows], {3: cell}))
    # What a simulation has read of the same file, and kept for later, is not what a node reads.
    with contextlib.suppress(DataError):
        build_source("exercise", {"path": str(tmp_path / "a.csv")}).load("a")
    everyone = node_data(source, str(tmp_path / "a.csv"), 0, 2, b"secret")
    others = node_data(source, str(write(tmp_path / "b.csv", rows[:3] + rows[4:])), 0, 2, b"secret")

    def content(data: ClientData) -> tuple[list[list[float]], list[list[float]]]:
        train, test = (np.column_stack([part.X, part.y]).tolist() for part in (data.train, data.test))
        return train, test

    (train, test), (fewer, fewer_tests) = content(everyone), content(others)
    assert len(train) + len(test) == 120
    assert len(fewer) + len(fewer_tests) == 119
    assert all(row in train for row in fewer)
    assert all(row in test for row in fewer_tests)


def test_the_check_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "good.csv", lines())
    assert dpforest(["data", "check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "good.csv: 200 good rows, 50 % exercise, 1 recording\n"
    write(tmp_path / "short.csv", lines(20))
    write(tmp_path / "other.csv", lines(), "when,hr")
    assert dpforest(["data", "check", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "error: short.csv, line 21: 20 good rows are fewer than 100" in printed
    assert "error: other.csv, line 1: no column 'timestamps'" in printed
    assert dpforest(["data", "check", str(tmp_path / "none")]) == 1


# synthetic recordings


def test_without_files_nothing_is_made_up_silently() -> None:
    source = build_source("exercise", {})
    with pytest.raises(DataError, match=r"dataset.path is missing: .*dataset.synthetic=20 for synthetic recordings"):
        source.subjects()
    with pytest.raises(DataError, match="exclude each other"):
        build_source("exercise", {"path": "somewhere", "synthetic": 3})
    made = build_source("exercise", {"synthetic": 3})
    assert made.subjects() == ("synthetic-01", "synthetic-02", "synthetic-03")
    assert "synthetic" in made.record


def test_made_up_people_differ_and_come_back() -> None:
    one, again, other = (make_recordings(subject, 20, 7) for subject in (0, 0, 1))
    np.testing.assert_array_equal(one.X, again.X)
    assert one.X.shape == (1200, 8)
    assert (np.diff(one.time) > 0).all()
    assert np.unique(one.recording).tolist() == [0, 1, 2, 3]
    assert not np.array_equal(one.X, other.X)
    assert not np.array_equal(one.X, make_recordings(0, 20, 8).X)


def test_made_up_signals_behave_as_bodies_do() -> None:
    people = [make_recordings(subject, 60, 0) for subject in range(12)]
    hr = [person.X[:, SENSORS.index("hr")] for person in people]
    gravity = [np.linalg.norm(person.X[:, -3:], axis=1) for person in people]
    for person, rate, pull in zip(people, hr, gravity, strict=True):
        moving = person.y == 1
        assert 0.25 < moving.mean() < 0.8
        assert rate[moving].mean() > rate[~moving].mean() + 5
        assert np.median(pull[~moving]) == pytest.approx(9.81, abs=0.5)
        assert pull[moving].std() > pull[~moving].std()
        # Recovery takes time: the rate just after exercise is above that at the end of a rest.
        ends = np.flatnonzero((np.diff(person.y) == -1) & (np.diff(person.recording) == 0))
        begins = np.flatnonzero((np.diff(person.y) == 1) & (np.diff(person.recording) == 0))
        assert rate[ends + 5].mean() > rate[begins].mean()
    assert np.std([rate[person.y == 0].mean() for person, rate in zip(people, hr, strict=True)]) > 3


def test_written_recordings_are_read_back(tmp_path: Path) -> None:
    assert dpforest(["data", "make", "--to", str(tmp_path), "--subjects", "2", "--minutes", "10", "--seed", "3"]) == 0
    files = build_source("exercise", {"path": str(tmp_path)})
    made = build_source("exercise", {"synthetic": 2, "synthetic_minutes": 10, "synthetic_seed": 3})
    assert files.subjects() == made.subjects()
    for subject in made.subjects():
        read, direct = files.load(subject), made.load(subject)
        np.testing.assert_allclose(read.X, direct.X, rtol=1e-5)
        np.testing.assert_array_equal(read.y, direct.y)
        np.testing.assert_array_equal(read.recording, direct.recording)


def test_recordings_that_cannot_be_made_are_an_error_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for minutes in ("inf", "nan", "0.001", "1e9"):
        with pytest.raises(SystemExit) as caught:
            dpforest(["data", "make", "--to", str(tmp_path), "--minutes", minutes])
        assert caught.value.code == 2
    (tmp_path / "taken").write_text("")
    assert dpforest(["data", "make", "--to", str(tmp_path / "taken"), "--subjects", "1", "--minutes", "1"]) == 1
    assert "taken cannot be written (File exists): choose another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"synthetic": 0}, "dataset.synthetic 0 must be a whole number"),
        ({"synthetic_minutes": -1}, "dataset.synthetic_minutes -1 must be a number above 0"),
        ({"synthetic_minutes": 1e9}, "must be at most 10080, a week"),
        ({"gap": float("nan")}, "dataset.gap nan must be a number above 0"),
        ({"bounds": {"hart": [0, 1]}}, "dataset.bounds 'hart' is unknown"),
        ({"bounds": {"hr": [0]}}, "dataset.bounds.hr .* must be two numbers"),
        ({"bounds": 3}, "dataset.bounds 3 must name a range"),
        ({"min_rows": 0}, "dataset.min_rows 0 must be"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_source("exercise", settings)


# splits in time


def test_the_end_of_each_recording_is_held_out() -> None:
    source = build_source("exercise", {"synthetic": 2, "synthetic_minutes": 10})
    rows = source.load("synthetic-01")
    data = client_data(source, Partition(), Evaluation("time"), 0, 2)
    assert (len(data.train), len(data.test)) == (480, 120)
    for recording in range(4):
        whole = rows.X[rows.recording == recording]
        np.testing.assert_array_equal(data.train.X[data.train.recording == recording], whole[:120])
        np.testing.assert_array_equal(data.test.X[data.test.recording == recording], whole[120:])
    tuning = client_data(source, Partition(), Evaluation("time", part="validation"), 0, 2)
    for recording in range(4):
        whole = rows.X[rows.recording == recording]
        np.testing.assert_array_equal(tuning.train.X[tuning.train.recording == recording], whole[:96])
        np.testing.assert_array_equal(tuning.test.X[tuning.test.recording == recording], whole[96:120])
    public = client_data(source, Partition(), Evaluation("time", public_share=0.5), 0, 2)
    assert (len(public.test), len(public.public)) == (60, 60)


def test_a_recording_of_one_row_stays_in_training() -> None:
    source = build_source("exercise", {"synthetic": 1, "synthetic_minutes": 10})
    rows = source.load("synthetic-01").take([0])
    train, test = split_rows(rows, Evaluation("time"), True)
    assert (len(train), len(test)) == (1, 0)


def test_shuffled_rows_are_refused() -> None:
    source = build_source("exercise", {"synthetic": 4, "synthetic_minutes": 10})
    with pytest.raises(DataError, match=r"neighbouring samples .* use time .*, recording or subject"):
        client_roles(source, Partition(), Evaluation("row"), 4)
    with pytest.raises(DataError, match="partition=iid spreads each recording over clients"):
        client_roles(source, Partition("iid", clients=4), Evaluation("time"), 4)
    assert client_roles(source, Partition("time_blocks", clients=4), Evaluation("time"), 4) == ["train"] * 4
    assert client_roles(source, Partition(), Evaluation("recording"), 4) == ["train"] * 4
    assert "test" in client_roles(source, Partition(), Evaluation("subject"), 4)


# watch with two classes


def test_watch_has_free_and_resisted_exercises() -> None:
    seven, two = build_source("watch", {}), build_source("watch", {"classes": 2})
    assert two.schema().classes == ("free", "resisted")
    # PEN, ABD, FEL are done freely; IR, ER, TRAP, ROW against a band or with a dumbbell.
    np.testing.assert_array_equal(two.load("04").y, np.isin(seven.load("04").y, [3, 4, 5, 6]))
    with pytest.raises(DataError, match=r"dataset.classes 3 must be 7, or 2"):
        build_source("watch", {"classes": 3})

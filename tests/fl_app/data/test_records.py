"""One record more, whatever it holds, leaves every other as it was; and a node's test rows are always the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpforest.cells import number
from fl_app.data import DataError, DataSource, build_source, node_data
from fl_app.data.reading.cells import ArrowColumn
from fl_app.data.reading.quality import SENSORS
from fl_app.data.reading.table_file import read_table

SCHEMA = {
    "target": "outcome",
    "classes": ["0", "1"],
    "features": [
        {"name": "age", "low": 0, "high": 120},
        {"name": "flag", "low": 0, "high": 1},
        {"name": "site", "categories": ["True", "False", "NA"]},
    ],
}
HEADER = "id;age;flag;site;outcome;note"
ROWS = [
    '1;30;TRUE;True;1;""',
    "2;40,5;false;False;0;a, b",
    '3;"50";1;NA;1;"c;d"',
    "4;60;True;True;0;",
    "5;7e1;0;False;1;é",
    "6;80;FALSE;True;0;1.000",
]
# What each reader by columns stumbled over, and records that reach for their neighbours.
ODD = [
    "7;1;maybe;True;1;",
    "7;1;;True;1;",
    "7;1;0.7;True;0.5;",
    "7;1,5;1;True;0,5;",
    '7;1;1;True;1;"',
    '"',
    '7;"1;1;True;1;',
    '7;1;1;"Tr"ue;1;"a""',
    "7;1;1;True;1;;;;;x",
    "7;1",
    ";;;;;",
    "",
    "\ufeff7;1;1;True;1;",
    "7;" + "9" * 400 + ";1;True;1;",
    "7;1_0;1;True;1;",
    "7;1;1;True;1;" + "x" * 140_000,
    '7;1;1;True;1;"' + "x" * 140_000 + '"',
    "\x1a\x00\x0b\x0c\x1c\u2028",
    HEADER,
]


def node_rows(source: DataSource) -> list[tuple[Any, ...]]:
    """What a node has of a file: features, target and the origin by which test rows are chosen."""
    (subject,) = source.subjects()
    rows, origins = source.node_rows(subject)
    return [(*x, y, origin) for x, y, origin in zip(rows.X.tolist(), rows.y.tolist(), origins, strict=True)]


def of_node(path: Path, schema: dict[str, Any] = SCHEMA) -> list[tuple[Any, ...]]:
    return node_rows(build_source("table", {"schema": schema}).at(str(path)))


def check_only_one_more(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], place: int) -> None:
    assert len(after) - len(before) in (0, 1)
    assert before == [*after[:place], *after[place + len(after) - len(before) :]]


def written(folder: Path, records: list[bytes], encoding: str, end: str) -> Path:
    """A CSV in which the records stand as they are."""
    mark = {"utf-8": b"", "utf-8-sig": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[encoding]
    coding = encoding.removesuffix("-sig")
    path = folder / "mine.csv"
    path.write_bytes(mark + b"".join(record + end.encode(coding) for record in [HEADER.encode(coding), *records]))
    return path


def in_one_line(encoding: str, record: bytes) -> bytes:
    """The record without line ends: what has one is several records."""
    if encoding.startswith("utf-16"):
        units = [record[i : i + 2] for i in range(0, len(record) - 1, 2)]
        return b"".join(unit for unit in units if unit.decode(encoding, "surrogatepass") not in "\r\n")
    return record.replace(b"\n", b"").replace(b"\r", b"")


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]
ENDS = ["\n", "\r\n", "\r"]


def check_one_more_in_csv(record: bytes, place: int, encoding: str, end: str) -> None:
    coding = encoding.removesuffix("-sig")
    records = [row.encode(coding) for row in ROWS]
    more = [*records[:place], in_one_line(encoding, record), *records[place:]]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        before = of_node(written(Path(one), records, encoding, end))
        assert len(before) == len(ROWS)
        check_only_one_more(before, of_node(written(Path(two), more, encoding, end)), place)


@pytest.mark.parametrize("record", ODD)
def test_an_odd_record_of_a_csv_changes_no_other(record: str) -> None:
    for encoding in ENCODINGS:
        for place in (0, 3, len(ROWS)):
            check_one_more_in_csv(record.encode(encoding.removesuffix("-sig")), place, encoding, "\n")


@settings(max_examples=400)
@given(
    record=st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from([b'"', b";", b",", b" ", b"\xe9", b"\xff", b"1", b"True", b"\x00", b"\xd8", b"\n"])
        ).map(b"".join),
        st.lists(st.text(max_size=6), min_size=4, max_size=8).map(
            lambda cells: ";".join(cells).encode("utf-8", "replace")
        ),
    ),
    place=st.integers(0, len(ROWS)),
    encoding=st.sampled_from(ENCODINGS),
    end=st.sampled_from(ENDS),
)
@example(record=b"\x00\xd8", place=0, encoding="utf-16-le", end="\n")  # half of a pair, before a line end
@example(record=b"\xe2\x82", place=1, encoding="utf-8", end="\n")  # the beginning of a character
@example(record=b"y\xe9s", place=len(ROWS), encoding="utf-8", end="\r\n")  # latin-1
def test_any_record_of_a_csv_changes_no_other(record: bytes, place: int, encoding: str, end: str) -> None:
    check_one_more_in_csv(record, place, encoding, end)


PARQUET = {"age": [30, 40, 50], "flag": [True, False, True], "site": ["True", "NA", "False"], "outcome": [1, 0, 1]}
CELLS = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(width=32), st.text(max_size=4))


def column(cells: list[Any]) -> pa.Array:
    """A column in the narrowest type that holds all its cells, as writers choose it."""
    for kind in (pa.bool_(), pa.int64(), pa.float64()):
        if all(cell is None or (isinstance(cell, _HELD[kind]) and (kind == pa.bool_() or not isinstance(cell, bool)))
               for cell in cells):  # fmt: skip
            return pa.array(cells, kind)
    return pa.array([None if cell is None else str(cell) for cell in cells])


_HELD = {pa.bool_(): bool, pa.int64(): int, pa.float64(): (int, float)}


def of_parquet(folder: str, columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    path = Path(folder) / "mine.parquet"
    pq.write_table(pa.table({name: column(cells) for name, cells in columns.items()}), path)
    return of_node(path)


@settings(max_examples=300)
@given(record=st.tuples(CELLS, CELLS, CELLS, CELLS), place=st.integers(0, 3))
@example(record=(30, True, "NA", 0.5), place=3)
@example(record=(30, None, "NA", 1), place=3)
@example(record=(0.5, "maybe", None, "x"), place=0)
@example(record=(None, None, None, None), place=1)
def test_any_record_of_a_parquet_file_changes_no_other(record: tuple[Any, ...], place: int) -> None:
    """Also where it changes the type of a whole column."""
    more = {
        name: [*cells[:place], cell, *cells[place:]]
        for (name, cells), cell in zip(PARQUET.items(), record, strict=True)
    }
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        before = of_parquet(one, PARQUET)
        assert len(before) == 3
        check_only_one_more(before, of_parquet(two, more), place)


TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.mark.parametrize("kind", [*TEXTS, pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_text_of_a_parquet_file_is_decoded_cell_by_cell(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({name: column(cells) for name, cells in PARQUET.items()})
    pq.write_table(table, tmp_path / "plain.parquet")
    plain = of_node(tmp_path / "plain.parquet")
    for middle, expected in ((b"NA", plain), (b"\xff\xfe", [plain[0], plain[2]])):
        text = pa.array([b"True", middle, b"False"]).view(pa.string())
        if pa.types.is_dictionary(kind):
            cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text)
        else:
            cells = text.cast(pa.binary()).cast(kind) if "binary" in str(kind) else text.view(pa.string()).cast(kind)
        assert cells.type == kind
        pq.write_table(table.set_column(2, "site", cells), tmp_path / "other.parquet")
        assert of_node(tmp_path / "other.parquet") == expected


@pytest.mark.parametrize("kind", [pa.binary(2), pa.binary(16), pa.uuid()], ids=str)
def test_bytes_of_one_length_are_decoded_cell_by_cell(kind: pa.DataType) -> None:
    width = 16 if kind == pa.uuid() else kind.byte_width
    cells = [b"NA".ljust(width), b"1".ljust(width), b"\xff" * width, None]
    texts = [ArrowColumn(pa.chunked_array([pa.array(some, kind)])).text() for some in (cells[:2], cells)]
    assert texts[0] == texts[1][:2] == ["NA", "1"]
    assert texts[1][3] == ""
    numbers = ArrowColumn(pa.chunked_array([pa.array(cells, kind)]))
    assert numbers.holds_numbers
    assert numbers.numbers()[1] == 1


@pytest.mark.parametrize("text", ["y\xe9s", '"open', "a,b,c,d,e,f,g,h,i,j,k,l", "1", "\x00"])
def test_an_odd_record_of_a_device_changes_no_other(text: str, tmp_path: Path) -> None:
    header = ["timestamps", *SENSORS, "is_exercise"]
    rows = [[str(i), "80", "98", "1250", "980", "0.5", "0.25", "-0.125", "9.75", str(i % 2)] for i in range(9)]
    lines = [",".join(cells).encode() for cells in [header, *rows]]
    source = build_source("exercise", {})
    (tmp_path / "one.csv").write_bytes(b"\n".join(lines))
    (tmp_path / "two.csv").write_bytes(b"\n".join([*lines[:4], text.encode("latin-1"), *lines[4:]]))
    one, two = (node_rows(source.at(str(tmp_path / f"{name}.csv"))) for name in ("one", "two"))
    assert len(one) == 9
    assert one == two


def test_cells_are_numbers_by_one_rule() -> None:
    said = {"1": 1, " 1.5 ": 1.5, "1,5": 1.5, "-3e2": -300, "TRUE": 1, "true": 1, "False": 0, "0": 0}
    assert {cell: number(cell) for cell in said} == said
    for cell in ("", "yes", "1,234.5", "1,2,3", "1_000", "0x10", "2024-01-31", "5 %", "maybe", "nan"):
        assert np.isnan(number(cell)), cell


@pytest.mark.parametrize("cells", [["1.5", "2"], ["1.5", "x"], ["1.5", "1_0"], ["1.5", "true"]])
def test_a_number_does_not_depend_on_its_neighbours(cells: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["a;b", *(f"{cell};0" for cell in cells)]))
    np.testing.assert_array_equal(read_table(tmp_path / "a.csv", ["a"]).numbers("a"), [number(cell) for cell in cells])


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([1, 2], pa.duration("s")),
        pa.array([1, 2], pa.time32("s")),
        pa.array([[1], [2]]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_dates_and_lists_of_a_parquet_file_are_no_numbers(cells: pa.Array, tmp_path: Path) -> None:
    """Days or nanoseconds since 1970 would all be clipped to the upper bound, and the budget spent on nothing."""
    pq.write_table(
        pa.table({"age": cells, "flag": [0, 1], "site": ["NA", "NA"], "outcome": [0, 1]}), tmp_path / "t.parquet"
    )
    with pytest.raises(
        DataError, match=r"t\.parquet: column 'age' holds dates, times or lists .* days since a fixed date"
    ):
        of_node(tmp_path / "t.parquet")


def test_a_column_that_a_parquet_file_has_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a.b", "a.b"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"^t\.parquet: column 'a\.b' is there twice"):
        read_table(tmp_path / "t.parquet", ["a.b"])


@pytest.mark.parametrize(
    "target", [{"target": "outcome", "classes": ["0", "1"]}, {"target": "age", "target_range": [0, 9]}]
)
def test_a_schema_that_names_a_column_twice_lets_no_row_through_that_fits_only_once(
    target: dict[str, Any], tmp_path: Path
) -> None:
    """Otherwise whether training fails would tell the server that there is such a row."""
    names = ["age", "site", "flag", "outcome"]
    features = [{"name": name, "low": 0, "high": 1} for name in names if name != target["target"]]
    features += [{"name": name, "categories": ["1", "NA", "x"]} for name in names]
    lists = [{"features": features[i:] + features[:i]} for i in range(len(features))]
    (tmp_path / "mine.csv").write_text("\n".join([HEADER, "1;1;1;1;1;", "2;x;1;1;1;", "3;1;NA;1;1;", "4;1;1;x;1;"]))
    for some in lists:
        assert len(of_node(tmp_path / "mine.csv", target | some)) == 1


# test rows of nodes

N, FEATURES = 400, 6


def test_a_node_shows_the_same_fifth_whatever_is_asked(tmp_path: Path) -> None:
    """Thirty orders and subsets of the columns showed all rows when the hash followed them."""
    lines = [";".join(str(i * (j + 1)) for j in range(FEATURES)) + f";{i % 2};{i % 3}" for i in range(N)]
    header = ";".join([*(f"f{j}" for j in range(FEATURES)), "y", "z"])
    (tmp_path / "mine.csv").write_text("\n".join([header, *lines]))
    rng = np.random.default_rng(0)
    seen, secret = [], b"of this node"
    for _ in range(30):
        chosen = rng.permutation(FEATURES)[: rng.integers(1, FEATURES + 1)]
        schema = {
            "target": "yz"[rng.integers(2)],
            "classes": ["0", "1", "2"],
            "features": [{"name": f"f{j}", "low": 0, "high": int(N * FEATURES * rng.integers(1, 9))} for j in chosen],
        }
        data = node_data(build_source("table", {"schema": schema}), str(tmp_path / "mine.csv"), 0, 1, secret)
        train, test = ({int(x) // (chosen[0] + 1) for x in part.X[:, 0]} for part in (data.train, data.test))
        assert train | test == set(range(N))
        assert not train & test
        seen.append(test)
    assert all(test == seen[0] for test in seen)
    assert 0.1 < len(seen[0]) / N < 0.3
    source = build_source("table", {"schema": schema})
    other = node_data(source, str(tmp_path / "mine.csv"), 0, 1, b"of another")
    assert {int(x) // (chosen[0] + 1) for x in other.test.X[:, 0]} != seen[0]


def test_no_name_that_a_server_asks_for_moves_a_row(tmp_path: Path) -> None:
    """By its names it may take a whole line for one cell: then other cells, but the same record."""
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["a,b;c|d", *(f"{i},{i % 7};{i % 2}|x" for i in range(200))]))
    cells = {"a": "3", "b;c|d": "3;1|x", "a,b": "3,3", "a,b;c": "3,3;1", "d": "x"}
    files = {name: read_table(path, [name], digests=True) for name in cells}
    assert {name: file.text(name)[3] for name, file in files.items()} == cells
    assert len({file.digests for file in files.values()}) == 1
    assert len(set(files["a"].digests)) == 200


def test_a_test_row_stays_one_when_the_file_is_written_in_another_form(tmp_path: Path) -> None:
    plain = [*HEADER.split(";")], [row.split(";") for row in ["1;30;1;True;1;x", "2;40;0;NA;0;y", "3;50;1;NA;1;z"]]
    texts = {
        "a.csv": "\n".join(map(";".join, [plain[0], *plain[1]])).encode(),
        "b.csv": "\r\n".join(",".join(f'" {cell} "' for cell in row) for row in [plain[0], *plain[1]]).encode("utf-16"),
    }
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
    columns = dict(zip(plain[0], zip(*plain[1], strict=True), strict=True))
    typed = {
        name: list(map(float, cells)) if name in ("id", "age", "outcome") else cells for name, cells in columns.items()
    }
    pq.write_table(pa.table({name: list(cells) for name, cells in typed.items()}), tmp_path / "c.parquet")
    first, second, third = (of_node(tmp_path / name) for name in ("a.csv", "b.csv", "c.parquet"))
    assert first == second == third
    assert len(first) == 3


def test_whole_recordings_of_sensors_are_test_rows_however_windows_are_cut() -> None:
    """A window of one run holds samples of several of another, so no finer part stays on its side."""
    sides = []
    for settings_ in ({}, {"length": 64}, {"step": 77}, {"features": "raw"}, {"features": ["mean"], "classes": 2}):
        data = node_data(build_source("watch", settings_), None, 3, 10, b"of this node")
        train, test = set(data.train.recording.tolist()), set(data.test.recording.tolist())
        assert not train & test
        assert train | test == set(range(14))
        sides.append(test)
    assert sides[0]
    assert all(test == sides[0] for test in sides)


def test_a_node_keeps_no_copy_of_its_rows(private_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("\n".join([HEADER, *ROWS]))
    assert len(node_data(build_source("table", {"schema": SCHEMA}), str(tmp_path / "mine.csv"), 0, 1, b"s").train)
    assert len(node_data(build_source("watch", {}), None, 0, 10, b"s").train)
    header = ",".join(["timestamps", *SENSORS, "is_exercise"])
    (tmp_path / "device.csv").write_text(f"{header}\n1,80,98,1,1,1,1,1,1,0\n")
    node_data(build_source("exercise", {}), str(tmp_path / "device.csv"), 0, 1, b"s")
    assert not private_cache.exists() or not list(private_cache.iterdir())


def test_what_a_node_leaves_out_is_said_by_column_and_stays_local(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd = ["7;x;1;NA;1;", "8;1;1;up;1;", '9;"1;1;NA;1;', "10;999;1;NA;1;"]
    (tmp_path / "mine.csv").write_text("\n".join([HEADER, *ROWS, *odd]))
    assert len(of_node(tmp_path / "mine.csv")) == 7
    assert (
        "mine.csv: 3 of 10 rows do not fit the schema and are left out: cannot be read 10.00%, age does not fit "
        "10.00%, site does not fit 10.00%; is a unit or the schema wrong? (these numbers stay local)"
    ) in caplog.text
    assert "1 cells outside their public bounds were clipped: age 14.29%; is a unit or a bound wrong?" in caplog.text

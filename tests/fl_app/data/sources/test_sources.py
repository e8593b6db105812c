from __future__ import annotations

import dataclasses
import io
import json
import logging
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fl_app.data import DataError, DataSource, Evaluation, Partition, build_source, client_data
from fl_app.data.registry import SOURCES
from fl_app.data.source import inside_bounds
from fl_app.data.sources import hugadb, watch

CONF = Path(__file__).parents[4] / "conf"
COLUMNS = [feature.name for feature in hugadb.HugadbSource.channels]

needs_hugadb = pytest.mark.skipif(
    not (Path(os.environ.get("DPFOREST_DATA", "")) / "hugadb" / "HuGaDB_v1_various_02.tar.bz2").is_file(),
    reason="DPFOREST_DATA does not hold hugadb",
)


def test_unknown_names_and_settings() -> None:
    with pytest.raises(DataError, match=r"dataset.name 'wach' is unknown: did you mean 'watch'\? there are watch"):
        build_source("wach", {})
    with pytest.raises(DataError, match=r"setting of data set watch 'lenght' is unknown: did you mean 'length'"):
        build_source("watch", {"lenght": 50})


def test_data_sets_need_no_flower_no_tensorflow_and_no_seglearn() -> None:
    script = "import sys, fl_app.data as d; d.build_source('watch', {}).load('01'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"flwr", "tensorflow", "ray", "hydra", "seglearn"}


def test_every_data_set_has_its_settings() -> None:
    assert {path.stem for path in (CONF / "dataset").glob("*.yaml")} == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_shipped_settings_are_the_defaults(name: str) -> None:
    settings = yaml.safe_load((CONF / "dataset" / f"{name}.yaml").read_text())
    settings = settings.get("dataset", settings)  # those in the global package change other groups too
    assert settings.pop("name") == name
    if name == "table":
        settings |= {"path": "t.csv", "schema": "s.yaml"}  # null until the user gives them
    source = build_source(name, settings)
    given = {"path": "t.csv", "schema": "s.yaml"} if name == "table" else {}
    assert source.settings == build_source(name, given).settings
    assert set(settings) == set(vars(source.settings)), "every setting is shown"


def test_shipped_partitions_and_evaluations_are_valid() -> None:
    partitions = {p.stem: Partition(**yaml.safe_load(p.read_text())) for p in (CONF / "partition").glob("*.yaml")}
    banks = partitions.pop("banks")
    assert banks.kind == "label_shares"
    assert banks.clients == 8
    assert np.mean(banks.shares) == pytest.approx(0.7)
    assert partitions.pop("user_types") == Partition("user_types", share=0.1)
    assert partitions == {name: Partition(name) for name in partitions}
    evaluations = {p.stem: Evaluation(**yaml.safe_load(p.read_text())) for p in (CONF / "evaluation").glob("*.yaml")}
    official = evaluations.pop("hapt_official")
    assert [int(name) for name in official.subjects] == [2, 4, 9, 10, 12, 13, 18, 20, 24]
    assert evaluations == {name: Evaluation(name) for name in evaluations}


@pytest.mark.parametrize(
    "settings", [Partition("label_shares", shares=(0.9, 0.2)), Evaluation("subject", subjects=("7",))]
)
def test_settings_with_lists_survive_json(settings: Partition | Evaluation) -> None:
    assert type(settings)(**json.loads(json.dumps(dataclasses.asdict(settings)))) == settings


# watch: the real file


def test_watch_raw_counts() -> None:
    # counted from the file itself with numpy, apart from this code: 244,102 samples of 10 subjects
    source = build_source("watch", {"features": "raw"})
    rows = [source.load(subject) for subject in source.subjects()]
    assert len(rows) == 10
    assert sum(map(len, rows)) == 244_102
    assert np.bincount(np.concatenate([r.y for r in rows])).tolist() == [
        26622,
        39905,
        40498,
        37395,
        37604,
        30578,
        31500,
    ]
    assert all(len(np.unique(r.recording)) == 14 for r in rows)
    assert source.record == "one sample (1/50 s)"
    assert source.records_per_sample == 1


def test_watch_windows_fit_their_schema(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for features in ("standard", "uci"):
            source = build_source("watch", {"features": features})
            rows, schema = source.load("03"), source.schema()
            assert rows.X.dtype == np.float32
            assert rows.X.flags.c_contiguous
            _, outside = schema.check_matrix(rows.X, "refuse")
            assert outside == 0
            assert rows.X.shape[1] == schema.n_features
    assert "clipped" not in caplog.text, "the sensors' ranges hold all of it"
    assert source.record == "one window of 1 s (50 samples)"


@pytest.mark.parametrize(
    "settings",
    [{}, {"length": 100, "step": 50, "overlap": "count"}, {"length": 70, "step": 33, "overlap": "count"},
     {"length": 50, "step": 80}, {"features": "raw"}],
    ids=["side-by-side", "half", "odd", "gaps", "samples"],
)  # fmt: skip
def test_an_hour_has_a_part_in_no_more_records_than_is_said(settings: dict[str, Any]) -> None:
    """Wherever the hour begins: windows with a sample in it."""
    source = build_source("watch", settings)
    length, step, hour = settings.get("length", 50), settings.get("step", settings.get("length", 50)), 3600 * 50
    if settings.get("features") == "raw":
        length = step = 1
    starts = np.arange(0, 3 * hour, step)
    most = max(np.sum((starts < first + hour) & (starts + length > first)) for first in range(hour, hour + step))
    assert source.records_an_hour == most


def test_watch_overlap_is_counted() -> None:
    source = build_source("watch", {"length": 100, "step": 50, "overlap": "count"})
    assert source.records_per_sample == 2
    assert source.schema().rows == 400
    assert len(source.load("01")) > 1.8 * len(build_source("watch", {"length": 100}).load("01"))


def test_watch_opens_no_unknown_pickle(tmp_path: Path) -> None:
    marker, file = tmp_path / "ran", tmp_path / watch.FILE
    file.write_bytes(b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.")
    with pytest.raises(DataError, match=r"has sha256 .*reinstall it"):
        watch.read_content(file)
    assert not marker.exists()


def test_watch_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PACKAGE", "no-such-package-here")
    watch.dataset_file.cache_clear()
    with pytest.raises(DataError, match=r"pip install seglearn==1\.2\.5"):
        build_source("watch", {}).load("01")


# hugadb: files made here, and one real subject


def text_file(rows: list[tuple[int, int]], columns: list[str] = COLUMNS) -> bytes:
    """A recording whose cells all hold one value; rows are (value, activity)."""
    lines = ["#Activity\twalking", "#ActivityID\t1", "#Date\t01-01-00-00", "\t".join([*columns, "act"])]
    lines += ["\t".join([str(value)] * len(columns) + [str(code)]) for value, code in rows]
    return ("\n".join(lines) + "\n").encode()


RECORDINGS = {
    "HuGaDB_v1_various_01_00.txt": text_file([(10, 1), (20, 2), (30, 8), (40, 12)]),
    "HuGaDB_v1_various_01_07.txt": text_file([(50, 3)] * 3 + [(60, 7)]),
    "HuGaDB_v1_various_05_00.txt": text_file([(1306072, 5)]),
}


def write_texts(folder: Path) -> None:
    for name, content in RECORDINGS.items():
        (folder / name).write_bytes(content)
    (folder / "HuGaDB_v1_walking_01_00.txt").write_bytes(text_file([(1, 1)]))
    (folder / "ReadMe.txt").write_text("not data")


def write_archives(folder: Path) -> None:
    for subject in ("01", "05"):
        with tarfile.open(folder / f"HuGaDB_v1_various_{subject}.tar.bz2", "w:bz2") as archive:
            for name, content in reversed(RECORDINGS.items()):
                if f"various_{subject}_" in name:
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("write", [write_texts, write_archives])
def test_hugadb_reads_texts_and_archives_alike(tmp_path: Path, write, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path)
    source = build_source("hugadb", {"path": str(tmp_path)})
    assert source.subjects() == ("01", "05")
    rows = source.load("01")
    # running (2) and the car (12) are no common activities
    assert rows.X[:, 0].tolist() == [10, 30, 50, 50, 50, 60]
    assert rows.y.tolist() == [0, 6, 1, 1, 1, 5]
    assert rows.recording.tolist() == [0, 0, 7, 7, 7, 7]
    with caplog.at_level(logging.INFO):
        assert source.load("05").X[0, [0, -1]].tolist() == [32767, 255]
    assert "38 cells outside their public bounds were clipped" in caplog.text


def test_hugadb_may_refuse_cells_out_of_range(tmp_path: Path) -> None:
    write_texts(tmp_path)
    source = build_source("hugadb", {"path": str(tmp_path), "out_of_bounds": "refuse"})
    with pytest.raises(ValueError, match=r"hugadb, subject 05: column 'acc_rf_x' row 0 is 1.30607e\+06, outside"):
        source.load("05")


def test_hugadb_windows_stay_within_one_activity(tmp_path: Path) -> None:
    runs = [(10, 1)] * 20 + [(20, 2)] * 30 + [(30, 1)] * 9 + [(40, 8)] * 16
    (tmp_path / "HuGaDB_v1_various_03_00.txt").write_bytes(text_file(runs))
    source = build_source("hugadb", {"path": str(tmp_path), "features": ["mean"], "length": 8})
    rows = source.load("03")
    assert rows.X[:, 0].tolist() == [10, 10, 30, 40, 40]
    assert rows.y.tolist() == [0, 0, 0, 6, 6]


def test_hugadb_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    with pytest.raises(DataError, match=r"set dataset.path .*, or DPFOREST_DATA"):
        build_source("hugadb", {}).subjects()
    monkeypatch.setenv("DPFOREST_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"which is no folder; set dataset.path .*, or DPFOREST_DATA"):
        build_source("hugadb", {}).subjects()
    (tmp_path / "hugadb").mkdir()
    with pytest.raises(DataError, match=r"neither HuGaDB_v1_various_SS_NN.txt files nor HuGaDB_v1_various_SS.tar.bz2"):
        build_source("hugadb", {}).subjects()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text_file([(1, 1)], COLUMNS[1:]), "has no column 'acc_rf_x' in line 4"),
        (b"", "has no column 'acc_rf_x'"),
        (text_file([(1, 1)]).replace(b"\n1\t", b"\nx\t"), "cells that are no whole numbers"),
        (text_file([(1, 1)]) + b"1\t2\n", "cells that are no whole numbers"),
    ],
)
def test_hugadb_malformed_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "HuGaDB_v1_various_01_00.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        build_source("hugadb", {"path": str(tmp_path)}).load("01")


def test_hugadb_broken_archive(tmp_path: Path) -> None:
    (tmp_path / "HuGaDB_v1_various_01.tar.bz2").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"HuGaDB_v1_various_01.tar.bz2 is no readable archive"):
        build_source("hugadb", {"path": str(tmp_path)}).load("01")


def test_hugadb_schema_reads_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    schema = build_source("hugadb", {}).schema()
    assert schema.n_features == 38
    assert schema.rows == 40_000
    assert len(schema.classes) == 7
    grid = dict(zip(schema.feature_names, schema.grid(32), strict=True))
    assert abs(grid["acc_rf_x"][15]) < 300
    assert grid["EMG_r"][15] == pytest.approx(127.5)


@needs_hugadb
def test_hugadb_subject_02_has_the_published_counts() -> None:
    # the README of the data: codes 1, 3, 4, 5, 6, 7, 8 of subject 02, in 7 files
    source: DataSource = build_source("hugadb", {})
    rows = source.load("02")
    assert np.bincount(rows.y).tolist() == [9415, 2250, 2579, 1802, 599, 645, 2973]
    assert len(np.unique(rows.recording)) == 7
    clients = source.subjects().index("02"), len(source.subjects())
    data = client_data(source, Partition(), Evaluation("recording"), *clients)
    assert len(data.train) + len(data.test) == len(rows)
    assert len(np.unique(data.test.recording)) == 1


def test_float32_does_not_step_over_a_bound() -> None:
    schema = build_source("watch", {"features": "raw"}).schema()
    X = inside_bounds(np.vstack([schema.low, schema.high]), schema)
    assert X.dtype == np.float32
    assert np.all(X[0].astype(np.float64) >= schema.low)
    assert np.all(X[1].astype(np.float64) <= schema.high)

from __future__ import annotations

import io
import os
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fl_app.data import DataError, Evaluation, Partition, build_source, client_roles

REAL = Path(os.environ.get("DPFOREST_DATA", "")) / "hapt"
needs_hapt = pytest.mark.skipif(not (REAL / "labels.txt").is_file(), reason="DPFOREST_DATA does not hold hapt")


def signal(n: int, start: float = 0.0) -> str:
    """Rows whose first cell numbers them in hundredths, written as the phone's app does."""
    return "".join(f"{start + i / 100} 0.0 1.0\n" for i in range(n))


# (experiment, subject, activity, first, last), counted from 1
LABELS = "1 1 1 3 20\n1 1 7 21 29\n1 1 6 30 40\n2 1 5 1 10\n3 2 12 1 40\n"
FILES = {
    "acc_exp01_user01.txt": signal(40),
    "gyro_exp01_user01.txt": signal(40, 5),
    "acc_exp02_user01.txt": signal(20),
    "gyro_exp02_user01.txt": signal(20),
    "acc_exp03_user02.txt": signal(40),
    "gyro_exp03_user02.txt": signal(40),
}


def write_texts(folder: Path, files: dict[str, str] = FILES, labels: str = LABELS) -> None:
    """The layout of the published archive."""
    (folder / "RawData").mkdir()
    for name, content in files.items():
        (folder / "RawData" / name).write_text(content)
    (folder / "RawData" / "labels.txt").write_text(labels)
    (folder / "activity_labels.txt").write_text("1 WALKING\n")


def write_archives(folder: Path) -> None:
    (folder / "labels.txt").write_text(LABELS)
    for subject in ("01", "02"):
        with tarfile.open(folder / f"RawData_user{subject}.tar.xz", "w:xz") as archive:
            for name, content in FILES.items():
                if name.endswith(f"user{subject}.txt"):
                    member = tarfile.TarInfo(f"RawData/{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content.encode()))


@pytest.mark.parametrize("write", [write_texts, write_archives])
def test_label_ranges_count_from_one_and_include_the_last_sample(tmp_path: Path, write) -> None:
    write(tmp_path)
    source = build_source("hapt", {"path": str(tmp_path), "features": "raw"})
    assert source.subjects() == ("01", "02")
    rows = source.load("01")
    first = rows.recording == 1
    # samples 3 to 20 walk, 21 to 29 sit down, 30 to 40 lie; sample i (from 1) holds (i - 1) / 100
    np.testing.assert_allclose(rows.X[first, 0], np.arange(2, 40) / 100, rtol=1e-6)
    np.testing.assert_allclose(rows.X[first, 3], 5 + np.arange(2, 40) / 100, rtol=1e-6)
    assert rows.y[first].tolist() == [0] * 18 + [6] * 9 + [5] * 11
    assert rows.y[rows.recording == 2].tolist() == [4] * 10
    assert len(source.schema().classes) == 12


def test_six_classes_leave_out_transitions(tmp_path: Path) -> None:
    write_texts(tmp_path)
    source = build_source("hapt", {"path": str(tmp_path), "features": "raw", "classes": 6})
    assert source.schema().classes[-1] == "laying"
    assert len(source.schema().classes) == 6
    assert Counter(source.load("01").y.tolist()) == {0: 18, 5: 11, 4: 10}
    assert len(source.load("02")) == 0, "a subject may have no rows"


def test_windows_are_cut_inside_each_segment(tmp_path: Path) -> None:
    write_texts(tmp_path)
    settings = {"path": str(tmp_path), "features": ["mean"], "length": 8, "separate": False}
    rows = build_source("hapt", settings).load("01")
    assert rows.y.tolist() == [0, 0, 6, 5, 4], "18, 9, 11 and 10 samples hold 2, 1, 1 and 1 windows of 8"
    np.testing.assert_allclose(rows.X[:, 0], np.array([5.5, 13.5, 23.5, 32.5, 3.5]) / 100, rtol=1e-6)
    halves = build_source("hapt", settings | {"step": 4, "overlap": "count"})
    assert len(halves.load("01")) == 3 + 1 + 1 + 1
    assert halves.records_per_sample == 2
    with pytest.raises(DataError, match="one raw sample would be in 2 records"):
        build_source("hapt", settings | {"step": 4})


def test_features_of_the_published_set_without_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    source = build_source("hapt", {})
    names = source.schema().feature_names
    assert source.record == "one window of 2.56 s (128 samples)"
    assert source.records_per_sample == 1
    families = ("mean", "std", "mad", "min", "max", "energy", "iqr", "entropy", "ar4", "spectral_entropy", "band1")
    assert {f"{sensor}_x_{family}" for sensor in ("body", "gravity", "gyro_jerk") for family in families} <= set(names)
    assert {"body_x_body_y_correlation", "body_jerk_magnitude_mean", "gyro_sma", "gravity_z_angle"} <= set(names)
    plain = build_source("hapt", {"separate": False}).schema().feature_names
    assert "acc_x_mean" in plain
    assert "gravity_x_mean" not in plain


@pytest.mark.parametrize(
    ("files", "labels", "message"),
    [
        (FILES | {"acc_exp01_user01.txt": signal(39)}, LABELS, "experiment 01 has 39 rows of acc and 40 of gyro"),
        ({n: c for n, c in FILES.items() if n != "gyro_exp02_user01.txt"}, LABELS, "gyro_exp02_user01.txt is missing"),
        (FILES, LABELS.replace("30 40", "30 41"), r"activity 6 for samples 30 to 41; .* samples 1 to 40"),
        (FILES, LABELS.replace("1 1 1 3", "1 1 1 0"), "samples 0 to 20"),
        (FILES, LABELS.replace("1 1 7 21", "1 1 13 21"), "activity 13 .* there are activities 1 to 12"),
        (FILES, "1 1 1 3\n", "labels.txt has 4 columns, expected 5"),
        (FILES, "1 1 walking 3 20\n", "labels.txt holds cells that are no numbers"),
        (FILES | {"acc_exp01_user01.txt": "a b c\n"}, LABELS, "acc_exp01_user01.txt holds cells that are no numbers"),
        (FILES | {"acc_exp01_user01.txt": ""}, LABELS, "experiment 01 has 0 rows of acc"),
    ],
)
def test_malformed_files(tmp_path: Path, files: dict[str, str], labels: str, message: str) -> None:
    write_texts(tmp_path, files, labels)
    with pytest.raises(DataError, match=message):
        build_source("hapt", {"path": str(tmp_path)}).load("01")


def test_absent_files(tmp_path: Path) -> None:
    source = build_source("hapt", {"path": str(tmp_path)})
    with pytest.raises(DataError, match=r"neither acc_expEE_userNN.txt files nor RawData_userNN.tar.xz"):
        source.subjects()
    (tmp_path / "RawData_user01.tar.xz").write_bytes(b"no archive")
    source = build_source("hapt", {"path": str(tmp_path)})
    with pytest.raises(DataError, match=r"holds no labels.txt"):
        source.load("01")
    (tmp_path / "labels.txt").write_text(LABELS)
    with pytest.raises(DataError, match=r"RawData_user01.tar.xz is no readable archive"):
        build_source("hapt", {"path": str(tmp_path)}).load("01")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": 7}, "dataset.classes 7 must be 12, or 6"),
        ({"separate": "no"}, "dataset.separate 'no' must be true or false"),
        ({"features": "ucy"}, "did you mean 'uci'"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_source("hapt", wrong)


@needs_hapt
def test_published_windows_of_every_subject_and_class() -> None:
    # one cheap feature: the counts are those of y_train.txt, y_test.txt and subject_id_*.txt
    settings = {"features": ["mean"], "separate": False, "step": 64, "overlap": "count"}
    source = build_source("hapt", settings)
    rows = {subject: source.load(subject) for subject in source.subjects()}
    published = [np.loadtxt(REAL / f"y_{part}.txt", dtype=int) for part in ("train", "test")]
    assert sum(map(len, rows.values())) == 10_929
    counts = np.bincount(np.concatenate([r.y for r in rows.values()]) + 1)
    assert counts.tolist() == np.bincount(np.concatenate(published)).tolist()
    owners = np.concatenate([np.loadtxt(REAL / f"subject_id_{part}.txt", dtype=int) for part in ("train", "test")])
    assert [len(rows[f"{i:02d}"]) for i in range(1, 31)] == np.bincount(owners)[1:].tolist()
    held_out = ["02", "04", "09", "10", "12", "13", "18", "20", "24"]
    roles = client_roles(source, Partition(), Evaluation("subject", subjects=held_out), 30)
    assert [subject for subject, role in zip(source.subjects(), roles, strict=True) if role == "test"] == held_out
    assert sum(len(rows[subject]) for subject in held_out) == len(published[1])


@needs_hapt
def test_real_windows_fit_their_schema() -> None:
    source = build_source("hapt", {})
    rows, schema = source.load("02"), source.schema()
    assert schema.check_matrix(rows.X, "refuse")[1] == 0
    assert rows.X.shape == (len(rows), schema.n_features)
    gravity = rows.X[:, schema.feature_names.index("gravity_magnitude_mean")]
    assert np.all(np.abs(gravity - 1) < 0.1), "gravity is about 1 g in every window"

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fl_app.data import DataError, Evaluation, Partition, build_source, client_data
from fl_app.data.sources.wisdm import SENSORS, SUBJECTS, features

REAL = Path(os.environ.get("DPFOREST_DATA", "")) / "wisdm"
needs_wisdm = pytest.mark.skipif(
    not (REAL / "arff_watch_accel.tar.xz").is_file(), reason="DPFOREST_DATA does not hold wisdm"
)
NAMES = [feature.name for feature in features("watch_accel")]


def arff(rows: list[tuple[str, float]], subject: str = "1600", names: list[str] = NAMES, owner: str = "") -> str:
    """A file whose cells all hold one value; rows are (activity, value)."""
    head = ["@relation person_activities_labeled", '@attribute "ACTIVITY" { A, B, S }']
    head += [f'@attribute "{name}" numeric' for name in names] + [f'@attribute "class" {{ {subject} }}', "@data"]
    body = [",".join([activity, *[str(value)] * len(names), owner or subject]) for activity, value in rows]
    return "\n".join([*head, *body]) + "\n"


def write_texts(folder: Path) -> None:
    inside = folder / "arff_files" / "watch" / "accel"
    inside.mkdir(parents=True)
    for subject in ("1600", "1650"):
        content = arff([("A", 0.5), ("S", 0.25)], subject)
        (inside / f"data_{subject}_accel_watch.arff").write_text(content)
    (inside / "data_1600_gyro_watch.arff").write_text("another sensor")


def write_archive(folder: Path) -> None:
    with tarfile.open(folder / "arff_watch_accel.tar.xz", "w:xz") as archive:
        for subject in SUBJECTS[:-1]:
            content = arff([("A", 0.5), ("S", 0.25)], subject).encode()
            member = tarfile.TarInfo(f"watch/accel/data_{subject}_accel_watch.arff")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_texts_and_archives_read_alike(tmp_path: Path) -> None:
    for folder, write in (("texts", write_texts), ("archive", write_archive)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder)
    texts, archive = (build_source("wisdm", {"path": str(tmp_path / folder)}) for folder in ("texts", "archive"))
    assert texts.subjects() == ("1600", "1650")
    assert archive.subjects() == SUBJECTS
    for rows in (texts.load("1600"), archive.load("1601")):
        assert rows.X.shape == (2, 91)
        assert rows.X[:, 0].tolist() == [0.5, 0.25]
        assert rows.y.tolist() == [0, 17]
    with pytest.raises(DataError, match=r"arff_watch_accel.tar.xz holds no data_1650_accel_watch.arff"):
        archive.load("1650")


def test_no_recordings_to_hold_out(tmp_path: Path) -> None:
    write_texts(tmp_path)
    with pytest.raises(DataError, match=r"needs recordings, and wisdm has none"):
        client_data(build_source("wisdm", {"path": str(tmp_path)}), Partition(), Evaluation("recording"), 0, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (arff([("A", 1)], names=NAMES[1:]), "has no attribute 'X0'"),
        (arff([("A", 1)], names=[NAMES[1], NAMES[0], *NAMES[2:]]), "other attributes, or another order"),
        ("nothing here", "has no @data"),
        (arff([("N", 1)]), "has activity 'N'; there are A, B"),
        (arff([("A", 1)]).replace("A,1,", "A,?,"), "holds cells that are no numbers"),
        (arff([("A", 1)], owner="1610"), "holds rows of subject 1610, so it is a copy of another file: remove it"),
    ],
)
def test_malformed_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "data_1600_accel_watch.arff").write_text(content)
    with pytest.raises(DataError, match=message):
        build_source("wisdm", {"path": str(tmp_path)}).load("1600")


def test_cells_out_of_bounds(tmp_path: Path) -> None:
    (tmp_path / "data_1600_accel_watch.arff").write_text(arff([("A", 1.25)]))
    rows = build_source("wisdm", {"path": str(tmp_path)}).load("1600")
    assert rows.X[0, NAMES.index("X0")] == 1
    assert rows.X[0, NAMES.index("XVAR")] == 1.25
    with pytest.raises(ValueError, match=r"subject 1600: column 'X0' row 0 is 1.25, outside \[0, 1\]"):
        build_source("wisdm", {"path": str(tmp_path), "out_of_bounds": "refuse"}).load("1600")


def test_absent_files_and_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither arff_phone_gyro.tar.xz nor data_\*_gyro_phone.arff files"):
        build_source("wisdm", {"path": str(tmp_path), "sensor": "phone_gyro"}).subjects()
    with pytest.raises(DataError, match="'watch_acel' is unknown: did you mean 'watch_accel'"):
        build_source("wisdm", {"sensor": "watch_acel"})


@needs_wisdm
@pytest.mark.parametrize(
    ("sensor", "subjects", "rows"),
    # rows: table 6 of the data set's description, less the six copies of subject 1610's 404 rows
    [("watch_accel", 50, 18_211), ("phone_accel", 44, 23_074 - 6 * 404)],
)
def test_published_numbers_of_windows(sensor: str, subjects: int, rows: int) -> None:
    source = build_source("wisdm", {"sensor": sensor})
    loaded = [source.load(subject) for subject in source.subjects()]
    assert len(loaded) == subjects
    assert sum(map(len, loaded)) == rows
    assert len(np.unique(np.concatenate([r.y for r in loaded]))) == 18
    assert source.schema().n_features == 91
    assert "1614" not in source.subjects()


@needs_wisdm
@pytest.mark.parametrize("sensor", SENSORS)
def test_no_person_has_more_windows_an_hour_than_the_guarantee_counts(sensor: str) -> None:
    """Eighteen activities of three minutes; statements multiply a record's epsilon by the windows of an hour."""
    source = build_source("wisdm", {"sensor": sensor})
    assert max(len(source.load(subject)) for subject in source.subjects()) * 60 / (18 * 3) <= source.records_an_hour


@needs_wisdm
def test_whose_watch_files_hold_a_phone() -> None:
    """A phone in a pocket is at rest where hands eat, drink and clap; a watch is not."""
    watch = build_source("wisdm", {"sensor": "watch_accel"})
    hands = [watch.schema().classes.index(name) for name in ("eating_soup", "eating_chips", "drinking", "clapping")]

    def movement(subject: str) -> float:
        rows = watch.load(subject)
        return float(np.median(rows.X[np.isin(rows.y, hands), NAMES.index("XABSOLDEV")]))

    still = sorted(watch.subjects(), key=movement)[:4]
    assert sorted(still) == ["1637", "1638", "1639", "1640"]

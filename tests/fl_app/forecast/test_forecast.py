"""What a run can be expected to do, from a schema alone: noise, the least epsilon, a score on made-up rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpforest.ledger import Entry
from dpforest.schema import Schema
from fl_app.commands.cli import main as dpforest
from fl_app.config.compose import compose_config, to_experiment
from fl_app.data.reading.table_file import read_table
from fl_app.forecast.forecast import Forecast, forecast, noise_in_records, releases
from fl_app.forecast.made_up import MadeUpRows

SCHEMA = {
    "target": "activity",
    "classes": ["rest", "walk", "run"],
    "rows": 300,
    "features": [
        {"name": "heart_rate", "low": 30, "high": 220, "missing": "branch"},
        {"name": "acc_x", "low": -8, "high": 8},
        {"name": "device", "categories": ["wrist", "chest"], "other": True, "missing": "branch"},
    ],
}
REGRESSION = {**{k: v for k, v in SCHEMA.items() if k != "classes"}, "target": "y", "target_range": [0, 50]}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return write(tmp_path / "schema.yaml", SCHEMA)


def write(path: Path, plain: dict[str, object]) -> str:
    path.write_text(yaml.safe_dump(plain))
    return str(path)


def ask(schema: str, *overrides: str, clients: int = 4, is_scored: bool = False) -> Forecast:
    composed = compose_config(["dataset=table", f"dataset.schema={schema}", *overrides])
    return forecast(to_experiment(composed), clients, is_scored)


@pytest.mark.parametrize("plain", [SCHEMA, REGRESSION])
def test_made_up_rows_fit_their_schema_and_move_together(plain: dict[str, object], tmp_path: Path) -> None:
    schema = Schema.from_dict(plain)
    MadeUpRows(schema, seed=3).write(tmp_path, clients=2, rows=2000)
    files = sorted(tmp_path.glob("*.parquet"))
    assert [file.stem for file in files] == ["client_0", "client_1"]
    file = read_table(files[0], [*schema.columns, schema.target])
    table = file.read(schema, file.columns[schema.target])
    assert table.fits.all()
    frame = MadeUpRows(schema, seed=3).table(0, 2000)
    assert 0 < frame["heart_rate"].isna().mean() < 0.1
    assert 0 < frame["device"].isna().mean() < 0.1
    known = frame.dropna()
    assert abs(np.corrcoef(known["heart_rate"], known["acc_x"])[0, 1]) > 0.1
    assert frame.equals(MadeUpRows(schema, seed=3).table(0, 2000))
    assert not frame.equals(MadeUpRows(schema, seed=4).table(0, 2000))


def test_noise_is_said_in_records() -> None:
    assert noise_in_records(Entry("sums", "discrete Gaussian", mu=0.1)) == pytest.approx(10)
    assert noise_in_records(Entry("counts", "discrete Laplace", epsilon=0.5)) == pytest.approx(2 * math.sqrt(2))
    assert noise_in_records(Entry("splits", "permute-and-flip", epsilon=0.5)) == pytest.approx(2)
    planned = [
        Entry(f"tree {i}: counts", "discrete Laplace", epsilon=1, rows=f"5 disjoint slices/{i}") for i in range(5)
    ]
    (found,) = releases([*planned, Entry("rows in clear", "none", protected=False)], 1000)
    assert (found.what, found.times, found.units) == ("each tree: counts", 5, 200)
    assert found.share == pytest.approx(math.sqrt(2) / 200)


@pytest.mark.parametrize("method", ["boost", "one_shot", "fext", "ldp_bagging", "standalone", "dp_sgd"])
def test_from_the_least_epsilon_on_the_method_does_something(method: str, schema: str) -> None:
    pytest.importorskip("keras") if method == "dp_sgd" else None
    least = ask(schema, f"strategy={method}").least_epsilon
    assert least is not None
    for factor, enough in ((0.9, False), (1.1, True)):
        found = ask(schema, f"strategy={method}", f"privacy.epsilon={least * factor}")
        if found.refused:
            does = False
        elif found.signal is not None:
            does = found.signal.stands_out
        else:
            does = all(release.share < 1 for release in found.releases)
        assert does is enough


def test_more_clients_and_rows_need_less_epsilon(schema: str, tmp_path: Path) -> None:
    few = ask(schema, "strategy=boost").least_epsilon
    many = ask(schema, "strategy=boost", clients=40).least_epsilon
    rich = ask(write(tmp_path / "rich.yaml", {**SCHEMA, "rows": 30_000}), "strategy=boost").least_epsilon
    assert few is not None
    assert many is not None
    assert rich is not None
    assert many < few
    assert rich < few


def test_noise_over_clients_where_the_guarantee_is_about_clients(schema: str) -> None:
    pytest.importorskip("keras")
    found = ask(schema, "strategy=dp_fedavg", clients=12)
    assert {release.units for release in found.releases} == {12}


@pytest.mark.parametrize("plain", [SCHEMA, REGRESSION])
def test_a_score_on_made_up_rows_is_between_a_constant_and_no_noise(plain: dict[str, object], tmp_path: Path) -> None:
    method = "one_shot" if "classes" in plain else "boost"
    options = [] if method == "one_shot" else ["rounds=5", "privacy.delta=1e-6"]
    found = ask(write(tmp_path / "s.yaml", plain), f"strategy={method}", "privacy.epsilon=5", *options, is_scored=True)
    score = found.score
    assert score is not None
    assert not score.failed
    assert score.value is not None
    assert score.without_noise is not None
    assert score.trivial is not None
    assert score.trivial < score.value
    assert score.value < score.without_noise + 0.1
    assert score.bytes_up > 0
    assert found.bytes_up is not None
    assert 0.2 < found.bytes_up * found.clients / score.bytes_up < 5


def test_a_plan_is_printed_with_its_refusal(schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "strategy=boost", "dataset=table", f"dataset.schema={schema}", "clients=4"]
    assert dpforest([*words, "privacy.epsilon=0.001"]) == 1
    said = capsys.readouterr().out
    assert "refused        privacy.epsilon=0.001 leaves no tree above the noise" in said
    assert "least epsilon  " in said
    assert dpforest([*words, "privacy.epsilon=2", "--no-score"]) == 0
    said = capsys.readouterr().out
    assert "200 of 200 stand out of the noise" in said
    assert "marginal histograms of features and target" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["clients=0"], "clients=0 must be a whole number from 1 to 10,000"),
        (["clients=some"], "clients=some must be a whole number, such as clients=30"),
        ([], "how many clients there are is missing: give clients=30"),
        (["clients=4", "privacy.delta=0"], "set privacy.delta=1e-6"),
        (["clients=4", "privacy.epsilon=-1"], "epsilon -1 must be positive"),
        (["clients=4", "dataset.schema=/nowhere.yaml"], "no schema file at /nowhere.yaml"),
        (["clients=4", "strategy.rouns=3"], "no option 'strategy.rouns'"),
    ],
)
def test_bad_input_is_one_line(options: list[str], said: str, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [] if any(text.startswith("dataset.schema") for text in options) else [f"dataset.schema={schema}"]
    assert dpforest(["plan", "strategy=boost", "dataset=table", *given, *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error


def test_a_schema_without_rows_says_what_to_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = write(tmp_path / "bare.yaml", {k: v for k, v in SCHEMA.items() if k != "rows"})
    assert dpforest(["plan", "strategy=boost", "dataset=table", f"dataset.schema={bare}", "clients=4"]) == 2
    assert "the schema says no number of rows: add rows: 5000" in capsys.readouterr().err

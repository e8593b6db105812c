"""DP-EBM on rows in one place: its guarantee says what is covered, and its model is a forest like any other."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hand_made import SCHEMA, make, run, write_table

pytest.importorskip("interpret")

from baselines.central_dp_ebm import model
from baselines.central_dp_ebm.releases import RESIDUALS, entries
from baselines.central_dp_ebm.settings import DpEbmSettings
from dpforest.errors import DPForestError
from dpforest.forest import load, pack, unpack
from dpforest.ledger import Budget, total_epsilon
from dpforest.schema import Schema
from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.report.page import write_report
from strategies.method import Task
from strategies.registry import get_method

CLIENTS, ROWS = 3, 600
BINARY = {
    "target": "kind",
    "classes": ["no", "yes"],
    "rows": 200,
    "missing": "branch",
    "features": [{"name": "a", "low": 0, "high": 1}, {"name": "c", "categories": ["red", "green", "blue", "grey"]}],
}
REGRESSION = {**BINARY, "target": "size", "target_range": [100, 110]}
del REGRESSION["classes"]


def table(folder: Path, schema: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    a, c = rng.uniform(0, 1, ROWS), rng.integers(0, 3, ROWS)
    size = 100 + 6 * a + 3 * (c == 2)
    lines = ["client,a,c,kind,size"]
    colours = BINARY["features"][1]["categories"]
    for i in range(ROWS):
        number, colour = "" if i % 50 == 0 else f"{a[i]:.5f}", "?" if i % 60 == 1 else colours[c[i]]
        lines.append(f"{i % CLIENTS},{number},{colour},{'yes' if size[i] > 104 else 'no'},{size[i]:.4f}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "schema.yaml").write_text(yaml.safe_dump(schema))
    files = {"path": str(folder / "table.csv"), "schema": str(folder / "schema.yaml")}
    return {"name": "table", "client_column": "client", **files}


def experiment(dataset: dict[str, Any], epsilon: float = 20.0, **options: Any) -> Any:
    privacy = {"delta": 1e-5} | options.pop("privacy", {})
    strategy = {"name": "central_dp_ebm"} | options.pop("strategy", {})
    return make(dataset, epsilon, strategy=strategy, privacy=privacy, **options)


def task(schema: dict[str, Any], epsilon: float = 2.0, delta: float = 1e-5, **settings: Any) -> Task[DpEbmSettings]:
    return Task(Schema.from_dict(schema), DpEbmSettings(**settings), Budget(epsilon, delta), 1, 1, 0)


def test_two_classes_with_the_guarantee_of_the_authors_and_a_model_that_can_be_used(tmp_path: Path) -> None:
    done = run(experiment(table(tmp_path, BINARY)), CLIENTS)
    assert not done.failures
    assert done.metrics["accuracy"] > 0.85
    assert 10 < done.privacy["epsilon"] <= 20
    guarantee = done.privacy["guarantee"]
    assert "one record added to or removed from" in guarantee
    assert "server trusted with every row" in guarantee
    assert "number of all rows is known" in guarantee
    done.side.save(tmp_path)
    forest, rows = load(tmp_path / "forest.json"), model.public_rows(Schema.from_dict(BINARY))[0]
    assert forest.schema.classes == ("no", "yes")
    assert forest.predict_proba(rows)[:, 1].std() > 0
    again = run(experiment(table(tmp_path, BINARY)), CLIENTS)
    assert again.metrics["accuracy"] == done.metrics["accuracy"]


def test_a_regression_learns_but_says_that_nothing_is_proven(tmp_path: Path) -> None:
    done = run(experiment(table(tmp_path, REGRESSION)), CLIENTS)
    assert not done.failures
    assert done.metrics["r2"] > 0.5
    assert done.privacy["guarantee"].startswith(f"guarantee: none ({RESIDUALS}")


@pytest.mark.parametrize(("schema", "state"), [(BINARY, "yes"), (REGRESSION, "no: there is noise, but it does not")])
def test_reports_have_it_as_any_method(tmp_path: Path, schema: dict[str, Any], state: str) -> None:
    asked = experiment(table(tmp_path, schema), strategy={"boosting_rounds": 20})
    run_job(asked, InProcessGrid(client_app, CLIENTS), tmp_path / "runs" / "a")
    page = write_report([tmp_path / "runs"], tmp_path / "report").read_text(encoding="utf-8")
    assert "central_dp_ebm" in page
    assert "server trusted with every row" in page
    assert state in page
    drawn = [figure.read_text() for figure in (tmp_path / "report" / "figures").rglob("*.svg")]
    assert any("central_dp_ebm" in figure for figure in drawn)


@pytest.mark.parametrize("schema", [BINARY, REGRESSION])
def test_predicts_what_interpret_predicts(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[Any] = []
    convert = model.to_forest
    monkeypatch.setattr(model, "to_forest", lambda *parts: fitted.append(parts[0]) or convert(*parts))
    rng = np.random.default_rng(1)
    known = Schema.from_dict(schema)
    X = np.concatenate([model.public_rows(known)[0]] * 80)
    X[:, 0] = rng.uniform(0, 1, len(X)).astype(np.float32)
    X[::7, 0] = known.missing_values[0]
    y = (X[:, 0] > 0.5).astype(int) if known.is_classification else 100 + 8 * np.clip(X[:, 0], 0, 1)
    forest = model.fit(task(schema, 5.0, max_bins=5), X, y, 3)
    X = np.concatenate([X, np.repeat(X[:6], 40, axis=0)])
    X[-240:, 0] = np.resize([*fitted[0].bins_[0][0]], 240)  # rows at the cuts themselves
    frame = model.as_frame(known, X)
    if known.is_classification:
        expected, found = fitted[0].predict_proba(frame), forest.predict_proba(X)
    else:
        expected, found = np.clip(fitted[0].predict(frame) + 105, 100, 110), forest.predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    sent = unpack(pack(forest), known, forest.output)
    np.testing.assert_array_equal(sent.apply(X), forest.apply(X))


def test_the_noise_of_the_model_is_what_the_ledger_says() -> None:
    """Rows in the middle of the range have no residual: all that the leaves hold is noise."""
    asked = task({**REGRESSION, "features": BINARY["features"][:1], "missing": "drop"}, 1.0, boosting_rounds=1)
    X, y = np.random.default_rng(0).uniform(0, 1, (400, 1)).astype(np.float32), np.full(400, 105.0)
    noise = []
    for seed in range(150):
        forest = model.fit(asked, X, y, seed)
        leaf = forest.is_leaf
        value, weight = forest.value[leaf, 0] + forest.base[0] - 105, forest.weight[leaf]
        leaves, which = np.unique(np.round(value, 9), return_inverse=True)
        noise += (leaves * np.bincount(which, weights=weight)).tolist()
    assert np.std(noise) == pytest.approx(entries(asked)[1].scale, rel=0.15)


def test_less_noise_than_the_ledger_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from interpret.glassbox._ebm import _ebm

    of_interpret = _ebm.calc_gdp_noise_multi
    monkeypatch.setattr(_ebm, "calc_gdp_noise_multi", lambda **each: of_interpret(**each) / 2)
    asked = task(BINARY)
    with pytest.raises(DPForestError, match=r"drew noise of .* for noised sums of residuals"):
        model.fit(asked, *model.public_rows(asked.schema), 0)


@pytest.mark.parametrize("schema", [BINARY, REGRESSION])
@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0, 100.0, 700.0])
def test_all_lines_together_stay_within_the_budget(schema: dict[str, Any], epsilon: float) -> None:
    assert 0.5 * epsilon < total_epsilon(entries(task(schema, epsilon)), 1e-5) <= epsilon


def test_what_values_a_column_has_does_not_depend_on_rows() -> None:
    """Neither a class nor a category that no row has changes what is counted."""
    schema = Schema.from_dict(BINARY)
    X, y = model.public_rows(schema)
    assert [sorted(set(place)) for place in schema.category_positions(X)] == [[0, 1, 2, 3, 4, 5]]
    assert sorted(set(y)) == [0, 1]
    few = np.repeat(X[:1], 50, axis=0)
    forest = model.fit(task(BINARY, 50.0), few, np.zeros(50, dtype=int), 0)
    assert np.isfinite(forest.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("schema", "budget", "words"),
    [
        (SCHEMA, {}, "takes two classes or a target_range, and the schema has 3 classes: use strategy=boost, or join"),
        (BINARY, {"epsilon": math.inf}, "an epsilon of at most 700, not inf: use strategy=centralized"),
        (BINARY, {"delta": 0.0}, r"delta 0.0 must lie between 0 and 1 for Gaussian noise; choose one"),
        (BINARY, {"epsilon": 1e-9, "delta": 1e-9}, "no noise for the share 1e-10 of epsilon at delta 5e-10: raise"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(schema: Any, budget: dict[str, float], words: str) -> None:
    with pytest.raises(DPForestError, match=words) as refused:
        entries(task(schema, **budget))
    assert "\n" not in str(refused.value)


def test_more_classes_are_refused_before_any_row_travels(tmp_path: Path) -> None:
    with pytest.raises(DPForestError, match="the schema has 3 classes"):
        run(experiment(write_table(tmp_path)))


def test_without_interpret_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DPForestError, match=r'pip install "dpforest\[ebm\]"'):
        get_method("central_dp_ebm").requires("central_dp_ebm")


def test_noise_is_drawn_anew_where_it_must_be_secure(tmp_path: Path) -> None:
    secure = experiment(table(tmp_path, BINARY), 1.0, privacy={"noise": "secure"}, strategy={"boosting_rounds": 5})
    rows = model.public_rows(Schema.from_dict(BINARY))[0]
    one, other = (run(secure, CLIENTS).side.forest.predict_proba(rows) for _ in range(2))
    assert not np.array_equal(one, other)

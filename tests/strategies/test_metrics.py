"""Metrics from sums: by hand, and against scikit-learn."""

from __future__ import annotations

import csv
import json
import logging
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import CLIENTS, make, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import pearsonr
from sklearn import metrics as reference

import strategies.metrics
from dpforest.errors import DPForestError
from dpforest.schema import Feature, Schema
from fl_app.client_app import app as client_app
from fl_app.engine.in_process import InProcessGrid
from fl_app.jobs.record import run_job
from fl_app.report.page import write_report
from fl_app.results.rows import write_results
from strategies.metrics import (
    Kind,
    Metric,
    Sums,
    add_sums,
    check_sums,
    classification_sums,
    confusion_matrix,
    finite,
    joint_metrics,
    memorization_rate,
    primary_metric,
    regression_sums,
    summarize,
)


def test_classification_by_hand() -> None:
    y = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 1, 1, 0])
    probability = np.full((6, 4), 0.1)  # the fourth class never occurs
    probability[np.arange(6), predicted] = 0.7
    sums = classification_sums(y, probability)
    assert confusion_matrix(sums) == [[2, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    summary = summarize(sums)
    assert summary["accuracy"] == pytest.approx(4 / 6)
    assert summary["balanced_accuracy"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert summary["macro_f1"] == pytest.approx((2 * 2 / (3 + 3) + 2 * 2 / (2 + 3) + 0) / 3)
    assert summary["log_loss"] == pytest.approx(-(4 * math.log(0.7) + 2 * math.log(0.1)) / 6)
    # By chance 3 * 3 + 2 * 3 + 1 * 0 of 36 agree.
    assert summary["cohen_kappa"] == pytest.approx((4 / 6 - 15 / 36) / (1 - 15 / 36))
    assert primary_metric(summary).name == "accuracy"


def test_regression_by_hand() -> None:
    summary = summarize(regression_sums(np.array([1.0, 2.0, 6.0]), np.array([2.0, 2.0, 5.0])))
    assert summary["mse"] == pytest.approx(2 / 3)
    assert summary["mae"] == pytest.approx(2 / 3)
    assert summary["r2"] == pytest.approx(1 - 2 / 14)  # 14 = 2^2 + 1^2 + 3^2 around the mean 3
    assert summary["pearson"] == pytest.approx(9 / math.sqrt(14 * 6))
    assert primary_metric(summary).name == "r2"


def test_a_constant_prediction_has_no_correlation() -> None:
    assert summarize(regression_sums(np.array([1.0, 3.0]), np.array([2.0, 2.0])))["pearson"] == 0.0


def test_targets_that_are_all_the_same_have_no_r2() -> None:
    assert set(summarize(regression_sums(np.array([2.0, 2.0]), np.array([1.0, 3.0])))) == {"mse", "mae", "pearson"}


def schema(classes: int) -> Schema:
    features = (Feature("a", 0, 1),)
    if not classes:
        return Schema(features, "y", target_range=(-100.0, 100.0))
    return Schema(features, "y", tuple(f"c{number}" for number in range(classes)))


HOSTILE_SUMS: dict[str, tuple[int, dict[str, list[float]]]] = {
    "moments beyond squaring": (0, {"moments": [12, 1e200, 1e200, 1, 1, 1], "errors": [0.0, 0.0]}),
    "infinite target": (0, {"moments": [1, 1e308, 1e308, 1e308, 1e308, 1e308], "errors": [1e308, 1e308]}),
    "half a row": (0, {"moments": [0.5, 0, 0, 0, 0, 0], "errors": [0.0, 0.0]}),
    "too many rows": (0, {"moments": [1e13, 0, 0, 0, 0, 0], "errors": [0.0, 0.0]}),
    "outside the range": (0, {"moments": [1, 101, 101**2, 0, 0, 0], "errors": [101**2, 101]}),
    "negative squares": (0, {"moments": [2, 0, -1, 0, 0, 0], "errors": [0.0, 0.0]}),
    "squares below the mean's": (0, {"moments": [2, 100, 100, 0, 0, 0], "errors": [100.0, 100.0]}),
    "better than perfect": (0, {"moments": [2, 10, 82, 0, 0, 0], "errors": [-82.0, 10.0]}),
    "errors of others": (0, {"moments": [2, 10, 82, 0, 0, 0], "errors": [0.0, 0.0]}),
    "absolute errors of others": (0, {"moments": [2, 10, 82, 0, 0, 0], "errors": [82.0, 0.0]}),
    "confusion beyond adding": (3, {"confusion": [1.7e308] * 9, "log_loss": [0.0]}),
    "confusion of 1e300": (3, {"confusion": [1e300] + [0.0] * 8, "log_loss": [0.0]}),
    "confusion of parts": (3, {"confusion": [0.5] * 9, "log_loss": [0.0]}),
    "log loss below 0": (3, {"confusion": [1.0] * 9, "log_loss": [-1e300]}),
    "log loss above all": (3, {"confusion": [1.0] * 9, "log_loss": [9 * 35.0]}),
    "other scores": (2, {"confusion": [1.0] * 4, "log_loss": [0.0], "scores": [4.0] + [0.0] * 1999}),
    "no scores": (2, {"confusion": [1.0] * 4, "log_loss": [0.0]}),
}


@pytest.mark.parametrize("name", HOSTILE_SUMS)
def test_sums_that_no_rows_add_up_to_are_refused(name: str) -> None:
    classes, sums = HOSTILE_SUMS[name]
    with pytest.raises(DPForestError, match=r"the evaluation|the log loss"):
        check_sums(sums, schema(classes))


ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 1e12, 1e13, 1e154, 1e200, -1e200, 1.7e308, 5e-324, math.inf, math.nan]


@given(st.integers(0, 4), st.integers(0, 2**32), st.booleans())
@settings(max_examples=400, deadline=None)
def test_sums_that_are_let_through_give_finite_metrics_with_all_others(classes: int, seed: int, honest: bool) -> None:
    rng = np.random.default_rng(seed)
    classes = classes if classes != 1 else 0
    n = int(rng.integers(1, 30))

    def sums_of_rows() -> dict[str, list[float]]:
        if classes:
            return classification_sums(rng.integers(0, classes, n), rng.dirichlet([0.1] * classes, n))
        y, p = rng.choice([-100.0, 0.0, 1e-9, 99.9, 100.0], (2, n))
        return regression_sums(y, p)

    first, second = sums_of_rows(), sums_of_rows()
    if honest:
        check_sums(first, schema(classes))
    else:
        for _ in range(rng.integers(1, 3)):
            values = first[str(rng.choice(list(first)))]
            values[rng.integers(len(values))] = float(rng.choice(ODD))
    try:
        check_sums(first, schema(classes))
    except DPForestError:
        return
    for parts in ([first], [first, second], [first] * 100):
        summary = joint_metrics(parts)
        assert {"accuracy", "mse"} & set(summary)
        assert all(math.isfinite(value) for value in summary.values())
        assert "accuracy" not in summary or 0 <= summary["accuracy"] <= 1


_FOUND = st.recursive(
    st.floats() | st.integers() | st.text() | st.none() | st.booleans() | st.floats(width=32).map(np.float32)
    | st.floats().map(np.float64) | st.integers(0, 9).map(np.int64) | npst.arrays(float, 2) | st.floats().map(np.array),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(), _FOUND, max_size=4))
def test_whatever_a_run_reports_its_file_holds_no_nan(found: dict[str, Any]) -> None:
    text = json.dumps(finite(found, "metrics"), allow_nan=False)
    assert json.loads(text) == finite(json.loads(text), "metrics"), "nothing is left out twice"


def test_metrics_that_no_json_holds_are_left_out_by_name(caplog: pytest.LogCaptureFixture) -> None:
    plain = {"a": 1.0, "b": math.nan, "c": {"d": math.inf, "e": [1, 2.0]}, "f": [0.0, -math.inf], "g": "text"}
    assert finite(plain, "metrics") == {"a": 1.0, "c": {"e": [1, 2.0]}, "g": "text"}
    assert [record.getMessage().split(" is left out")[0] for record in caplog.records] == [
        "metrics: b", "metrics: c: d", "metrics: f"
    ]  # fmt: skip


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, k = draw(st.integers(1, 40)), draw(st.integers(2, 5))
    y = draw(npst.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    raw = draw(npst.arrays(np.float64, (n, k), elements=st.floats(0.01, 1)))
    return y, raw / raw.sum(axis=1, keepdims=True)


@given(predictions(), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_sums_of_clients_give_scikit_learns_metrics_of_all(case: tuple[np.ndarray, np.ndarray], cut: int) -> None:
    y, probability = case
    k, predicted = probability.shape[1], probability.argmax(axis=1)
    sums = add_sums([classification_sums(y[:cut], probability[:cut]), classification_sums(y[cut:], probability[cut:])])
    summary, occurring = summarize(sums), np.unique(y)
    assert confusion_matrix(sums) == reference.confusion_matrix(y, predicted, labels=range(k)).tolist()
    assert summary["accuracy"] == pytest.approx(reference.accuracy_score(y, predicted))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of predicted classes that do not occur
        assert summary["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(y, predicted))
    f1 = reference.f1_score(y, predicted, labels=occurring, average="macro", zero_division=0)
    assert summary["macro_f1"] == pytest.approx(f1)
    assert summary["log_loss"] == pytest.approx(reference.log_loss(y, probability, labels=range(k)))
    if len(np.unique([y, predicted])) > 1:
        assert summary["cohen_kappa"] == pytest.approx(reference.cohen_kappa_score(y, predicted), abs=1e-12)
    else:
        assert "cohen_kappa" not in summary


values = st.floats(-100, 100)


@given(st.lists(st.tuples(values, values), min_size=3, max_size=30), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_sums_of_targets_give_scikit_learns_metrics(pairs: list[tuple[float, float]], cut: int) -> None:
    y, predicted = np.array(pairs).T
    sums = add_sums([regression_sums(y[:cut], predicted[:cut]), regression_sums(y[cut:], predicted[cut:])])
    summary = summarize(sums)
    assert summary["mse"] == pytest.approx(reference.mean_squared_error(y, predicted), abs=1e-9)
    assert summary["mae"] == pytest.approx(reference.mean_absolute_error(y, predicted), abs=1e-9)
    if y.std() > 1e-2 and predicted.std() > 1e-2:
        assert summary["r2"] == pytest.approx(reference.r2_score(y, predicted), rel=1e-4, abs=1e-4)
        assert summary["pearson"] == pytest.approx(pearsonr(y, predicted).statistic, abs=1e-4)


def test_memorization_rate_by_hand() -> None:
    accuracies = {
        0: {0: 0.9, 1: 0.5, 2: 0.7},
        1: {0: 0.8, 1: 0.5, 2: 0.7},
        2: {0: 0.7, 1: 0.4, 2: 0.6},
    }
    # Owner 0's tree is best at home (0.9 > 0.8, 0.7); owner 1's ties abroad; owner 2's is better abroad.
    assert memorization_rate(accuracies) == pytest.approx(1 / 3)
    assert memorization_rate({**accuracies, 3: {}}) == pytest.approx(1 / 3), "a client without a tree has no say"
    assert math.isnan(memorization_rate({}))
    assert math.isnan(memorization_rate({0: {5: 1.0}}))


@given(st.integers(2, 300), st.integers(0, 1000), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_two_classes_against_scikit_learn(n: int, seed: int, clients: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    # In the middles of the histogram's cells, so that none is shared by two different probabilities.
    share = (rng.integers(0, 1000, n) + 0.5) / 1000
    probability = np.column_stack([1 - share, share])
    predicted = probability.argmax(axis=1)
    parts = np.array_split(np.arange(n), clients)
    sums = add_sums(classification_sums(y[part], probability[part]) for part in parts)
    summary = summarize(sums)
    assert summary["precision"] == pytest.approx(reference.precision_score(y, predicted, zero_division=0))
    assert summary["recall"] == pytest.approx(reference.recall_score(y, predicted))
    assert summary["f1"] == pytest.approx(reference.f1_score(y, predicted, zero_division=0))
    assert summary["roc_auc"] == pytest.approx(reference.roc_auc_score(y, share))
    assert summary["log_loss"] == pytest.approx(reference.log_loss(y, probability))
    assert confusion_matrix(sums) == reference.confusion_matrix(y, predicted).tolist()


def test_one_class_alone_has_no_roc_curve() -> None:
    summary = summarize(classification_sums(np.ones(3, dtype=np.int64), np.full((3, 2), 0.5)))
    assert "roc_auc" not in summary
    assert summary["recall"] == 0.0
    assert "precision" not in summarize(classification_sums(np.array([0, 2]), np.full((2, 3), 1 / 3)))


def test_the_confusion_matrix_of_the_ldp_document_does_not_give_its_precision() -> None:
    # "Example Evaluation Metrics": 140 30; 13 17, printed precision 82.35 %, recall 73.33 %, accuracy 78.50 %.
    sums = {"confusion": [140.0, 30.0, 13.0, 17.0], "log_loss": [0.0], "scores": [0.0] * 2000}
    summary = summarize(sums)
    assert summary["accuracy"] == pytest.approx(0.785)
    assert summary["precision"] == pytest.approx(17 / 47)
    assert summary["recall"] == pytest.approx(17 / 30)


def _first_row(sums: Sums) -> float:
    """Share of the test rows in the first line of the confusion matrix."""
    return float(sum(confusion_matrix(sums)[0]) / sum(sums["confusion"]))


def test_a_metric_is_one_entry_and_shows_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made_up = Metric("first_share", "share of the first", Kind.CLASSES, _first_row, log=".5f", against_epsilon=True)
    monkeypatch.setattr(strategies.metrics, "METRICS", (*strategies.metrics.METRICS, made_up))
    with caplog.at_level(logging.INFO):
        run = tmp_path / "sweep" / "0"
        run_job(make(write_table(tmp_path)), InProcessGrid(client_app, CLIENTS), run)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["first_share"] == pytest.approx(sum(metrics["confusion"][0]) / metrics["test_rows"])
    write_results(tmp_path / "sweep")
    for path in (run / "rounds.csv", run / "clients.csv", tmp_path / "sweep" / "results.csv"):
        for row in csv.DictReader(path.open(encoding="utf-8")):
            assert 0 < float(row["first_share"]) < 1, path
            assert -1 < float(row["cohen_kappa"]) <= 1, path
    screen = caplog.text.splitlines()
    assert any(line.startswith("  share of the first") for line in screen)
    assert any(line.startswith("  Cohen's kappa") for line in screen)
    assert any(f"share of the first {metrics['first_share']:.5f}" in line for line in screen), "the line of a round"
    page = write_report([tmp_path / "sweep"]).read_text(encoding="utf-8")
    assert page.count("share of the first</button>") == 1
    assert page.count("Cohen&#39;s kappa</button>") == 1
    assert f">{metrics['cohen_kappa']:.4g}</td>" in page

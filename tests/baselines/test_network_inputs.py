from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_loop import REGRESSION, run

from baselines.dp_sgd.settings import DpSgdSettings
from baselines.mlp.inputs import (
    Standard,
    from_outputs,
    n_inputs,
    row_sums,
    row_sums_sensitivity,
    targets,
    to_unit_range,
)
from dpforest.errors import DPForestError
from dpforest.ledger import Budget
from dpforest.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("linear", 0, 10),
        Feature("root", -4, 16, scale="signed_sqrt"),
        Feature("moved", 0, 8, "", "signed_sqrt", 4),
    ),
    classes=("u", "v"),
)


def test_bounds_map_to_minus_one_and_one_along_the_public_scale() -> None:
    X = np.array([SCHEMA.low, SCHEMA.high, [2.5, 1.0, 5.0]])
    # By hand: the root scale runs from -2 to 4, so 1 lies halfway; the moved one from -2 to 2, and 5 - 4 has root 1.
    assert to_unit_range(X, SCHEMA) == pytest.approx(np.array([[-1] * 3, [1] * 3, [-0.5, 0.0, 0.5]]))


def test_regression_targets_come_back_inside_their_range() -> None:
    y = np.array([-6.0, 0.0, 3.0, 6.0])
    unit = targets(y, REGRESSION)
    assert unit == pytest.approx(np.array([-1, 0, 0.5, 1]))
    assert from_outputs(np.array([*unit, 7.0])[:, None], REGRESSION) == pytest.approx(np.array([*y, 6.0]))


@given(st.integers(0, 20), st.integers(1, 6), st.integers(0, 2**32))
def test_one_row_moves_the_sums_by_no_more_than_their_sensitivity(n: int, features: int, seed: int) -> None:
    rows = np.random.default_rng(seed).choice([-1.0, 1.0, 0.3], (n + 1, features))
    moved = np.linalg.norm(row_sums(rows) - row_sums(rows[:n]))
    assert moved <= row_sums_sensitivity(features) * (1 + 1e-12)


def test_the_extreme_row_reaches_the_sensitivity() -> None:
    row = np.ones((1, 5))
    assert np.linalg.norm(row_sums(row)) == pytest.approx(row_sums_sensitivity(5))


def test_standardised_rows_have_mean_zero_and_deviation_one() -> None:
    unit = np.random.default_rng(0).normal([0.2, -0.5], [0.2, 0.1], (4000, 2)).clip(-1, 1).astype(np.float32)
    standard = Standard.of_sums(row_sums(unit), 2)
    assert standard.mean == pytest.approx(unit.mean(axis=0), abs=1e-6)
    assert standard.apply(unit).std(axis=0) == pytest.approx(np.ones(2), abs=1e-3)


def test_absurd_noised_sums_still_give_a_usable_scale() -> None:
    standard = Standard.of_sums(np.array([500.0, -500.0, -90.0, 1e6, -3.0]), 2)
    assert np.isfinite(standard.apply(np.array([[1.0, -1.0]]))).all()
    assert (standard.scale >= 0.05).all()


def test_a_servers_standard_is_not_believed() -> None:
    good = {"inputs/mean": np.zeros(2), "inputs/scale": np.ones(2)}
    Standard.read(good, 2)
    for bad in ({}, {**good, "inputs/scale": np.zeros(2)}, {**good, "inputs/mean": np.array([0, np.nan])}):
        with pytest.raises(DPForestError, match="inputs/"):
            Standard.read(bad, 2)


GAPS = Schema((Feature("a", 0, 10, missing="branch"), Feature("b", -1, 1)), classes=("u", "v"))


def test_a_missing_cell_is_the_middle_and_an_input_more_says_so() -> None:
    X, _ = GAPS.check_matrix([[np.nan, 1], [0, 0], [10, -1]])
    assert n_inputs(GAPS) == 3
    np.testing.assert_array_equal(to_unit_range(X, GAPS), [[0, 1, 1], [-1, 0, 0], [1, -1, 0]])
    assert DpSgdSettings(hidden=[4]).architecture(GAPS).inputs == 3


@given(st.integers(0, 8), st.integers(0, 2**32))
def test_a_row_with_gaps_moves_the_sums_by_no_more_than_their_sensitivity(n: int, seed: int) -> None:
    cells = np.random.default_rng(seed).choice([np.nan, 0.0, 10.0], (n + 1, 2))
    cells[:, 1] = np.where(np.isnan(cells[:, 1]), 0, 1)
    unit = to_unit_range(GAPS.check_matrix(cells)[0], GAPS)
    moved = np.linalg.norm(row_sums(unit) - row_sums(unit[:n]))
    assert moved <= row_sums_sensitivity(n_inputs(GAPS)) * (1 + 1e-12)


@pytest.mark.parametrize("method", ["dp_sgd", "fedavg", "centralized_mlp", "standalone_mlp"])
def test_a_network_learns_from_what_is_missing(method: str) -> None:
    pytest.importorskip("tensorflow")
    rng = np.random.default_rng(0)
    cells = rng.uniform([0, -1], [10, 1], (600, 2))
    cells[rng.random(600) < 0.5, 0] = np.nan
    X, y = GAPS.check_matrix(cells)[0], np.isnan(cells[:, 0]).astype(np.int64)
    options = {"budget": Budget(30.0, 1e-5), "standardize": "private", "learning_rate": 0.5, "batch": 100, "steps": 20}
    if method != "dp_sgd":
        options = {"budget": Budget(float("inf")), "epochs": 10, "standardize": "own" if "mlp" in method else "public"}
    federation = run(method, {0: (X, y), 1: (X, y)}, clients=2, schema=GAPS.with_rows(600), **options)
    assert not federation.failures
    assert (federation.predict(0, X).argmax(axis=1) == y).mean() > 0.95

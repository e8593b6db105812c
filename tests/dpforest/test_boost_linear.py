"""The linear part of boosting: sensitivity, when it is there, what it learns, and that it is part of the forest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import r2_score, roc_auc_score

from dpforest.boosting import (
    Booster,
    BoostSettings,
    Layout,
    Records,
    Standard,
    boost,
    make_plan,
    release_marginals,
    release_moments,
)
from dpforest.boosting.columns import Columns
from dpforest.boosting.linear import Basis, LinearRecords
from dpforest.forest import feature_importances, load, save, validate
from dpforest.ledger import Budget, Ledger, gaussian_mu
from dpforest.noise import Seeded
from dpforest.schema import Schema

FREE = Budget(math.inf)
LINEAR = BoostSettings(trees_per_round=2, depth=2, bins=16, cuts=7, linear_share=0.5)
PLAIN = {
    "features": [
        {"name": "a", "low": 0, "high": 1},
        {"name": "b", "low": -5, "high": 5, "missing": "branch"},
        {"name": "kind", "categories": ["x", "y", "z"]},
        {"name": "c", "low": 0, "high": 100},
    ],
    "target": "t",
}
CLASSES = Schema.from_dict(PLAIN | {"classes": ["no", "yes", "perhaps"]})
TARGET = Schema.from_dict(PLAIN | {"target_range": [-10, 30]})
WIDE = {"features": [{"name": f"x{i}", "low": -10, "high": 10} for i in range(100)], "target": "t"}
WIDE_CLASSES = Schema.from_dict(WIDE | {"classes": ["no", "yes"]})
WIDE_TARGET = Schema.from_dict(WIDE | {"target_range": [-10, 10]})


def table(schema: Schema, n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with gaps in column b, of which some have no category at all."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, schema.n_features))
    a, b, c = (schema.feature_names.index(name) for name in "abc")
    X[:, a], X[:, b], X[:, c] = rng.random(n), rng.normal(0, 1, n).clip(-5, 5), rng.exponential(8, n).clip(0, 100)
    X[rng.random(n) < 0.1, b] = schema.features[b].missing_value
    kinds = rng.integers(0, 4, n)
    (members,) = Columns(schema).members
    X[np.arange(n)[kinds < 3], members[kinds[kinds < 3]]] = 1
    score = 10 * X[:, a] + 3 * (kinds == 1) + 0.1 * X[:, c]
    return X, np.digitize(score, [4, 9]) if schema.is_classification else score + rng.normal(0, 1, n)


def begin(schema: Schema, X: np.ndarray, y: np.ndarray, rounds: int = 3) -> tuple[Booster, Ledger]:
    """A run without noise, up to the first trees."""
    plan, ledger = make_plan(LINEAR, FREE, rounds, schema), Ledger(FREE)
    booster = Booster(schema, plan, seed=1)
    booster.read_marginals(release_marginals(X, y, schema, plan, ledger, Seeded(0)), 1)
    while booster.needs_moments:
        booster.read_moments(release_moments(X, schema, plan, booster.standard, ledger, Seeded(0)), 1)
    return booster, ledger


@pytest.mark.parametrize("schema", [CLASSES, TARGET], ids=["classes", "target"])
def test_the_sensitivity_is_that_of_the_worst_record(schema: Schema) -> None:
    """Drops each of 300 records, and compares sums without noise: the change is within the plan's bound."""
    X, y = table(schema)
    booster, ledger = begin(schema, X, y)
    plan, free = make_plan(LINEAR, Budget(1.0, 1e-6), 3, schema), booster.plan
    assert (free.unit, free.linear.unit, free.linear.moment_unit) == (
        plan.unit, plan.linear.unit, plan.linear.moment_unit)  # fmt: skip
    layout = Layout.of(booster.structure, schema, free)

    def sums(keep: np.ndarray) -> np.ndarray:
        return Records(X[keep], y[keep], schema, free, booster.start).release(booster.structure, ledger, Seeded(0))

    def moments(keep: np.ndarray) -> np.ndarray:
        return release_moments(X[keep], schema, free, Standard.of_bounds(Columns(schema)), ledger, Seeded(0))

    everything = np.arange(len(y))
    whole, all_moments = sums(everything), moments(everything)
    of_round, of_linear, of_moments = [], [], []
    for i in everything:
        keep = np.delete(everything, i)
        change = whole - sums(keep)
        of_round.append((change**2).sum())
        of_linear.append((layout.parts(change)[1] ** 2).sum())
        of_moments.append(((all_moments - moments(keep)) ** 2).sum())
    assert 0.95 * plan.sums.squared_sensitivity < max(of_round) <= plan.sums.squared_sensitivity
    assert 0.95 * plan.linear.unit**2 < max(of_linear) <= plan.linear.unit**2
    assert 0.5 * plan.linear.moment_unit**2 < max(of_moments) <= plan.linear.moment_unit**2
    assert plan.linear.moments.squared_sensitivity == plan.linear.moment_unit**2


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-(2.0**119), 2.0**119, width=32),
    st.floats(2.0**-100, 2.0**100, width=32),
    st.sampled_from([1, 7, 4096, 2**24]),
)
def test_no_record_adds_more_than_the_unit(seed: int, centre: float, scale: float, unit: int) -> None:
    """Whatever units a server sends, and whatever the gradients are."""
    rng = np.random.default_rng(seed)
    columns = Columns(TARGET)
    standard = Standard(np.full(3, centre, np.float32), np.full(3, scale, np.float32))
    X, _ = table(TARGET, 3, seed)
    codes = columns.codes(X, np.tile([0.2, 0.6], (3, 1)))
    gradients = rng.normal(0, 1, (3, 4))
    gradients = np.trunc(gradients * (unit / np.linalg.norm(gradients, axis=1))[:, None]).astype(np.int32)
    for i in range(3):
        row = LinearRecords(X[i : i + 1], codes[i : i + 1], Basis(columns, standard))
        sums = row.sums(gradients[i : i + 1], unit, 5 * unit)
        assert sum(int(v) ** 2 for v in sums.ravel()) <= (5 * unit) ** 2
        moments = standard.moments(X[i : i + 1, columns.numeric], columns, unit)
        assert sum(int(v) ** 2 for v in moments) <= unit**2


@pytest.mark.parametrize("schema", [CLASSES, TARGET], ids=["classes", "target"])
def test_the_forest_is_the_whole_model(schema: Schema, tmp_path) -> None:
    """Scores of records, by the kernels, are those of the forest by its own walk, and of its file read again."""
    X, y = table(schema, 500)
    booster, ledger = begin(schema, X, y)
    records = Records(X, y, schema, booster.plan, booster.start)
    for _ in range(3):
        done = booster.read_sums(records.release(booster.structure, ledger, Seeded(0)), 1)
        records.add(done.structure, done.weights, done.coefficients)
        assert np.abs(done.coefficients).max() > 0
    forest = validate(booster.forest({}))
    for model in (forest, load(save(forest, tmp_path / "forest.json"))):
        if schema.is_classification:
            assert np.abs(model.predict_proba(X) - softmax(records.scores.astype(float), axis=1)).max() < 1e-5
        else:
            assert np.abs(model.predict(X) - np.clip(10 + 20 * records.scores[:, 0], -10, 30)).max() < 1e-3
    assert forest.n_trees == 3 * 2 + 3 + 1, "three rounds, three numbers, and one column of categories"
    importances = feature_importances(forest)
    assert importances[schema.feature_names.index("a")] == importances.max()


@pytest.mark.parametrize(
    ("schema", "rows", "epsilon", "share"),
    [
        (CLASSES, 80, 1.0, 0.0),
        (CLASSES, 100, 1.0, 0.5),
        (CLASSES, 1000, 1.0, 0.5),
        (CLASSES, 100_000, 1.0, 0.0),
        (CLASSES, 1000, math.inf, 0.0),
        (TARGET, 1000, 1.0, 0.5),
        (TARGET, 100_000, 1.0, 0.15),
        (TARGET, 1000, math.inf, 0.15),
        (WIDE_CLASSES, 150, 1.0, 0.0),
        (WIDE_CLASSES, 200, 1.0, 0.9),
        (WIDE_CLASSES, 1000, 1.0, 0.9),
        (WIDE_CLASSES, 10_000, 1.0, 0.5),
        (WIDE_CLASSES, 100_000, 1.0, 0.0),
        (WIDE_TARGET, 1000, 1.0, 0.5),
    ],
)
def test_the_share_follows_from_public_facts(schema: Schema, rows: int, epsilon: float, share: float) -> None:
    budget = Budget(epsilon, 1e-6) if math.isfinite(epsilon) else FREE
    auto, fixed, other = (
        make_plan(BoostSettings(linear_share=each), budget, 50, schema.with_rows(rows))
        for each in ("auto", share, share + 0.03)
    )
    assert auto.planned() == fixed.planned() != other.planned() or math.isinf(epsilon)
    assert (auto.linear is None) == (share == 0)


def test_the_share_of_many_columns_falls_without_a_jump() -> None:
    budget = Budget(1.0, 1e-6)
    plans = [make_plan(BoostSettings(), budget, 50, WIDE_CLASSES.with_rows(n)) for n in range(1000, 15_000, 100)]
    shares = np.array([plan.linear.share for plan in plans if plan.linear])
    assert len(shares) == len(plans)
    assert shares[0] == 0.9
    assert ((shares[:-1] - shares[1:] >= 0) & (shares[:-1] - shares[1:] < 0.1)).all()


@pytest.mark.parametrize("marginal_share", [0.05, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("schema", [CLASSES, TARGET, WIDE_CLASSES])
def test_the_usual_share_leaves_budget_for_trees_whatever_the_histograms_take(
    schema: Schema, marginal_share: float
) -> None:
    budget = Budget(1.0, 1e-6)
    plan = make_plan(BoostSettings(marginal_share=marginal_share), budget, 50, schema.with_rows(1000))
    ledger = Ledger(budget)
    for entry in plan.planned():
        ledger.charge(entry)
    assert ledger.guarantee().epsilon == pytest.approx(1.0, rel=1e-6)


def test_trees_of_little_budget_take_shorter_steps() -> None:
    def step(schema: Schema, share: float, **settings: float) -> float:
        plan = make_plan(BoostSettings(linear_share=share, **settings), Budget(1.0, 1e-6), 50, schema)
        return plan.step(schema, 1000, 1)

    assert [step(CLASSES, share) for share in (0.0, 0.3, 0.5)] == [2.0] * 3
    assert step(CLASSES, 0.75) == 1.0
    assert step(CLASSES, 0.9) == pytest.approx(0.4)
    assert step(CLASSES, 0.9, step=1.5) == 1.5
    assert step(TARGET, 0.9) == step(TARGET, 0.0), "a regression's were not measured"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_plan_spends_the_budget_and_no_more(epsilon: float) -> None:
    budget = Budget(epsilon, 1e-6)
    plan = make_plan(LINEAR, budget, 20, CLASSES)
    ledger = Ledger(budget)
    for entry in plan.planned():
        ledger.charge(entry)
    assert [entry.times for entry in ledger.entries] == [1, 2, 20]
    assert ledger.guarantee().epsilon == pytest.approx(epsilon, rel=1e-6)
    cost = plan.marginals.mu**2 + 2 * plan.linear.moments.mu**2 + 20 * plan.sums.mu**2  # type: ignore[union-attr]
    assert cost == pytest.approx(gaussian_mu(epsilon, 1e-6) ** 2, rel=1e-6)
    assert "2 trees, and their sums times the columns' values" in ledger.entries[-1].what


def test_a_column_without_spread_and_categories_alone_are_no_fault() -> None:
    names = Schema.from_dict({"features": [{"name": "k", "categories": list("abcde")}], "target": "t",
                              "target_range": [0, 1]})  # fmt: skip
    kinds = np.random.default_rng(0).integers(0, 5, 2000)
    X, y = np.eye(5)[kinds], np.array([0.1, 0.9, 0.2, 0.7, 0.5])[kinds]
    ledger = Ledger(Budget(3.0, 1e-6))
    forest = validate(boost(X, y, names, BoostSettings(linear_share=0.5), 20, ledger, Seeded(0)))
    assert r2_score(y, forest.predict(X)) > 0.9
    assert ledger.guarantee().epsilon == pytest.approx(3.0, rel=1e-6)
    flat = Schema.from_dict({"features": [{"name": n, "low": 0, "high": 1} for n in "ab"], "target": "t",
                             "target_range": [0, 1]})  # fmt: skip
    X = np.column_stack([np.full(2000, 0.3), np.linspace(0, 1, 2000)])
    forest = boost(X, X[:, 1], flat, BoostSettings(linear_share=0.5), 20, Ledger(Budget(3.0, 1e-6)), Seeded(0))
    assert r2_score(X[:, 1], forest.predict(X)) > 0.9


def test_a_slope_over_many_columns_is_found_where_trees_do_not() -> None:
    rng = np.random.default_rng(0)
    schema = Schema.from_dict({"features": [{"name": f"x{i}", "low": -10, "high": 10} for i in range(30)],
                               "target": "t", "target_range": [-10, 10]})  # fmt: skip
    X = rng.normal(0, 1, (3000, 30))
    y = np.clip(X @ rng.normal(0, 0.5, 30), -10, 10)
    scores = {}
    for share in (0.0, 0.5):
        ledger = Ledger(Budget(1.0, 1e-6))
        forest = boost(X[:2000], y[:2000], schema, BoostSettings(linear_share=share), 50, ledger, Seeded(0))
        scores[share] = r2_score(y[2000:], forest.predict(X[2000:]))
    assert scores[0.0] < 0.3
    assert scores[0.5] > 0.6


def test_classes_of_many_columns_are_found_with_little_budget() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (5000, 100))
    y = (X @ rng.normal(0, 0.1, 100) + rng.normal(0, 0.3, 5000) > 0).astype(int)
    means = []
    for settings_ in (BoostSettings(), BoostSettings(linear_share=0.5), BoostSettings(linear_share=0)):
        scores = []
        for seed in range(3):
            ledger = Ledger(Budget(1.0, 1e-6))
            forest = boost(X[:1000], y[:1000], WIDE_CLASSES.with_rows(1000), settings_, 50, ledger, Seeded(seed))
            scores.append(roc_auc_score(y[1000:], forest.predict_proba(X[1000:])[:, 1]))
        means.append(np.mean(scores))
    usual, half, trees = means
    assert usual > half + 0.01
    assert half > trees + 0.05

"""Private boosting: sensitivity, sums, accounting, and the model as an ordinary forest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from dpforest.boosting import (
    Booster,
    BoostSettings,
    Layout,
    Records,
    Start,
    boost,
    kernels,
    make_plan,
    release_marginals,
)
from dpforest.boosting.bins import Marginals, count_marginals
from dpforest.boosting.sizes import nominal_sizes
from dpforest.boosting.trees import Splits, random_structure, split_shares
from dpforest.errors import BudgetExceeded, DPForestError
from dpforest.forest import feature_importances, load, save, validate
from dpforest.ledger import Budget, Ledger, gaussian_mu
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

FEATURES = (Feature("a", 0, 1), Feature("b", -1, 1), Feature("c", 0, 10))
CLASSES = Schema(FEATURES, classes=("x", "y", "z"))
TARGET = Schema(FEATURES, target_range=(-10.0, 30.0))
FREE = Budget(math.inf)
USUAL = Budget(1.0, 1e-6)


def table(schema: Schema, n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(schema.low, schema.high, (n, 3))
    if schema.is_classification:
        return X, (X[:, 0] > 0.5).astype(np.int64) + (X[:, 1] > 0.2)
    return X, 20.0 * (X[:, 0] > 0.5) + rng.normal(0, 1, n)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.floats(1e-3, 3.0),
    st.sampled_from([1, 7, 256, 4096]),
    st.sampled_from([1, 2]),
    st.sampled_from([0.1, 1.0, 30.0]),
)
def test_no_record_adds_more_than_the_unit(
    seed: int, n_classes: int, clip: float, unit: int, order: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, spread, (50, n_classes)).astype(np.float32)
    y = rng.integers(0, n_classes, 50)
    out = np.empty((50, n_classes), dtype=np.int32)
    kernels.class_gradients(scores, y, clip, unit, order, out)
    whole = out.astype(object)
    assert max(sum(abs(v) ** order for v in row) for row in whole) <= unit**order
    gradient = softmax(scores.astype(np.float64), axis=1) - np.eye(n_classes)[y]
    norm = np.linalg.norm(gradient, ord=order, axis=1)
    expected = gradient * (unit / np.maximum(norm, clip))[:, None]
    # Rounding moves by a half; what then left the ball was pulled back by a step or two.
    assert np.abs(out - expected).max() <= 2.51


def test_a_record_with_an_impossible_score_adds_no_gradient() -> None:
    out = np.ones((3, 2), dtype=np.int32)
    scores = np.array([[np.nan, 0], [np.inf, 0], [0, 0]], dtype=np.float32)
    kernels.class_gradients(scores, np.zeros(3, np.int64), 0.5, 256, 2, out)
    assert (out[:2] == 0).all()
    assert (out[2] != 0).all()


@pytest.mark.parametrize("clip", [1e-250, 1e-310, 5e-324])
@pytest.mark.parametrize("order", [1, 2])
def test_a_clip_at_which_the_arithmetic_underflows_keeps_the_bound(clip: float, order: int) -> None:
    """Records that the model is all but sure of, under a clip that a hostile server chose."""
    for n_classes in (2, 3, 4, 5):
        scores = np.zeros((40, n_classes), dtype=np.float32)
        scores[:, 0] = np.linspace(0, 1000, 40)
        out = np.empty((40, n_classes), dtype=np.int32)
        kernels.class_gradients(scores, np.arange(40) % 2, clip, 256, order, out)
        assert max(sum(abs(v) ** order for v in row) for row in out.astype(object)) <= 256**order
    errors = np.array([0.0, 1e-300, 1e-170, -1e-160, 1.0])
    out = np.empty((5, 1), dtype=np.int32)
    kernels.squared_gradients(np.zeros((5, 1), np.float32), errors, clip, 256, order, out)
    assert np.abs(out.astype(np.int64)).max() <= 256


def structure_and_start(schema: Schema, X: np.ndarray, y: np.ndarray, settings: BoostSettings, budget: Budget):
    plan = make_plan(settings, budget, 3, schema)
    booster = Booster(schema, make_plan(settings, FREE, 3, schema), seed=5)
    booster.read_marginals(count_marginals(X, y, schema, settings.bins), 1)
    return plan, booster.structure, booster.start


@pytest.mark.parametrize("schema", [CLASSES, TARGET], ids=["classes", "target"])
@pytest.mark.parametrize("pure", [False, True])
def test_the_sensitivity_is_that_of_the_worst_record(schema: Schema, pure: bool) -> None:
    """Drops each of 400 records, and compares sums without noise: the change is within the plan's bound."""
    X, y = table(schema)
    settings = BoostSettings(pure=pure, trees_per_round=3, depth=3, bins=8, cuts=3, linear_share=0)
    plan, structure, start = structure_and_start(schema, X, y, settings, Budget(1.0) if pure else Budget(1.0, 1e-6))
    free = make_plan(settings, FREE, 3, schema)

    def sums(keep: np.ndarray) -> np.ndarray:
        records = Records(X[keep], y[keep], schema, free, start)
        return records.release(structure, Ledger(FREE), Seeded(0))

    everything = np.ones(len(y), dtype=bool)
    whole = sums(everything)
    norms = []
    for i in range(len(y)):
        keep = everything.copy()
        keep[i] = False
        change = (whole - sums(keep)).reshape(3, -1)
        norms.append((np.abs(change) ** (1 if pure else 2)).sum(axis=1).max())
    bound = plan.sums.sensitivity if pure else plan.sums.squared_sensitivity  # type: ignore[union-attr]
    assert free.unit == plan.unit
    assert 0.9 * bound < max(norms) <= bound
    histograms = [release_marginals(X[n:], y[n:], schema, free, Ledger(FREE), Seeded(0)) for n in (0, 1)]
    change = (histograms[0] - histograms[1]) // free.marginal_unit
    assert (change.sum(axis=1) == 1).all()
    assert change.min() == 0
    if pure:
        assert plan.marginals.sensitivity == change.sum()  # type: ignore[union-attr]
    else:
        of_record = ((change * plan.marginal_unit) ** 2).sum()
        assert plan.marginals.squared_sensitivity == of_record  # type: ignore[union-attr]


def test_sums_and_scores_agree_with_the_forest() -> None:
    """Leaves of the finished forest, by its own walk, give the sums and scores that the kernels computed."""
    X, y = table(CLASSES)
    settings = BoostSettings(trees_per_round=2, depth=3, bins=16, cuts=7, linear_share=0)
    plan = make_plan(settings, FREE, 2, CLASSES)
    booster = Booster(CLASSES, plan, seed=1)
    ledger = Ledger(FREE)
    booster.read_marginals(release_marginals(X, y, CLASSES, plan, ledger, Seeded(0)), 1)
    records = Records(X, y, CLASSES, plan, booster.start)
    for _ in range(2):
        before = records.scores.astype(np.float64)
        sums = records.release(booster.structure, ledger, Seeded(0))
        leaf_sums, _ = Layout.of(booster.structure, CLASSES, plan).parts(sums)
        done = booster.read_sums(sums, 1)
        records.add(done.structure, done.weights, done.coefficients)
    forest = validate(booster.forest({}))
    assert np.abs(forest.predict_proba(X) - softmax(records.scores.astype(np.float64), axis=1)).max() < 1e-5
    gradient = softmax(before, axis=1) - np.eye(3)[y]
    gradient *= plan.unit / np.maximum(np.linalg.norm(gradient, axis=1), 0.5)[:, None]
    leaves = forest.apply(X)[:, 2:] - forest.offsets[2:4] - 7
    for tree in range(2):
        for leaf in range(8):
            inside = leaves[:, tree] == leaf
            assert np.abs(leaf_sums[tree, leaf, :3] - gradient[inside].sum(axis=0)).max() <= 1.6 * inside.sum()
            assert leaf_sums[tree, leaf, 3] == plan.count_unit * inside.sum()


def even_marginals(cuts: np.ndarray) -> Marginals:
    """Numeric columns with these cuts, at equal shares of 100 records."""
    shares = np.linspace(0, 1, cuts.shape[1] + 2)
    return Marginals(cuts, np.tile(shares, (len(cuts), 1)), (), 100.0, np.array([0.5, 0.5]))


def test_random_trees_ask_what_is_not_yet_known() -> None:
    """Every question has a cut inside its node's box, unless the box has none of any feature."""
    cuts = np.array([[1.0, 1.0, 2.0, 3.0], [5.0, 6.0, 7.0, 8.0], [4.0, 4.0, 4.0, 4.0]])
    rng = np.random.default_rng(0)
    splits = Splits.draw(even_marginals(cuts), rng)
    structure = random_structure(40, 4, splits, np.array([0.2, 0.3, 0.5]), rng)
    repeated = 0
    for tree in range(40):
        boxes = {0: [(-math.inf, math.inf)] * 3}
        for node in range(15):
            feature = structure.feature[tree, node]
            cut = cuts[feature, structure.split[tree, node]]
            open_features = [f for f, (low, high) in enumerate(boxes[node]) if any(low < c < high for c in cuts[f])]
            low, high = boxes[node][feature]
            if open_features:
                assert low < cut < high
            repeated += not open_features
            for child, side in ((2 * node + 1, (low, min(high, cut))), (2 * node + 2, (max(low, cut), high))):
                boxes[child] = [*boxes[node]]
                boxes[child][feature] = side
    assert repeated < 60
    sizes = nominal_sizes(split_shares(structure, splits), 1.0)
    assert [s.shape for s in sizes] == [(40, 1), (40, 2), (40, 4), (40, 8), (40, 16)]
    assert all(np.allclose(level.sum(axis=1), 1) for level in sizes)


def test_where_no_cut_is_left_a_tree_repeats_itself() -> None:
    splits = Splits.draw(even_marginals(np.array([[0.5, 0.5]])), np.random.default_rng(0))
    structure = random_structure(3, 3, splits, np.ones(1), np.random.default_rng(0))
    assert (structure.feature == 0).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rounds", [5, 50])
def test_a_plan_spends_the_budget_and_no_more(epsilon: float, rounds: int) -> None:
    for budget, pure in ((Budget(epsilon, 1e-6), False), (Budget(epsilon), True)):
        plan = make_plan(BoostSettings(pure=pure, linear_share=0), budget, rounds, CLASSES)
        ledger = Ledger(budget)
        ledger.charge(plan.marginal_entry)
        for _ in range(rounds):
            ledger.charge(plan.round_entry)
        assert ledger.guarantee().epsilon == pytest.approx(epsilon, rel=1e-6)
        assert [e.times for e in ledger.entries] == [1, plan.trees]
        with pytest.raises(BudgetExceeded):
            ledger.charge(plan.round_entry)


def test_a_plan_costs_what_dp_accounting_says() -> None:
    plan = make_plan(BoostSettings(linear_share=0), Budget(1.0, 1e-6), 50, CLASSES)
    marginals, sums = plan.marginals, plan.sums
    total = privacy_loss_distribution.from_gaussian_mechanism(
        1 / marginals.mu,
        value_discretization_interval=1e-4,  # type: ignore[union-attr]
    ).compose(
        privacy_loss_distribution.from_gaussian_mechanism(
            1 / (sums.mu * math.sqrt(plan.trees)),
            value_discretization_interval=1e-4,  # type: ignore[union-attr]
        )
    )
    assert total.get_epsilon_for_delta(1e-6) == pytest.approx(1.0, abs=1e-4)
    cost = marginals.mu**2 + plan.trees * sums.mu**2  # type: ignore[union-attr]
    assert cost == pytest.approx(gaussian_mu(1.0, 1e-6) ** 2, rel=1e-6)


@pytest.mark.parametrize(("schema", "good"), [(CLASSES, 0.93), (TARGET, 0.9)], ids=["classes", "target"])
@pytest.mark.parametrize("budget", [FREE, Budget(3.0, 1e-6), Budget(3.0)], ids=["free", "gaussian", "pure"])
def test_it_learns(schema: Schema, good: float, budget: Budget) -> None:
    X, y = table(schema, 20_000)
    ledger = Ledger(budget)
    pure = budget.delta == 0 and math.isfinite(budget.epsilon)
    forest = boost(X, y, schema, BoostSettings(pure=pure), 20, ledger, Seeded(1))
    new, wanted = table(schema, 2_000, seed=9)
    predicted = forest.predict(new)
    if schema.is_classification:
        assert (predicted == wanted).mean() > good
    else:
        assert 1 - ((predicted - wanted) ** 2).mean() / wanted.var() > good
    if math.isfinite(budget.epsilon):
        assert ledger.guarantee().epsilon == pytest.approx(budget.epsilon)
    importances = feature_importances(forest)
    assert importances[2] < 0.15 < importances[0]


def test_two_classes_are_enough(tmp_path) -> None:
    schema = Schema(FEATURES, classes=("no", "yes"))
    X, y = table(CLASSES, 5000)
    forest = boost(X, np.minimum(y, 1), schema, BoostSettings(), 10, Ledger(Budget(5.0, 1e-6)), Seeded(0))
    assert (forest.predict(X) == np.minimum(y, 1)).mean() > 0.95
    again = load(save(forest, tmp_path / "forest.json"))
    assert np.allclose(again.predict_proba(X), forest.predict_proba(X), atol=1e-6)


def test_a_budget_that_was_touched_refuses_the_whole_run() -> None:
    X, y = table(CLASSES)
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.charge(make_plan(BoostSettings(), ledger.budget, 3, CLASSES).round_entry)
    before = ledger.entries
    with pytest.raises(BudgetExceeded):
        boost(X, y, CLASSES, BoostSettings(), 3, ledger, Seeded(0))
    assert ledger.entries == before


def test_sums_are_cut_off_before_the_noise() -> None:
    X, y = table(CLASSES)
    settings = BoostSettings(depth=1, trees_per_round=1)
    plan = make_plan(settings, FREE, 1, CLASSES)
    counts = release_marginals(X, y, CLASSES, plan, Ledger(FREE), Seeded(0), largest=5)
    assert counts.max() == 5
    booster = Booster(CLASSES, plan, 0)
    booster.read_marginals(counts, 1)
    records = Records(X, y, CLASSES, plan, Start(booster.start.cuts, np.zeros(3), 0.5))
    sums = records.release(booster.structure, Ledger(FREE), Seeded(0), largest=100)
    assert np.abs(sums).max() == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trees_per_round": 0}, "trees_per_round 0 must be a whole number from 1"),
        ({"depth": 15}, "depth 15 must be a whole number from 1 to 14"),
        ({"clip": 0.0}, "clip 0.0 must be a number above 1e-06"),
        ({"cuts": 64}, "cuts 64 must be a whole number from 1 to 63"),
        ({"marginal_share": 1.0}, "marginal_share 1.0 must be a number above 0 and below 1"),
        ({"pure": "yes"}, "pure 'yes' must be true or false"),
        ({"step": math.nan}, "step nan must be a number"),
        ({"linear_share": 1.0}, "linear_share 1.0 must be a number from 0 to below 1"),
        (
            {"linear_share": 0.5, "pure": True},
            "the linear part is for Gaussian noise: set linear_share=0, or pure=false",
        ),
    ],
)
def test_settings_say_what_is_allowed(options: dict, message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        BoostSettings(**options)


@pytest.mark.parametrize(
    ("budget", "options", "rows", "message"),
    [
        (Budget(1.0), {}, None, r"needs a delta well below 1 / records: set privacy.delta=1e-6, or pure=true"),
        (Budget(1.0, 1e-6), {"pure": True}, None, r"pure boosting needs no delta, but delta is 1e-06"),
        (Budget(1.0, 1e-4), {}, 20_000, r"delta 0.0001 is not below 1 / 20000 records"),
    ],
)
def test_a_delta_that_does_not_fit_is_refused(budget: Budget, options: dict, rows: int | None, message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        make_plan(BoostSettings(**options), budget, 5, CLASSES.with_rows(rows))


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        (Budget(1e18, 1e-6), {}, "epsilon is so large"),
        (Budget(1e300, 1e-6), {}, "epsilon is so large"),
        (Budget(1e-20, 1e-20), {}, "epsilon 1e-20 at delta 1e-20 takes more noise"),
        (Budget(1e-300), {"pure": True}, "noise of scale"),
        (Budget(1.0, 1e-6), {"marginal_share": 1e-60}, "noise of scale"),
    ],
)
def test_noise_that_no_whole_numbers_hold_is_refused(budget: Budget, options: dict, message: str) -> None:
    with pytest.raises(DPForestError, match=message):
        make_plan(BoostSettings(**options), budget, 5, CLASSES)


def test_shares_that_leave_nothing_for_trees_are_refused() -> None:
    with pytest.raises(DPForestError, match=r"linear_share 0.96 and marginal_share 0.05 leave no budget for trees"):
        make_plan(BoostSettings(linear_share=0.96), Budget(1.0, 1e-6), 5, CLASSES)


@pytest.mark.parametrize(("records", "depth"), [(10, 2), (1_000, 5), (40_000, 8), (600_000, 12), (10**9, 12)])
def test_leaves_share_no_fewer_records_than_carry_them_whatever_the_budget(records: float, depth: int) -> None:
    plan = make_plan(BoostSettings(linear_share=0), FREE, 50, CLASSES)
    assert plan.depth(records, 1) == depth
    assert make_plan(BoostSettings(linear_share=0), Budget(0.1, 1e-6), 50, CLASSES).depth(records, 1) <= depth


def test_steps_of_classes_are_longer_where_many_records_stand_far_out_of_the_noise() -> None:
    def steps(schema: Schema, budget: Budget = USUAL, **settings: float) -> list[float]:
        plan = make_plan(BoostSettings(linear_share=0, **settings), budget, 50, schema)
        return [plan.step(schema, records, 1) for records in (10, 3_000, 40_000, 50_000, 200_000, 10**6)]

    found = steps(CLASSES)
    assert found == sorted(found)
    assert found[:2] == [2.0, 2.0]
    assert 2.0 < found[2] < 3.0
    assert found[-2:] == [3.0, 3.0], "and never longer"
    assert steps(CLASSES, FREE)[:3] == [2.0, 2.0, 3.0], "few records have short ones whatever the budget"
    assert steps(CLASSES, Budget(1.0), pure=True) == [2.0] * 6
    assert steps(TARGET) == [1.5] * 6
    assert steps(CLASSES, step=0.5) == [0.5] * 6

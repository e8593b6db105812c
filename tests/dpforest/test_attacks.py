"""Attacks on plain arrays: what they reach where theory says how much, what must break, and what noise keeps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from dpforest import PrivateBoostClassifier, PrivateForestClassifier
from dpforest.attacks import (
    Cells,
    Guesser,
    Known,
    Part,
    Shadows,
    agreement,
    boosting_influence,
    class_counts,
    count_ratio,
    count_ratios,
    hidden_columns,
    leaf_counts,
    most_area,
    most_true_positives,
    own_value_hits,
    rates,
    rebuild,
)
from dpforest.boosting import BoostSettings, make_plan
from dpforest.errors import DPForestError
from dpforest.growers import GrowerSettings, balance_votes, finish_classifier, grow_classifier, resolve
from dpforest.guarantee import most_balanced_accuracy
from dpforest.ledger import RECORD_UNIT, Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

SCHEMA = Schema(
    [Feature("a", 0, 1), Feature("b", 0, 1), Feature("c", 0, 1)], "activity", ("rest", "walk", "run"), rows=400
)


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    X = np.clip(rng.normal(0.3 + 0.2 * y[:, None] * [1, 0.5, 0], 0.15, (rows, 3)), 0, 1)
    return SCHEMA.check_matrix(X)[0], y


def grown(X, y, epsilon, seed=0, **settings):
    resolved = resolve(GrowerSettings(**{"depth": 4, "trees": 1, **settings}), epsilon, 400)
    ledger = Ledger(Budget(epsilon), RECORD_UNIT)
    return grow_classifier(X, y, SCHEMA, resolved, epsilon, ledger, Seeded(seed)), resolved


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-6), (3.0, 0.1), (12.0, 0.0)])
def test_what_is_allowed_is_what_a_randomised_response_reaches(epsilon, delta):
    # Says with chance delta who it is, and else the truth with odds e^epsilon: the worst there is.
    truth = delta + (1 - delta) / (1 + np.exp(-epsilon))
    lie = (1 - delta) / (1 + np.exp(epsilon))
    assert most_balanced_accuracy(epsilon, delta) == pytest.approx((truth + 1 - lie) / 2)
    assert most_true_positives(lie, epsilon, delta) == pytest.approx(truth)
    grid = np.linspace(0, 1, 200_001)
    assert most_area(epsilon, delta) == pytest.approx(np.trapezoid(most_true_positives(grid, epsilon, delta), grid))


def test_without_epsilon_everything_is_allowed_and_at_zero_nothing():
    assert most_area(np.inf) == most_balanced_accuracy(np.inf) == most_true_positives(0.001, np.inf) == 1
    assert most_area(0.0) == most_balanced_accuracy(0.0) == pytest.approx(0.5)


def test_rates_are_those_of_theory_and_their_intervals_hold_it():
    rng = np.random.default_rng(1)
    members = rng.random((40, 1000)) < 0.5
    scores = rng.normal(members * 1.0)
    found = rates(scores.ravel(), members.ravel(), np.repeat(np.arange(40), 1000))
    expected = {"area": norm.cdf(1 / np.sqrt(2)), "balanced_accuracy": norm.cdf(0.5)}
    for name, value in expected.items():
        estimate = getattr(found, name)
        assert estimate.low - 0.01 < value < estimate.high + 0.01
        assert estimate.high - estimate.low < 0.03
    assert found.true_positives[0.01].value == pytest.approx(norm.cdf(norm.ppf(0.01) + 1), abs=0.01)
    assert found.area.value == pytest.approx(roc_auc_score(members.ravel(), scores.ravel()), abs=1e-4)


def test_scores_that_say_nothing_reach_what_a_coin_does():
    members = np.arange(1000) % 2 == 0
    found = rates(np.zeros(1000), members, np.arange(1000))
    assert found.area.value == found.balanced_accuracy.value == 0.5
    assert found.true_positives[0.01].value == pytest.approx(0.01)
    assert found.true_positives[0.001] is None  # of 500 others, half a one


@pytest.mark.parametrize("members", [np.ones(4, bool), np.zeros(4, bool)])
def test_one_kind_of_record_is_refused(members):
    with pytest.raises(DPForestError, match="one of them is missing"):
        rates(np.arange(4.0), members, np.arange(4))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_shadow_models_find_the_shift_that_is_there_and_no_other(shift):
    rng = np.random.default_rng(2)
    members = rng.random((24, 800)) < 0.7
    own = rng.normal(size=(800, 1))
    statistics = own + rng.normal(size=(24, 800, 1)) + shift * members[..., None]
    noise = rng.normal(size=(24, 800, 2))
    scores = Shadows(np.concatenate([statistics, noise], axis=2), members).leave_one_out()
    reached = roc_auc_score(members.ravel(), scores.ravel())
    assert reached == pytest.approx(norm.cdf(shift / np.sqrt(2)), abs=0.04)


def test_too_few_shadow_models_are_refused():
    with pytest.raises(DPForestError, match="2 shadow models are too few: use at least 4"):
        Shadows(np.zeros((2, 5, 1)), np.zeros((2, 5), bool))


@pytest.mark.parametrize("balance", [0.0, 0.25, 0.5])
def test_noised_counts_come_back_out_of_a_released_forest_exactly(balance):
    X, y = table(400)
    y = np.where(np.arange(400) < 150, 0, y)  # a frequent class, so that balancing takes something away
    counts, resolved = grown(X, y, 4.0)
    released = balance_votes(finish_classifier(counts, resolved, 1.0), counts, balance)
    found = class_counts(released, balance)
    leaf = released.is_leaf
    expected = np.maximum(counts.value[leaf], 0)
    kept = released.value[leaf] > 0  # what balancing cut off to 0 is shared out
    assert np.abs(found[leaf] - expected)[kept].max() < 0.5
    assert found[leaf].sum() == pytest.approx(expected.sum(), rel=0.02)


def attacked_counts(epsilon, seeds=12):
    scores, members = [], []
    X, y = table(400)
    for seed in range(seeds):
        inside = np.random.default_rng(seed).random(400) < 0.5
        counts, _ = grown(X[inside], y[inside], epsilon, seed, depth=7)
        scores.append(count_ratios(counts, counts.value, Part(np.array([0]), X, y)))
        members.append(inside)
    return rates(np.concatenate(scores), np.concatenate(members), np.repeat(np.arange(seeds), 400))


def test_counts_without_noise_give_members_away_and_noised_ones_no_more_than_allowed():
    assert attacked_counts(np.inf).area.low > 0.6
    private = attacked_counts(1.0)
    assert private.area.low < most_area(1.0)
    assert private.balanced_accuracy.low < most_balanced_accuracy(1.0)
    assert attacked_counts(0.1).area.low < most_area(0.1)


def test_thresholds_that_are_records_own_values_give_these_away():
    X, y = table(200)
    forest, _ = grown(X, y, np.inf, depth=6)
    inner = np.flatnonzero(~forest.is_leaf)
    members = np.random.default_rng(3).permutation(200)[: len(inner)]
    threshold = forest.threshold.copy()
    threshold[inner] = X[members, forest.feature[inner]]
    hits = own_value_hits(replace(forest, threshold=threshold), Part(np.array([0]), X, y))
    assert (hits[members] > 0).all()
    others = np.setdiff1d(np.arange(200), members)
    assert hits[others].sum() == 0
    assert own_value_hits(forest, Part(np.array([0]), X, y)).sum() == 0  # thresholds of the public grid


@pytest.mark.parametrize("trees", [1, 3])
def test_the_informed_attackers_ratio_is_exact(trees):
    # If it is, its mean under "not there" is that of a density, 1, and no value exceeds epsilon.
    epsilon, reach = 0.7, np.arange(-40, 41)
    chances = np.exp(-epsilon * np.abs(reach))
    chances /= chances.sum()
    if trees == 1:
        ratios = np.array([count_ratio(np.array([noise]), np.zeros(1), epsilon) for noise in reach])
        assert np.sum(chances * np.exp(ratios)) == pytest.approx(1, abs=1e-6)
    else:
        drawn = np.random.default_rng(0).choice(reach, (20_000, trees), p=chances)
        ratios = np.array([count_ratio(row, np.zeros(trees), epsilon) for row in drawn])
        assert np.exp(ratios).mean() == pytest.approx(1, abs=0.02)
    assert np.abs(ratios).max() <= epsilon + 1e-9


@pytest.mark.parametrize(("pure", "delta"), [(False, 1e-5), (True, 0.0)])
def test_boosting_moves_no_record_by_more_than_was_paid(pure, delta):
    X, y = table(400)
    settings = BoostSettings(pure=pure, trees_per_round=4, depth=3, linear_share=0)
    model = PrivateBoostClassifier(
        epsilon=2.0, delta=delta, schema=SCHEMA, random_state=0,
        rounds=5, pure=pure, trees_per_round=4, depth=3, linear_share=0,
    ).fit(X, np.array(["rest", "walk", "run"])[y])  # fmt: skip
    plan = make_plan(settings, Budget(2.0, delta), 5, SCHEMA)
    found = boosting_influence(model.forest_, plan, X, y, plan.clip(SCHEMA, 400, 1))
    assert 0 < found.records.min() <= found.records.max() <= found.paid * (1 + 1e-9)
    assert found.records.max() > 0.8 * found.paid  # some record uses nearly all
    if pure:
        assert found.paid == pytest.approx(2.0, rel=1e-6)
        assert found.areas().max() <= most_area(2.0) + 1e-9
    else:
        assert found.areas().max() <= most_area(2.0, delta)
        assert found.true_positives(0.01).max() <= most_true_positives(0.01, 2.0, delta)


def rebuilt(epsilon):
    X, y = table(60, seed=4)
    others = table(2000, seed=5)
    forest, _ = grown(X, y, epsilon, depth=5, trees=10, tree_rows="split_budget", candidates="random")
    trees = np.arange(10)
    cells = Cells.of(forest, trees)
    truth = np.column_stack([cells.codes(X), y])
    known = Known.of(60, cells, *others, 3)
    variance = 0.0 if np.isinf(epsilon) else 2 / (0.04 * epsilon) ** 2
    guesses = [rebuild(forest, trees, leaf_counts(forest), known, variance, seed, 150_000) for seed in range(3)]
    drawn = [known.draw(np.random.default_rng(seed)) for seed in range(3)]
    return tuple(np.mean([agreement(guess, truth)[0] for guess in each]) for each in (guesses, drawn))


def test_rows_are_rebuilt_from_exact_counts_and_not_from_noised_ones():
    attack, marginals = rebuilt(np.inf)
    assert attack > marginals + 0.05
    attack, marginals = rebuilt(0.5)
    assert attack < marginals + 0.05


def test_a_rebuilt_table_is_the_same_for_the_same_seed():
    X, y = table(60)
    forest, _ = grown(X, y, np.inf)
    trees = np.array([0])
    known = Known.of(60, Cells.of(forest, trees), X, y, 3)
    one, same, other = (rebuild(forest, trees, leaf_counts(forest), known, 0.0, seed, 20_000) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_trees_that_ask_nothing_leave_nothing_to_rebuild():
    X, y = table(60)
    forest, _ = grown(X, y, np.inf)
    root = replace(forest.tree(0), offsets=np.array([0, 1]), feature=np.array([-1], np.int32),
                   threshold=np.zeros(1), left=np.array([-1], np.int32), value=forest.value[:1],
                   weight=forest.weight[:1])  # fmt: skip
    with pytest.raises(DPForestError, match="ask nothing"):
        Cells.of(root, np.array([0]))


def test_an_attribute_is_guessed_better_by_a_model_that_has_it():
    X, y = table(600)
    others_X, others_y = table(600, seed=9)
    hidden = next(each for each in hidden_columns(others_X, others_y, 3, 0) if each.feature == 0)
    guesser = Guesser(hidden, others_X, others_y, 0)
    truth = hidden.cells(X)

    def memorised(rows, classes):
        return np.where(hidden.cells(rows) == truth, 0.0, -20.0)

    assert (guesser.by_model(X, y, memorised) == truth).mean() > 0.95
    assert (guesser.by_others(X, y) == truth).mean() < 0.7
    assert (guesser.by_marginals(X) == truth).mean() < 0.5
    nothing = guesser.by_model(X, y, lambda rows, classes: np.zeros(len(rows)))
    assert (nothing == guesser.by_others(X, y)).all()


def test_a_forest_estimators_file_gives_its_counts_back():
    X, y = table(400)
    model = PrivateForestClassifier(
        epsilon=2.0, bounds=[(0, 1)] * 3, classes=["rest", "walk", "run"], rows=400, random_state=0
    ).fit(X, np.array(["rest", "walk", "run"])[y])
    found = leaf_counts(model.forest_, 0.0, "laplace")
    leaf = model.forest_.is_leaf
    assert np.allclose(found[leaf], np.round(found[leaf]), atol=1e-6)
    assert np.allclose(found[leaf].sum(axis=1), model.forest_.weight[leaf])

"""Growing trees: against plain Python without noise, and what is charged, refused and left alone with noise."""

import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from made_up_forests import leaf_by_hand

from dpforest.errors import BudgetExceeded, DPForestError, SchemaError
from dpforest.forest import Forest, validate
from dpforest.forest.codec import fill_inner_nodes
from dpforest.growers import GrowerSettings, balance_votes, finish_classifier, grow_classifier, planned_entries, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.growers.candidates import Bounds
from dpforest.ledger import Budget, Entry, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

SCHEMA = Schema((Feature("a", -2, 2), Feature("b", 0, 8), Feature("c", 0, 1)), classes=("u", "v", "w"))
INF = math.inf
GOLDEN_ACCURACY = 0.9875
GOLDEN_STRUCTURE = "1fbea3004c02960d"
EVERY_WAY = [
    {"selection": selection, "candidates": candidates, "accounting": accounting}
    for selection, candidates, accounting in itertools.product(
        ("permute_and_flip", "exponential", "noisy_counts"), ("grid", "random"), ("tight", "published")
    )
]


def some_rows(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-2, 2, n), rng.integers(0, 9, n), rng.random(n)])
    return X, ((X[:, 0] > 0.3) + (X[:, 1] > 5) * rng.integers(0, 2, n)).astype(np.int64)


def grow(X, y, epsilon=INF, seed=0, schema=SCHEMA, ledger=None, bounds=None, **more):
    settings = resolve(GrowerSettings(**{"depth": 3, "bins": 4, "trees": 1, "smoothing": "none"} | more), epsilon, 100)
    if ledger is None:
        ledger = Ledger(Budget(epsilon))
    return grow_classifier(X, y, schema, settings, epsilon, ledger, Seeded(seed), bounds)


def grid_by_hand(schema, bins):
    return [[f.low + (f.high - f.low) * k / bins for k in range(1, bins)] for f in schema.features]


def best_splits_by_hand(X, y, depth, bins, shared_below):
    """Breadth-first (feature, threshold) of a complete tree that takes the best score, and its leaves' class counts.

    Follows the grower's description: the score of a candidate is floor(256 |left|) + floor(256 |right|) over the
    nodes that share it, the first of equals wins, and a threshold outside a node's box cuts nothing.
    """
    grid = grid_by_hand(SCHEMA, bins)

    def counts(rows):
        return [sum(y[r] == c for r in rows) for c in range(3)]

    def norm(rows):
        return math.isqrt(256**2 * sum(n * n for n in counts(rows)))

    nodes = [(list(range(len(y))), [(f.low, f.high) for f in SCHEMA.features])]
    splits = []
    for _ in range(depth):
        n_groups = len(nodes) if shared_below is None else min(len(nodes), 2**shared_below)
        size = len(nodes) // n_groups
        children = []
        for g in range(n_groups):
            group = nodes[g * size : (g + 1) * size]
            best = None
            for f in range(3):
                for t in grid[f]:
                    if not any(box[f][0] < t < box[f][1] for _, box in group):
                        continue
                    score = sum(
                        norm([r for r in rows if X[r, f] <= t]) + norm([r for r in rows if X[r, f] > t])
                        for rows, _ in group
                    )
                    if best is None or score > best[0]:
                        best = score, f, t
            _, f, t = best
            for rows, box in group:
                low, high = box[f]
                splits.append((f, t))
                children.append(([r for r in rows if X[r, f] <= t], [*box[:f], (low, min(high, t)), *box[f + 1 :]]))
                children.append(([r for r in rows if X[r, f] > t], [*box[:f], (max(low, t), high), *box[f + 1 :]]))
        nodes = children
    return splits, [counts(rows) for rows, _ in nodes]


@pytest.mark.parametrize("shared_below", [None, 0, 1])
@pytest.mark.parametrize("kind", ["permute_and_flip", "exponential"])
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_the_best_splits_are_taken(seed, kind, shared_below):
    X, y = some_rows(seed)
    tree = grow(X, y, selection=kind, shared_below=shared_below)
    splits, leaves = best_splits_by_hand(X, y, 3, 4, shared_below)
    inner = ~tree.is_leaf
    assert list(zip(tree.feature[inner].tolist(), tree.threshold[inner].tolist(), strict=True)) == splits
    assert tree.value[tree.is_leaf].tolist() == leaves
    assert tree.value[0].tolist() == np.bincount(y, minlength=3).tolist()


def test_deep_levels_count_as_shallow_ones():
    """Below level 6 the grower counts rows afresh instead of subtracting histograms."""
    X, y = some_rows(9, n=40)
    tree = grow(X, y, depth=9, bins=16, shared_below=0)
    splits, leaves = best_splits_by_hand(X, y, 9, 16, 0)
    inner = ~tree.is_leaf
    assert list(zip(tree.feature[inner].tolist(), tree.threshold[inner].tolist(), strict=True)) == splits
    assert tree.value[tree.is_leaf].tolist() == leaves


@pytest.mark.parametrize("accounting", ["tight", "published"])
@pytest.mark.parametrize("gini", ["mean", "weighted"])
@pytest.mark.parametrize("seed", range(3))
def test_noisy_counts_without_noise_take_the_smallest_gini(seed, gini, accounting):
    """Each split is checked by exact fractions (Favero et al. 2024, algorithm 3); an empty child's Gini is 1."""
    X, y = some_rows(seed)
    tree = grow(X, y, selection="noisy_counts", gini=gini, accounting=accounting)
    rows_of = {0: np.arange(len(y))}

    def counts(rows):
        return np.bincount(y[rows], minlength=3)

    def impurity(rows, f, t):
        parts = [counts(rows[X[rows, f] <= t]).tolist(), counts(rows[X[rows, f] > t]).tolist()]
        ginis = [1 - sum(Fraction(n, max(sum(part), 1)) ** 2 for n in part) for part in parts]
        weights = [sum(part) for part in parts] if gini == "weighted" else [1, 1]
        return sum(w * g for w, g in zip(weights, ginis, strict=True)) / sum(weights)

    for node in range(tree.n_nodes):
        rows = rows_of[node]
        assert tree.value[node].tolist() == counts(rows).tolist()
        if tree.left[node] < 0:
            assert tree.depths[node] == 3 or np.count_nonzero(counts(rows)) <= 1
            continue
        f, t = tree.feature[node], tree.threshold[node]
        every = [impurity(rows, g, s) for g, grid in enumerate(grid_by_hand(SCHEMA, 4)) for s in grid]
        assert impurity(rows, f, t) == min(every)
        rows_of[tree.left[node]] = rows[X[rows, f] <= t]
        rows_of[tree.left[node] + 1] = rows[X[rows, f] > t]


@pytest.mark.parametrize("selection", ["permute_and_flip", "noisy_counts"])
def test_random_thresholds_lie_in_public_bounds_and_count_their_rows(selection):
    X, y = some_rows(1)
    bounds = Bounds.of(SCHEMA, {"a": (-0.5, 0.5)})
    tree = grow(X, y, candidates="random", thresholds=5, selection=selection, bounds=bounds, depth=4)
    inner = np.flatnonzero(~tree.is_leaf)
    assert (tree.threshold[inner] >= bounds.low[tree.feature[inner]]).all()
    assert (tree.threshold[inner] <= bounds.high[tree.feature[inner]]).all()
    reached = [leaf_by_hand(tree, 0, row) for row in X]
    for leaf in np.flatnonzero(tree.is_leaf):
        expected = np.bincount(y[[r == leaf for r in reached]], minlength=3)
        assert tree.value[leaf].tolist() == expected.tolist()


def test_candidate_bounds_are_checked():
    assert Bounds.of(SCHEMA).low.tolist() == [-2, 0, 0]
    with pytest.raises(SchemaError, match="candidate_bounds names 'z'"):
        Bounds.of(SCHEMA, {"z": (0, 1)})
    with pytest.raises(SchemaError, match=r"candidate_bounds 'a': \[1, 1\] must be finite with low < high"):
        Bounds.of(SCHEMA, {"a": (1, 1)})


@pytest.mark.parametrize("way", EVERY_WAY)
def test_what_is_charged_is_what_was_planned_and_no_more_than_the_budget(way):
    X, y = some_rows()
    settings = resolve(GrowerSettings(depth=3, bins=4, trees=2, **way), 2.0, 60)
    ledger = Ledger(Budget(2.0))
    forest = grow_classifier(X, y, SCHEMA, settings, 2.0, ledger, Seeded(0))
    assert list(ledger.entries) == planned_entries(settings, 2.0, SCHEMA)
    spent = ledger.guarantee().epsilon
    assert spent <= 2.0 * (1 + 1e-9)
    if way["accounting"] == "tight":
        assert spent == pytest.approx(2.0), "nothing is left over"
    validate(forest)
    assert forest.n_trees == 2
    assert (forest.value == np.round(forest.value)).all()
    finished = finish_classifier(forest, settings, leaf_epsilon(settings, 2.0, 3))
    validate(finished)
    assert finished.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_shares_of_the_published_and_of_the_tight_accounting():
    """Of Favero et al. 2024 (algorithm 1): epsilon / (2^d F) a count; by depth: epsilon / (d F + 1)."""
    for accounting, share, releases in [("published", 4.0 / (2**5 * 3), 2**5 * 3), ("tight", 4.0 / (5 * 3 + 1), 16)]:
        settings = resolve(
            GrowerSettings(selection="noisy_counts", candidates="random", depth=5, accounting=accounting), 4.0, 100
        )
        entries = planned_entries(settings, 4.0, SCHEMA)
        assert all(e.epsilon == pytest.approx(share) for e in entries)
        assert sum(e.times for e in entries) == releases
        assert leaf_epsilon(settings, 4.0, 3) == pytest.approx(share)


def test_shares_of_a_private_choice_a_node():
    settings = resolve(GrowerSettings(depth=3, leaf_share=0.25, depth_growth=2.0, trees=1), 8.0, 100)
    assert [e.epsilon for e in planned_entries(settings, 8.0, SCHEMA)] == pytest.approx([6 / 7, 12 / 7, 24 / 7, 2.0])


class _Untouchable:
    """Fails on any use."""

    def _fail(self, *_, **__):
        raise AssertionError("data was read before the budget was asked")

    __getattr__ = __getitem__ = __array__ = __len__ = __iter__ = _fail


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_budget_is_refused_before_data_is_read(way):
    ledger = Ledger(Budget(1.0))
    ledger.charge(Entry("earlier", "m", epsilon=0.6))
    with pytest.raises(BudgetExceeded):
        grow(_Untouchable(), _Untouchable(), epsilon=0.5, ledger=ledger, **way)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_the_callers_arrays_are_left_alone(way, dtype):
    X, y = some_rows()
    X = X.astype(dtype)
    kept_X, kept_y = X.copy(), y.copy()
    grow(X, y, epsilon=1.0, trees=2, **way)
    assert np.array_equal(X, kept_X)
    assert np.array_equal(y, kept_y)


def same(one: Forest, two: Forest) -> bool:
    return all(np.array_equal(getattr(one, n), getattr(two, n)) for n in ("feature", "threshold", "left", "value"))


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_seed_repeats_a_tree(way):
    X, y = some_rows()
    assert same(grow(X, y, epsilon=1.0, seed=3, **way), grow(X, y, epsilon=1.0, seed=3, **way))
    assert not same(grow(X, y, epsilon=1.0, seed=3, **way), grow(X, y, epsilon=1.0, seed=4, **way))


def test_single_precision_rows_grow_the_same_tree():
    X, y = some_rows()
    X = X.astype(np.float32)
    assert same(grow(X, y), grow(X.astype(np.float64), y))


@pytest.mark.parametrize("way", EVERY_WAY)
def test_disjoint_slices_hold_each_row_once_and_cost_their_epsilon_once(way):
    X, y = some_rows(n=90)
    forest = grow(X, y, trees=3, tree_rows="disjoint", **way)
    roots = forest.value[forest.offsets[:-1]]
    assert roots.sum(axis=0).tolist() == np.bincount(y, minlength=3).tolist()
    assert (roots.sum(axis=1) > 0).all()
    settings = resolve(GrowerSettings(depth=3, bins=4, trees=3, tree_rows="disjoint", **way), 2.0, 90)
    ledger = Ledger(Budget(2.0))
    grow_classifier(X, y, SCHEMA, settings, 2.0, ledger, Seeded(0))
    assert ledger.guarantee().epsilon <= 2.0 * (1 + 1e-9)
    alone = resolve(GrowerSettings(depth=3, bins=4, trees=1, **way), 2.0, 90)
    assert leaf_epsilon(settings, 2.0, 3) == leaf_epsilon(alone, 2.0, 3), "each slice has all of the budget"


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_no_rows_give_a_sound_forest(way, epsilon):
    forest = grow(np.empty((0, 3)), np.empty(0, dtype=np.int64), epsilon=epsilon, trees=2, tree_rows="disjoint", **way)
    validate(forest)
    for smoothing in ("none", "laplace", "shrink"):
        settings = resolve(GrowerSettings(depth=3, trees=2, smoothing=smoothing, **way), epsilon, 1)
        finished = validate(finish_classifier(forest, settings, epsilon))
        if epsilon == INF:
            assert finished.predict_proba(np.zeros((1, 3)))[0] == pytest.approx([1 / 3] * 3), "nothing is known"


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_single_class_is_predicted(way):
    X, _ = some_rows()
    settings = resolve(GrowerSettings(depth=3, bins=4, trees=1, **way), INF, 60)
    forest = grow(X, np.full(60, 1), **way)
    assert (finish_classifier(forest, settings, INF).predict(X) == 1).all()


@pytest.mark.parametrize("way", EVERY_WAY)
def test_constant_features_are_no_obstacle(way):
    _, y = some_rows()
    X = np.ones((60, 3))
    forest = validate(grow(X, y, **way))
    leaf = leaf_by_hand(forest, 0, X[0])
    assert forest.value[leaf].tolist() == np.bincount(y, minlength=3).tolist()


def test_more_depth_than_the_grid_has_cells():
    schema = Schema((Feature("a", 0, 1),), classes=("u", "v"))
    forest = grow(np.array([[0.2], [0.8]]), np.array([0, 1]), schema=schema, bins=2, depth=4)
    assert validate(forest).n_nodes == 2**5 - 1
    assert forest.value[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depth": 0}, "depth 0 must be a whole number from 1 to 20"),
        ({"depth": 21}, "depth 21 must be a whole number from 1 to 20"),
        ({"depth": 40}, "depth 40"),
        ({"depth": 2.5}, "depth 2.5"),
        ({"depth": True}, "depth True"),
        ({"bins": 1}, "bins 1 must be a whole number from 2 to 255"),
        ({"bins": 256}, "bins 256"),
        ({"thresholds": 0}, "thresholds 0"),
        ({"trees": 0}, "trees 0"),
        ({"shared_below": -1}, "shared_below -1"),
        ({"depth_growth": 0}, r"depth_growth 0 must lie in \(0, 10\] or be 'auto'"),
        ({"depth_growth": "fast"}, "depth_growth 'fast'"),
        ({"leaf_share": 0}, "leaf_share 0 must lie between 0 and 1"),
        ({"leaf_share": 1.0}, "leaf_share 1.0"),
        ({"leaf_share": "half"}, "leaf_share 'half'"),
        ({"accounting": "loose"}, "accounting 'loose' must be one of tight, published"),
        ({"selection": "greedy"}, "selection 'greedy' must be one of permute_and_flip, exponential, noisy_counts"),
        ({"candidates": "data"}, "candidates 'data'"),
        ({"gini": "max"}, "gini 'max'"),
        ({"tree_rows": "bootstrap"}, "tree_rows 'bootstrap'"),
        ({"smoothing": "much"}, "smoothing 'much'"),
        ({"voting": "loud"}, "voting 'loud'"),
    ],
)
def test_unsound_settings_are_named(wrong, message):
    with pytest.raises(DPForestError, match=message):
        GrowerSettings(**wrong)


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        # By hand: 40000^(1/4) = 14.14; trees = round(14.14 epsilon^0.4 / 6.5); doublings = log2(40000 epsilon / trees);
        # depth = round(1.2 doublings - 5), at most 13; shared_below = round(0.7 (doublings - 12)), at least 0.
        (0.1, {"depth": 9, "shared_below": 0, "trees": 1}),  # 0.87 trees; 11.97 doublings: 9.36, -0.02
        (1.0, {"depth": 12, "shared_below": 2, "trees": 2}),  # 2.18 trees; 14.29 doublings: 12.1, 1.60
        (10.0, {"depth": 13, "shared_below": 3, "trees": 5}),  # 5.46 trees; 16.29 doublings: 14.5, 3.00
    ],
)
def test_automatic_settings_follow_from_public_numbers(epsilon, expected):
    resolved = resolve(GrowerSettings(), epsilon, 40_000)
    assert {name: getattr(resolved, name) for name in expected} == expected


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1e5, INF])
@pytest.mark.parametrize("rows", [1, 30, 10**9])
@pytest.mark.parametrize("selection", ["permute_and_flip", "noisy_counts"])
def test_settings_resolve_for_any_public_numbers(epsilon, rows, selection):
    resolved = resolve(GrowerSettings(selection=selection), epsilon, rows)
    assert "auto" not in vars(resolved).values()
    assert resolve(GrowerSettings(depth=7, trees=3), epsilon, rows).depth == 7


def one_leaf(counts) -> Forest:
    return Forest(
        schema=SCHEMA,
        output="counts",
        offsets=np.array([0, 1]),
        feature=np.array([-1], dtype=np.int32),
        threshold=np.zeros(1),
        left=np.array([-1], dtype=np.int32),
        value=np.array([counts], dtype=np.float64),
        weight=np.maximum(np.array([counts], dtype=np.float64), 0).sum(axis=1),
        base=np.zeros(3),
        owners=("",),
    )


def two_leaves(counts) -> Forest:
    """A root that asks the first feature, and two leaves."""
    value = np.concatenate([np.zeros((1, 3)), np.asarray(counts, dtype=np.float64)])
    forest = Forest(
        schema=SCHEMA,
        output="counts",
        offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], dtype=np.int32),
        threshold=np.zeros(3),
        left=np.array([1, -1, -1], dtype=np.int32),
        value=value,
        weight=np.maximum(value, 0).sum(axis=1),
        base=np.zeros(3),
        owners=("",),
    )
    fill_inner_nodes(forest)
    return forest


@pytest.mark.parametrize(
    ("smoothing", "voting", "counts", "expected"),
    [
        ("none", "soft", [6, -3, 2], [0.75, 0, 0.25]),
        ("none", "soft", [-1, 0, -2], [1 / 3, 1 / 3, 1 / 3]),
        ("laplace", "soft", [6, -3, 2], [(6 + 1 / 3) / 9, 1 / 27, (2 + 1 / 3) / 9]),
        ("laplace", "hard", [6, -3, 2], [1, 0, 0]),
        # The noise of a leaf has standard deviation sqrt(2) / sqrt(2) = 1: counts shrink by it to 5, 0, 1, and the
        # parent of the root, uniform, weighs 1.
        ("shrink", "soft", [6, -3, 2], [(5 + 1 / 3) / 7, 1 / 21, (1 + 1 / 3) / 7]),
    ],
)
def test_leaf_probabilities_by_hand(smoothing, voting, counts, expected):
    settings = resolve(GrowerSettings(smoothing=smoothing, voting=voting), 1.0, 100)
    finished = validate(finish_classifier(one_leaf(counts), settings, math.sqrt(2)))
    assert finished.predict_proba(np.zeros((1, 3)))[0] == pytest.approx(expected)
    assert finished.weight[0] == sum(max(n, 0) for n in counts)


def test_votes_for_what_a_tree_answers_anyway_are_held_back():
    """By hand: two leaves of 30 and 10 records answer (0.8, 0.2, 0) and (0, 0.6, 0.4), on average W = (0.6, 0.3, 0.1).

    Half of W - 1/3 is (0.133, -0.017, -0.117): the answers become (0.667, 0.217, 0.117) and, clipped at 0,
    (0, 0.617, 0.517) / 1.133.
    """
    counts = validate(two_leaves([[24, 6, 0], [0, 6, 4]]))
    settings = resolve(GrowerSettings(smoothing="none"), 1.0, 100)
    finished = finish_classifier(counts, settings, 1.0)
    balanced = validate(balance_votes(finished, counts, 0.5))
    assert balanced.value[1] == pytest.approx([2 / 3, 13 / 60, 7 / 60])
    assert balanced.value[2] == pytest.approx([0, 37 / 68, 31 / 68])
    assert balance_votes(finished, counts, 0.0).value == pytest.approx(finished.value)


@pytest.mark.parametrize("counts", [[[10, 0, 0], [0, 5, 5], [0, 5, 5]], [[-3, 0, 0], [0, -2, 0], [0, 0, 0]]])
def test_equally_frequent_classes_and_trees_without_records_are_left_alone(counts):
    counts = two_leaves([np.sum(counts[:1], axis=0), np.sum(counts[1:], axis=0)])
    finished = finish_classifier(counts, resolve(GrowerSettings(smoothing="none"), 1.0, 100), 1.0)
    assert balance_votes(finished, counts, 1.0).value == pytest.approx(finished.value)


def test_golden_run():
    """Recorded from this code (Seeded noise, NumPy's default generator): a change of it changes users' results.

    When that is meant, record the new numbers."""
    rng = np.random.default_rng(7)
    X = rng.uniform((-2, 0, 0), (2, 8, 1), size=(4000, 3))
    y = (X[:, 0] > 0.4).astype(np.int64) + ((X[:, 1] > 3) & (X[:, 2] < 0.5))
    settings = resolve(GrowerSettings(), 1.0, 2000)
    grown = grow_classifier(X[:2000], y[:2000], SCHEMA, settings, 1.0, Ledger(Budget(1.0)), Seeded(11))
    forest = finish_classifier(grown, settings, leaf_epsilon(settings, 1.0, 3))
    structure = grown.feature.tobytes() + grown.threshold.tobytes() + grown.value.astype(np.int64).tobytes()
    assert (forest.predict(X[2000:]) == y[2000:]).mean() == pytest.approx(GOLDEN_ACCURACY, abs=1e-9)
    assert hashlib.sha256(structure).hexdigest()[:16] == GOLDEN_STRUCTURE

"""End to end: all that a client sends of a tiny tree is as private as the ledger says."""

import numpy as np
import pytest

from dpforest.audit import HalvedNoise, certain_loss
from dpforest.growers import GrowerSettings, grow_classifier, resolve
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Feature, Schema

EPSILON = 1.0
DRAWS = 2500
STOPPED = 2 * 16
# With a public grid of two bins, the only candidates are "a <= 0.5" and "b <= 0.5".
TWO_FEATURES = Schema((Feature("a", 0, 1), Feature("b", 0, 1)), classes=("u", "v"))
ONE_FEATURE = Schema((Feature("a", 0, 1),), classes=("u", "v"))


def outputs(schema, settings, X, y, noise):
    """Split and signs of the four leaf counts, as one number, of ``DRAWS`` trees."""
    cells = np.empty(DRAWS, dtype=np.int64)
    for draw in range(DRAWS):
        ledger = Ledger(Budget(EPSILON))
        tree = grow_classifier(X, y, schema, settings, EPSILON, ledger, noise)
        assert ledger.guarantee().epsilon == pytest.approx(EPSILON)
        if tree.n_nodes == 1:
            cells[draw] = STOPPED
        else:
            cells[draw] = tree.feature[0] * 16 + (tree.value[1:] > 0).ravel() @ [8, 4, 2, 1]
    return cells


@pytest.mark.parametrize(
    ("selection", "schema", "leaf_share"),
    [
        # The added row is alone in a child of "a", and joins eight of the other class under "b": its score of
        # "a" rises by all of the sensitivity and that of "b" by next to nothing, the worst case.
        ("permute_and_flip", TWO_FEATURES, 0.7),
        ("exponential", TWO_FEATURES, 0.8),
        # With one candidate, the root's and the left child's counts are all that is asked, and both rise by one.
        ("noisy_counts", ONE_FEATURE, 0.3),
    ],
)
def test_one_row_more_changes_a_tree_no_more_than_epsilon(selection, schema, leaf_share):
    settings = resolve(
        GrowerSettings(selection=selection, leaf_share=leaf_share, accounting="tight", depth=1, bins=2), EPSILON, 10
    )
    X = np.zeros((9, schema.n_features))
    y = np.array([1] * 8 + [0])
    if schema is TWO_FEATURES:
        X[8] = 1, 0
    assert settings.trees == 1

    def loss(noise_of):
        without = outputs(schema, settings, X[:8], y[:8], noise_of(Seeded(1)))
        with_row = outputs(schema, settings, X, y, noise_of(Seeded(2)))
        return certain_loss(without, with_row, STOPPED + 1)

    assert loss(lambda noise: noise) <= EPSILON
    assert loss(HalvedNoise) > EPSILON

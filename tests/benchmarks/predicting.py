"""``python -m tests.benchmarks.predicting``: class probabilities of a forest against scikit-learn's, and loading."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from dpforest.forest import Forest, concatenate, load, save
from dpforest.growers import GrowerSettings, finish_classifier, grow_classifier, resolve
from dpforest.growers.budget import leaf_epsilon
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from dpforest.schema import Schema
from tests.benchmarks.side_by_side import N_ROWS, cpu_seconds, print_comparison, rows_to_measure


def private_forest(X: np.ndarray, y: np.ndarray, schema: Schema, trees: int, depth: int) -> Forest:
    """``trees`` private trees of full depth, each as if from a client of its own."""
    epsilon = 1.0
    settings = resolve(GrowerSettings(trees=1, depth=depth), epsilon, N_ROWS)
    of_leaves = leaf_epsilon(settings, epsilon, schema.n_features)
    grown = [
        grow_classifier(X, y, schema, settings, epsilon, Ledger(Budget(epsilon)), Seeded(tree)) for tree in range(trees)
    ]
    return concatenate([finish_classifier(tree, settings, of_leaves) for tree in grown])


def main() -> None:
    """Print a table, and the time of one large forest."""
    name, X, y, schema = rows_to_measure()
    asked = X[np.random.default_rng(0).integers(len(X), size=180_000)]
    pairs: dict[str, tuple[str, Any, Any]] = {}
    for depth in (5, 10):
        forest = private_forest(X, y, schema, trees=18, depth=depth)
        for reference in (RandomForestClassifier, ExtraTreesClassifier):
            known = reference(18, max_depth=depth, n_jobs=1, random_state=0).fit(X, y)
            label = reference.__name__.removesuffix("Classifier")
            pairs[f"18 trees of depth {depth}, {label}"] = (
                label,
                lambda known=known: known.predict_proba(asked),
                lambda forest=forest: forest.predict_proba(asked),
            )
    print_comparison(f"Probabilities of {len(asked)} rows, {name}", pairs)
    forest = private_forest(X, y, schema, trees=60, depth=6)
    million = asked[np.arange(1_000_000) % len(asked)]
    seconds = statistics.median(cpu_seconds(lambda: forest.predict_proba(million)) for _ in range(3))
    print(f"1,000,000 rows through 60 trees of depth 6: {seconds:.2f} s")
    for depth in (3, 6):
        twenty = private_forest(X, y, schema, trees=20, depth=depth)
        with tempfile.TemporaryDirectory() as folder:
            path = save(twenty, Path(folder) / "forest.json")
            seconds = statistics.median(cpu_seconds(lambda path=path: load(path)) for _ in range(21))
            size = path.stat().st_size / 1000
        print(f"loading 20 trees of depth {depth} ({size:.0f} kB): {1000 * seconds:.1f} ms")


if __name__ == "__main__":
    main()

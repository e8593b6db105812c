"""``python -m tests.benchmarks.growing``: a private tree against scikit-learn's ``ExtraTreeClassifier``.

65,000 rows of 38 features and 7 classes: subject 05 of HuGaDB where ``DPFOREST_DATA`` is set, else made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.tree import ExtraTreeClassifier

from dpforest.growers import GrowerSettings, grow_classifier, resolve
from dpforest.ledger import Budget, Ledger
from dpforest.noise import Seeded
from tests.benchmarks.side_by_side import N_ROWS, print_comparison, rows_to_measure

CASES: dict[str, dict[str, Any]] = {
    "shared splits (default)": {},
    "a split a node": {"shared_below": None},
    "noisy counts": {"selection": "noisy_counts"},
    "noisy counts, random thresholds": {"selection": "noisy_counts", "candidates": "random"},
}


def main() -> None:
    """Print a table; binning and noise are part of dpforest's time."""
    name, X, y, schema = rows_to_measure()
    epsilon = 1.0

    def reference(depth: int) -> Callable[[], object]:
        return lambda: ExtraTreeClassifier(max_features=None, max_depth=depth, random_state=0).fit(X, y)

    def private(settings: GrowerSettings) -> Callable[[], object]:
        resolved = resolve(settings, epsilon, N_ROWS)
        return lambda: grow_classifier(X, y, schema, resolved, epsilon, Ledger(Budget(epsilon)), Seeded(0))

    print_comparison(
        f"Growing a tree on {len(y)} x {X.shape[1]} {name}, epsilon {epsilon:g}",
        {
            f"depth {depth}, {case}": (
                "ExtraTree",
                reference(depth),
                private(GrowerSettings(trees=1, depth=depth, **settings)),
            )
            for depth in (5, 10)
            for case, settings in CASES.items()
        },
    )


if __name__ == "__main__":
    main()

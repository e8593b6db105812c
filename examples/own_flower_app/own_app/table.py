"""Your part: what is public about the rows, and how a node loads its own. Here they are made up."""

import numpy as np
from flwr.app import Context

from dpforest.schema import Schema
from strategies import LocalRows

# Written down from what is known about such tables, never from the rows themselves.
SCHEMA = Schema.from_dict(
    {
        "target": "risk",
        "classes": ["low", "high"],
        "rows": 1000,
        "features": [
            {"name": "age", "low": 18, "high": 100},
            {"name": "income", "low": 0, "high": 200_000},
            {"name": "debts", "low": 0, "high": 10},
        ],
    }
)


def load(context: Context) -> LocalRows:
    """The rows of one node; replace this by reading your own file or database."""
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    X = rng.uniform(SCHEMA.low, SCHEMA.high, size=(600, SCHEMA.n_features))
    y = np.where(X[:, 2] * 20_000 > X[:, 1], "high", "low")
    return LocalRows(X[:500], y[:500], test_X=X[500:], test_y=y[500:])

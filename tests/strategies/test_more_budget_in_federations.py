"""More budget makes no federated model worse by more than noise, whatever the table looks like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from made_up_tables import MADE_UP, MakeTable, constant_columns, few_rows, heavy_tails, largest_fall, targets, together
from sklearn.metrics import r2_score, roc_auc_score

import baselines
import strategies
from dpforest.ledger import Budget
from dpforest.schema import Schema
from fl_app.engine.in_process import InProcessGrid
from strategies import LocalRows, PrivateClientApp
from strategies.messages import plain_arrays
from strategies.method import Task
from strategies.registry import get_method

CLIENTS = 3
# Whom the networks trust, by their names here.
NETWORKS = {"dp_sgd": "local", "dp_sgd shared": "shared"}
EPSILONS = (1.0, 3.0, 100.0)
# A score may fall by so much. Steps that were too long for features that move together made the R^2 of dp_sgd fall from
# .99 to -4.
FALL = 0.08
# Of few rows, five test rows are of the rare class, which show no fall.
FORESTS = (("fext", "regression"), ("fext", "rare class"), ("ldp_bagging", "classes"))


def score_of(name: str, table: MakeTable, task: str, epsilon: float, seed: int) -> float:
    """R^2, or the area under the curve, on a quarter of the rows; a model of no use at all counts as 0."""
    X, y, bounds, target_range = table(np.random.default_rng(1))
    X, y = X.astype(np.float32), targets(y, task)
    train = np.arange(len(y)) % 4 > 0
    about = {"target_range": target_range} if task == "regression" else {"classes": ["0", "1"]}
    features = [{"name": f"x{i}", "low": low, "high": high} for i, (low, high) in enumerate(bounds)]
    schema = Schema.from_dict({"features": features, "rows": int(train.sum()) // CLIENTS, **about})
    named = y if task == "regression" else y.astype(str)

    def load(context: Context) -> LocalRows:
        own = int(context.node_config["partition-id"])
        return LocalRows(X[train][own::CLIENTS], named[train][own::CLIENTS])

    grid = InProcessGrid(PrivateClientApp(load), CLIENTS)
    if name in NETWORKS:
        trust = NETWORKS[name]
        result = baselines.DPSGD(schema, epsilon=epsilon, delta=1e-5, seed=seed, trust=trust).start(grid)
    else:
        kind = {"fext": strategies.FextDP, "ldp_bagging": strategies.LDPBagging}[name]
        options: dict[str, Any] = {"k": None} if name == "fext" else {}
        result = kind(schema, epsilon=epsilon, seed=seed, **options).start(grid)
    assert not result.left_out
    rows = schema.check_matrix(X[~train])[0]
    if name in NETWORKS:
        method = get_method("dp_sgd")
        budget, protection = Budget(epsilon, 1e-5), method.protection(method.settings(), trust=trust)
        task_of_it: Any = Task(
            schema, method.settings(), budget, method.default_rounds, CLIENTS, seed, **protection.for_task()
        )
        predicted = method.client().predict(task_of_it, rows, plain_arrays(result.arrays))
    else:
        predicted = result.forest.predict(rows) if task == "regression" else result.forest.predict_proba(rows)
    if task == "regression":
        return max(0.0, float(r2_score(y[~train], predicted)))
    return float(roc_auc_score(y[~train], predicted[:, 1]))


# Every method on each task that it has, by the tables and the number of seeds. The networks take the longest to train,
# so they have one seed, and no table on which their steps cannot go too far.
CASES = [
    *(
        (name, task, table, 2)
        for name, task in FORESTS
        for table in MADE_UP
        if (task, table) != ("rare class", few_rows)
    ),
    *(("dp_sgd", "regression", table, 1) for table in MADE_UP if table not in (few_rows, constant_columns)),
    ("dp_sgd", "rare class", together, 1),
    # On the others, steps that were too long did no harm, and each takes as long.
    *(("dp_sgd shared", "regression", table, 1) for table in (together, heavy_tails)),
]


@pytest.mark.parametrize(("name", "task", "table", "seeds"), CASES)
def test_no_score_falls_with_more_budget(name: str, task: str, table: MakeTable, seeds: int) -> None:
    if name in NETWORKS:
        pytest.importorskip("tensorflow")
    fall, words = largest_fall(lambda epsilon, seed: score_of(name, table, task, epsilon, seed), EPSILONS, seeds)
    assert fall < FALL, words

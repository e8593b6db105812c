"""
A first federation: ten hospitals, one forest
=============================================

Ten data owners train a forest together. Their rows stay where they are; each sends noised trees once, and the guarantee
holds against everybody who sees them. All nodes play in this process. The same strategy and the same ClientApp run in a
simulation or on real nodes with ``flwr run``.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from flwr.app import Context

from dpforest import PrivateForestClassifier
from dpforest.schema import Schema
from fl_app.engine.in_process import in_process
from strategies import LocalRows, OneShotForest, PrivateBoosting, PrivateClientApp

CLIENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 10

# %%
# What is public about everybody's rows. It is agreed on before anybody looks at data.
schema = Schema.from_dict(
    {
        "target": "outcome",
        "classes": ["home", "ward", "intensive"],
        "rows": 800,  # of a client, by order of magnitude
        "features": [
            {"name": "age", "low": 0, "high": 120},
            {"name": "pressure", "low": 50, "high": 250},
            {"name": "oxygen", "low": 50, "high": 100},
        ],
    }
)


# %%
# A node's own rows, which ``load`` reads from its file or data base; here they are made up, another table each.
def load(context: Context) -> LocalRows:
    return rows_of(int(context.node_config["partition-id"]))


def rows_of(hospital: int) -> LocalRows:
    rng = np.random.default_rng(hospital)
    X = np.column_stack([rng.uniform(18, 95, 1000), rng.normal(130, 22, 1000), rng.normal(94, 5, 1000)])
    X = np.clip(X, schema.low, schema.high)
    risk = X[:, 0] / 40 + np.abs(X[:, 1] - 120) / 40 + (100 - X[:, 2]) / 6 + rng.normal(0, 0.4, 1000)
    y = np.array(schema.classes)[np.digitize(risk, [2.6, 4.0])]
    return LocalRows(X[:800], y[:800], test_X=X[800:], test_y=y[800:])


# %%
# The server's side is used as one uses Flower's FedAvg.
with in_process(PrivateClientApp(load), CLIENTS) as grid:
    result = OneShotForest(schema, epsilon=1.0).start(grid)
print(result.guarantee)
print(f"{result.forest.n_trees} trees of {CLIENTS} clients, accuracy {result.metrics['accuracy']:.3f}")
print("sent by client 0:", *(entry.what for entry in result.ledgers[0].entries), sep="\n  ")

# %%
# Is it worth it? Each hospital alone at the same epsilon, with the same forest, against all together; and boosting
# over rounds, where secure sums show the server nobody's own numbers.
epsilons = [0.1, 1, 10]
rounds = {"OneShotForest": 1, "PrivateBoosting, secure sums": 15}
curves: dict[str, list[float]] = {"each alone": [], "OneShotForest": [], "PrivateBoosting, secure sums": []}
bounds = list(zip(schema.low, schema.high, strict=True))
for epsilon in epsilons:
    alone = []
    for hospital in range(CLIENTS):
        own = rows_of(hospital)
        forest = PrivateForestClassifier(epsilon=epsilon, bounds=bounds, classes=list(schema.classes), random_state=0)
        alone.append(forest.fit(own.X, own.y).score(own.test_X, own.test_y))
    curves["each alone"].append(float(np.mean(alone)))
    for name, strategy in {
        "OneShotForest": OneShotForest(schema, epsilon=epsilon),
        "PrivateBoosting, secure sums": PrivateBoosting(schema, epsilon=epsilon, delta=1e-6, trust="shared"),
    }.items():
        with in_process(PrivateClientApp(load), CLIENTS) as grid:
            curves[name].append(strategy.start(grid, num_rounds=rounds[name]).metrics["accuracy"])

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, scores in curves.items():
    print(f"{name:30}", *(f"{score:.3f}" for score in scores))
    axes.semilogx(epsilons, scores, marker="o", label=name)
axes.set(xlabel="epsilon (one record)", ylabel="accuracy")
axes.legend()
plt.show()

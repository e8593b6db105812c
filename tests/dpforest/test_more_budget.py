"""More budget makes no estimator's model worse by more than noise, whatever the table looks like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up_tables import EPSILONS, MADE_UP, TASKS, MakeTable, largest_fall, targets
from sklearn.metrics import r2_score, roc_auc_score

from dpforest import (
    PrivateBoostClassifier,
    PrivateBoostRegressor,
    PrivateForestClassifier,
    PrivateForestRegressor,
)

BOOST = (PrivateBoostRegressor, PrivateBoostClassifier, {"delta": 1e-5, "rounds": 15})
FOREST = (PrivateForestRegressor, PrivateForestClassifier, {})
# A mean of two seeds may fall by so much, which is more than twice what is measured of boosting with its usual number
# of rounds; the faults that this test is for made it fall by .3 to 1.8.
FALL = 0.08


@pytest.mark.parametrize("table", MADE_UP)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("estimators", [BOOST, FOREST], ids=["boost", "one_shot"])
def test_no_score_falls_with_more_budget(table: MakeTable, task: str, estimators: tuple[Any, Any, dict]) -> None:
    regressor, classifier, more = estimators
    X, y, bounds, target_range = table(np.random.default_rng(1))
    train = np.arange(len(y)) % 4 > 0
    y = targets(y, task)

    def score(epsilon: float, seed: int) -> float:
        if task == "regression":
            model = regressor(epsilon, bounds=bounds, target_range=target_range, random_state=seed, **more)
            return float(r2_score(y[~train], model.fit(X[train], y[train]).predict(X[~train])))
        model = classifier(epsilon, bounds=bounds, classes=[0, 1], random_state=seed, **more)
        return float(roc_auc_score(y[~train], model.fit(X[train], y[train]).predict_proba(X[~train])[:, 1]))

    fall, words = largest_fall(score, EPSILONS, 2)
    assert fall < FALL, words

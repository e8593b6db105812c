"""
A private forest in a Pipeline, and what a grid search costs
============================================================

The estimators are scikit-learn's: they fit into a ``Pipeline``, and ``GridSearchCV`` searches their settings. But
*every fit spends its epsilon*, and the scores of a search are exact numbers about rows. So the settings are searched
here on made-up rows of the same schema, which are nobody's, and the private rows are fitted once.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from dpforest import PrivateForestClassifier

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 6000


# %%
# The private rows, made up too in an example. A step before the forest may compute what it likes from one row by
# itself. What looks at all rows, such as ``StandardScaler``, would let out more than the forest does.
def patients(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.uniform(18, 90, rows), "weight": rng.normal(78, 14, rows), "height": rng.normal(1.72, 0.1, rows)}
    )
    risk = frame.age / 30 + frame.weight / frame.height**2 / 8 + rng.normal(0, 0.6, rows)
    return frame, np.where(risk > 5.1, "high", "low")


def add_body_mass_index(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(bmi=frame.weight / frame.height**2)


model = Pipeline(
    [
        ("bmi", FunctionTransformer(add_body_mass_index)),
        (
            "forest",
            PrivateForestClassifier(
                epsilon=0.5,
                bounds={"age": (0, 120), "weight": (30, 250), "height": (1, 2.3), "bmi": (10, 80)},
                classes=["low", "high"],
                random_state=0,  # reproducible noise, for an example; None for rows of people
            ),
        ),
    ]
)

# %%
# What a search on the private rows would cost. A record is in the training part of all folds but one, for each
# candidate, and in the last fit of all rows; what it costs adds up.
grid = {"forest__depth": [2, 4, 6], "forest__trees": [1, 4]}
folds = 3
candidates = len(grid["forest__depth"]) * len(grid["forest__trees"])
fits = candidates * (folds - 1) + 1
print(f"one fit: epsilon {model['forest'].epsilon:g}; a search: {fits} x {model['forest'].epsilon:g} = "
      f"epsilon {fits * model['forest'].epsilon:g}, and its scores are in no guarantee")  # fmt: skip

# %%
# The search on rows that are nobody's costs nothing. Their number is the order of magnitude of the private ones, which
# is public, since what is best depends on it.
public, labels = patients(ROWS, seed=1)
search = GridSearchCV(model, grid, cv=folds).fit(public, labels)
print("best:", search.best_params_)

# %%
# One fit of the private rows, with the settings that were found.
private, y = patients(ROWS, seed=2)
fitted = search.best_estimator_.fit(private, y)
new, truth = patients(2000, seed=3)
print(fitted["forest"].privacy_.guarantee())
print(f"accuracy on new rows {fitted.score(new, truth):.3f}")

# %%
names = [f"depth {each['forest__depth']}\n{each['forest__trees']} tree(s)" for each in search.cv_results_["params"]]
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.bar(names, search.cv_results_["mean_test_score"], yerr=search.cv_results_["std_test_score"], capsize=3)
axes.axhline(max(np.mean(labels == "low"), np.mean(labels == "high")), color="0.4", linestyle=":", label="majority")
axes.set(ylabel="accuracy, made-up rows", ylim=(0.4, 1))
axes.legend()
plt.show()

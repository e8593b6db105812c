"""
Private boosting on a table with categories and missing cells
=============================================================

``PrivateBoostClassifier`` takes a data frame as it is. What is public about it has to be said: bounds of the numbers,
values of the categories, the classes, and what a missing cell means. With ``missing="branch"`` the forest may ask
whether a cell is missing, which often says something.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from dpforest import PrivateBoostClassifier

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


# %%
# A made-up table of loans. Who has no income to show is a risk, so that the missing cells matter.
def loans(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(10.3, 0.5, rows),
            "amount": rng.uniform(500, 50_000, rows),
            "purpose": rng.choice(["car", "house", "study", "other"], rows, p=[0.4, 0.2, 0.1, 0.3]),
            "job": rng.choice(["clerk", "craft", "self-employed", None], rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )
    risk = frame.amount / frame.income + (frame.purpose == "study") * 0.7 - (frame.job == "clerk") * 0.5
    unknown = rng.random(rows) < 0.15
    risk = risk + 0.8 * unknown + rng.logistic(0, 0.4, rows)
    frame.loc[unknown, "income"] = np.nan
    return frame, np.where(risk > 1, "bad", "good")


train, y = loans(ROWS, seed=0)
test, truth = loans(5000, seed=1)
print(train.head().to_string())

# %%
# Bounds and values are public facts, and not what the table happens to hold: read off the data, they would say
# something about the richest person in it.
public = {
    "bounds": {"income": (0, 200_000), "amount": (0, 50_000)},
    "categories": {"purpose": ["car", "house", "study", "other"], "job": ["clerk", "craft", "self-employed"]},
    "classes": ["good", "bad"],
    "missing": "branch",
}


def fit(epsilon: float, **settings: object) -> PrivateBoostClassifier:
    settings = public | settings
    return PrivateBoostClassifier(epsilon=epsilon, delta=1e-6, random_state=0, **settings).fit(train, y)


def auc(model: PrivateBoostClassifier) -> float:
    bad = list(model.classes_).index("bad")
    return roc_auc_score(truth == "bad", model.predict_proba(test)[:, bad])


model = fit(1.0)
print(model.privacy_.guarantee())
for name, share in sorted(zip(model.feature_names_in_, model.feature_importances_, strict=False), key=lambda x: -x[1]):
    print(f"{name:10} {share:.2f}")

# %%
# More budget, less noise; the dotted line is the same model without any. On an easy table like this one, noise costs
# next to nothing from epsilon 0.3 on.
epsilons = [0.1, 0.3, 1, 3, 10]
scores = [auc(fit(epsilon)) for epsilon in epsilons]
without = auc(fit(np.inf))
print("AUC", {epsilon: round(score, 3) for epsilon, score in zip(epsilons, scores, strict=True)}, f"{without:.3f}")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogx(epsilons, scores, marker="o", label="PrivateBoostClassifier")
axes.axhline(without, color="0.4", linestyle=":", label="without privacy")
axes.set(xlabel="epsilon (one record, delta 1e-6)", ylabel="AUC on new rows")
axes.legend()
plt.show()

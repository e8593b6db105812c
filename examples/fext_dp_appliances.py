"""
FEXT-DP on Appliances: small readable trees over rounds
=======================================================

Twenty clients grow extremely randomised trees with noise, over rounds; the server keeps the best by a noised score
(after Oliveira et al., in the setting with a guarantee). What is predicted is the energy that one house uses, in Wh:
Appliances where ``DPFOREST_DATA`` has it, made-up rows with its columns elsewhere. Regression under privacy needs many
rows: with some 800 a client, R^2 on Appliances stays near 0.1 after so few rounds.

All figures of the paper: ``dpforest sweep experiment=fext_dp``, and ``experiment=fext_dp_tight`` with a guarantee.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from _simulated import experiment, run

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8

asked = experiment(
    f"dataset=appliances strategy=fext strategy.own_model=ignore rounds={ROUNDS}",
    clients=20,
    rows=200,
)

# %%
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
importances = {}
for epsilon in (1.0, 10.0, 100.0):
    done = run(asked, epsilon)
    curve = [row["mse"] ** 0.5 for row in done.rounds if "mse" in row]
    axes.plot(range(1, len(curve) + 1), curve, marker=".", label=f"epsilon {epsilon:g}")
    importances[epsilon] = done.metrics["importances"]
    print(f"epsilon {epsilon:g}: RMSE {curve[-1]:.1f}, R^2 {done.metrics['r2']:.3f}, {done.metrics['trees']} trees; ",
          done.privacy["guarantee"])  # fmt: skip
axes.set(xlabel="round", ylabel="RMSE on test rows (Wh)")
axes.legend()
plt.show()

# %%
# The trees are small, and say what they ask most.
names = sorted(importances[100.0], key=lambda name: -importances[100.0][name])[:8]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
place = np.arange(len(names))
for shift, epsilon in ((-0.2, 10.0), (0.2, 100.0)):
    axes.barh(place + shift, [importances[epsilon][name] for name in names], 0.4, label=f"epsilon {epsilon:g}")
axes.set(yticks=place, yticklabels=names, xlabel="importance")
axes.invert_yaxis()
axes.legend()
plt.show()

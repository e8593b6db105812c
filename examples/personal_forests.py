"""
PP-FPRF: a forest of one's own, grown with similar users
========================================================

Every user grows a forest for herself, with the users whose data is most similar (Liu et al. 2022), and a simulation
compares it with growing alone (``lrf``) and all together (``pp_fgrf``), user by user. A third of the users keep all
their rows (type A), a third few (B), a third some classes only (C). WISDM where ``DPFOREST_DATA`` has it, made-up rows
with its columns elsewhere.

The paper's tables: ``dpforest sweep experiment=liu2022``.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from _simulated import experiment, run

USERS = int(sys.argv[1]) if len(sys.argv) > 1 else 12

asked = experiment(
    f"dataset=wisdm partition=user_types partition.clients={USERS} partition.share=0.1 partition.class_share=0.8 "
    "partition.whole_test=true strategy=pp_fprf strategy.k=3 strategy.depth=10 strategy.slices=1",
    USERS,
    rows=250,
)

# %%
# The budget is a user's total, over her own forest and all that she takes part in for others. With so few users,
# growing alone is better at epsilon 20, since the others' help is noised; without noise, those with few rows (B) gain.
kinds = ("lrf", "pp_fprf", "pp_fgrf")
means: dict[float, dict[str, list[float]]] = {}
for epsilon in (20.0, np.inf):
    done = run(asked, epsilon)
    print(f"epsilon {epsilon:g}: {done.privacy['guarantee']}")
    means[epsilon] = {}
    for user_type in "ABC":
        users = [row for row in done.clients if row["type"] == user_type]
        columns = {"pp_fprf": "accuracy", "lrf": "accuracy_lrf", "pp_fgrf": "accuracy_pp_fgrf"}
        means[epsilon][user_type] = [float(np.mean([row[columns[kind]] for row in users])) for kind in kinds]
        scores = zip(kinds, means[epsilon][user_type], strict=True)
        print(f"  type {user_type}:", *(f"{kind} {score:.3f}" for kind, score in scores))

# %%
figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for axes, (epsilon, of_types) in zip(panels, means.items(), strict=True):
    for number, kind in enumerate(kinds):
        heights = [of_types[user_type][number] for user_type in "ABC"]
        axes.bar(np.arange(3) + 0.27 * (number - 1), heights, 0.27, label=kind)
    axes.set(title=f"epsilon {epsilon:g}", xticks=range(3), xticklabels=["A", "B", "C"], xlabel="type of user")
panels[0].set_ylabel("accuracy")
panels[0].legend()
plt.show()

"""
An audit finds a mechanism that is broken
=========================================

A ledger proves that epsilon is at most this; an audit measures that it is at least that. Here a function pays for a
noised sum and also shows the largest value. The audit runs it with a record and without it, many times, and counts how
well the two can be distinguished.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from dpforest.audit import Claim, audit
from dpforest.noise import Seeded


def release(rows, noise):
    total = np.clip(rows, 0, 1).sum() * 1000
    return {"sum": total + noise.discrete_laplace(1000 / 1.0, 1), "largest": rows.max()}


rows = np.random.default_rng(0).random((100, 1))
print(audit(release, rows, record=np.array([1.0]), claim=Claim(epsilon=1.0), repetitions=2000))


# %%
# Without the number that no noise protects, the audit refutes nothing: what it measures stays below what is claimed,
# and near it, so it would have seen a small fault.
def mended(rows, noise):
    return {"sum": release(rows, noise)["sum"]}


repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
found = audit(mended, rows, record=np.array([1.0]), claim=Claim(epsilon=1.0), repetitions=repetitions)
print(found)

# %%
# Why: with the record and without it, the sums overlap; the largest values do not.
with_it, without = np.vstack([rows, [[1.0]]]), rows
figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for axes, field in zip(panels, ("sum", "largest"), strict=True):
    for label, table in (("with the record", with_it), ("without it", without)):
        seen = [float(np.squeeze(release(table, Seeded(seed))[field])) for seed in range(1000)]
        axes.hist(seen, bins=40, alpha=0.6, label=label)
    axes.set(xlabel=field, yticks=[])
panels[0].legend()
plt.show()

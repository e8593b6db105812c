"""A mechanism that is broken, and how an audit finds it: it pays for a noised sum and also shows the largest value."""

import numpy as np

from dpforest.audit import Claim, audit


def release(rows, noise):
    total = np.clip(rows, 0, 1).sum() * 1000
    return {"sum": total + noise.discrete_laplace(1000 / 1.0, 1), "largest": rows.max()}


rows = np.random.default_rng(0).random((100, 1))
print(audit(release, rows, record=np.array([1.0]), claim=Claim(epsilon=1.0), repetitions=2000))

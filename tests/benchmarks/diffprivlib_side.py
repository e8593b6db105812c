"""diffprivlib in an interpreter of its own, since it needs an older scikit-learn: ``diffprivlib_side.py FILE.npz``.

The file holds the rows as numbers between public bounds, and what to train; predictions are written next to it. Runs
with NumPy and diffprivlib alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np


def main(path: Path) -> None:
    """Train and predict."""
    from diffprivlib.models import LinearRegression, RandomForestClassifier

    given = np.load(path, allow_pickle=False)
    epsilon, seed = float(given["epsilon"]), int(given["seed"])
    low, high = given["low"], given["high"]
    start = time.perf_counter()
    if given["target_range"].size:
        model = LinearRegression(epsilon=epsilon, bounds_X=(low, high), bounds_y=tuple(given["target_range"]),
                                 random_state=seed)  # fmt: skip
        model.fit(given["X"], given["y"])
        predicted = np.clip(model.predict(given["X_new"]), *given["target_range"])
    else:
        model = RandomForestClassifier(epsilon=epsilon, bounds=(low, high), classes=given["classes"], random_state=seed)
        model.fit(given["X"], given["y"])
        predicted = model.predict_proba(given["X_new"])
    np.savez(path.with_suffix(".out.npz"), predicted=predicted, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

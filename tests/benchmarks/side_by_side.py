"""Rows and a stopwatch for benchmarks that set dpforest against scikit-learn on one thread."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
from threadpoolctl import threadpool_limits

from dpforest.schema import Schema
from fl_app.data.sources.hugadb import HugadbSettings, HugadbSource

N_ROWS = 65_000


def rows_to_measure() -> tuple[str, np.ndarray, np.ndarray, Schema]:
    """65,000 rows of 38 features (float32) and 7 classes: HuGaDB's subject 05 where its files are, else made up.

    Returns
    -------
    name, X, y, schema
    """
    schema = Schema(HugadbSource.channels, target=HugadbSource.target, classes=HugadbSource.classes, rows=N_ROWS)
    if os.environ.get("DPFOREST_DATA"):
        recordings = list(HugadbSource(HugadbSettings()).recordings("05"))
        signal = np.concatenate([recording.signal for recording in recordings])
        labels = np.concatenate([recording.labels for recording in recordings])
        X, _ = schema.check_matrix(signal[labels >= 0])
        return "HuGaDB subject 05", X[:N_ROWS].astype(np.float32), labels[labels >= 0][:N_ROWS], schema
    rng = np.random.default_rng(0)
    # Activities of unequal length, each a dozen postures with noise of its own on every sensor.
    y = rng.choice(len(schema.classes), N_ROWS, p=[0.32, 0.15, 0.16, 0.06, 0.02, 0.02, 0.27])
    posture = 12 * y + rng.integers(12, size=N_ROWS)
    centre = rng.uniform(-0.4, 0.4, (12 * len(schema.classes), schema.n_features))
    spread = rng.uniform(0.02, 0.3, centre.shape)
    share = 0.5 + centre[posture] + spread[posture] * rng.standard_normal((N_ROWS, schema.n_features))
    X, _ = schema.check_matrix(np.rint(schema.low + share * (schema.high - schema.low)))
    return "made-up rows", X.astype(np.float32), y, schema


def print_comparison(title: str, pairs: Mapping[str, tuple[str, Callable[[], object], Callable[[], object]]]) -> None:
    """Time pairs of (name of the reference, reference, dpforest) in turn; print medians and the median ratio."""
    print(f"{title}; CPU time of one thread, medians of alternating runs")
    print(f"{'case':<42} {'reference':<14} {'reference ms':>12} {'dpforest ms':>12} {'ratio':>6}")
    with threadpool_limits(1):
        for case, (reference_name, reference, ours) in pairs.items():
            ours()  # compiles, or loads what was compiled
            times = np.array([(cpu_seconds(reference), cpu_seconds(ours)) for _ in range(9)])
            medians = 1000 * np.median(times, axis=0)
            ratio = statistics.median(times[:, 1] / times[:, 0])
            print(f"{case:<42} {reference_name:<14} {medians[0]:>12.1f} {medians[1]:>12.1f} {ratio:>6.2f}")


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, which other programs on the machine disturb less than the clock's."""
    start = time.process_time()
    call()
    return time.process_time() - start

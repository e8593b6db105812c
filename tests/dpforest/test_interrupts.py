"""An interrupt ends what it interrupts: always as KeyboardInterrupt, never as another error or a crash."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from dpforest.compiled import compiled

FITS = """
import random, signal, sys, time
import numpy as np
from dpforest import PrivateBoostClassifier, PrivateForestClassifier, PrivateForestRegressor
from dpforest.growers.own_values import grow_with_own_values
from dpforest.schema import Feature, Schema

X = np.random.default_rng(0).random((300, 4))
y = (X[:, 0] > 0.5).astype(int)
public = {"bounds": [(0, 1)] * 4, "random_state": 0}
schema = Schema(tuple(Feature(name, 0, 1) for name in "abcd"), target="t", target_range=(0, 1))
fits = [
    lambda: PrivateForestClassifier(classes=[0, 1], rows=300, depth=4, trees=1, **public).fit(X, y),
    lambda: PrivateForestRegressor(target_range=(0, 1), rows=300, depth=3, trees=1, **public).fit(X, X[:, 1]),
    lambda: PrivateBoostClassifier(classes=[0, 1], rounds=2, depth=3, **public).fit(X, y),
    lambda: grow_with_own_values(X, X[:, 1], schema, 1.0, np.random.default_rng(0), depth=3),
]
random.seed(7)
for number, fit in enumerate(fits):
    fit()  # compiles
    start = time.perf_counter()
    fit()
    takes = time.perf_counter() - start
    for _ in range(100):
        try:
            # As when somebody presses Ctrl-C; an alarm comes at times that one can choose.
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, max(takes, 1e-3)))
            while True:
                fit()
        except KeyboardInterrupt:
            continue
    print("all of fit", number)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_fits_are_interrupted_hundreds_of_times() -> None:
    done = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"all of fit {number}" for number in range(4)]


@compiled()
def _doubled(values):
    return 2 * values


def test_handlers_are_as_before_after_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_it(number: int, frame: object) -> None:
        raise TimeoutError("the time is up")

    before = signal.signal(signal.SIGTERM, raise_it)
    try:
        np.testing.assert_array_equal(_doubled(np.arange(3)), [0, 2, 4])
        assert signal.getsignal(signal.SIGTERM) is raise_it
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(TimeoutError, match="the time is up"):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

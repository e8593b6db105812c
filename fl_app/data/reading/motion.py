"""Gravity, body motion and jerk of a body-worn accelerometer and gyroscope.

The derived signals of the UCI smartphone sets (Anguita et al. 2013; Reyes-Ortiz et al. 2016):
a Butterworth low-pass of third order at 0.3 Hz divides the acceleration into gravity and body
motion, and the jerk is the slope over time. Other than there, the filter runs inside each window
(forward and backward, over the window and its mirror images), for the reason that
`fl_app.data.reading.windows.Derived` gives, and there is no filter against noise before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpforest.schema import Feature
from fl_app.data.reading.windows import GRAVITY, Derived

CUTOFF = 0.3  # Hz
ORDER = 3


@lru_cache(maxsize=8)
def gravity_filter(rate: int, length: int) -> np.ndarray:
    """The low-pass filter as a map of a window of ``length`` samples, shape (length, length)."""
    from scipy.signal import butter, sosfiltfilt  # takes long to import, and only windows need it

    sections = butter(ORDER, CUTOFF, fs=rate, output="sos")
    return np.asarray(sosfiltfilt(sections, np.eye(length), axis=0, padtype="even", padlen=length - 1))


@lru_cache(maxsize=8)
def slope(rate: int, length: int) -> np.ndarray:
    """Central differences per second (one-sided at both ends) as a map, shape (length, length)."""
    return np.asarray(np.gradient(np.eye(length), 1 / rate, axis=0))


def separate(
    channels: Sequence[Feature],
    accelerometer: tuple[int, int, int],
    gyroscope: tuple[int, int, int],
    rate: int,
    length: int,
) -> Derived:
    """The sensors ``body``, ``gravity``, ``body_jerk``, ``gyro`` and ``gyro_jerk``.

    Parameters
    ----------
    channels : sequence of Feature
        The measured channels; units g and rad/s.
    accelerometer, gyroscope : tuple of int
        Positions of their axes x, y, z in ``channels``.
    rate : int
        Hz.
    length : int
        Samples a window.
    """
    low_pass, derivative, same = gravity_filter(rate, length), slope(rate, length), np.eye(length)
    sensors = {
        "body": (accelerometer, same - low_pass, "g"),
        GRAVITY: (accelerometer, low_pass, "g"),
        "body_jerk": (accelerometer, derivative @ (same - low_pass), "g/s"),
        "gyro": (gyroscope, same, "rad/s"),
        "gyro_jerk": (gyroscope, derivative, "rad/s^2"),
    }
    derived: list[Feature] = []
    groups: dict[str, tuple[int, ...]] = {}
    for name, (axes, matrix, unit) in sensors.items():
        groups[name] = tuple(range(len(derived), len(derived) + len(axes)))
        for axis, position in zip("xyz", axes, strict=True):
            low, high = _image(channels[position], matrix)
            derived.append(Feature(f"{name}_{axis}", low, high, unit, "signed_sqrt"))
    return Derived(tuple(derived), groups, tuple((axes, matrix) for axes, matrix, _ in sensors.values()))


def _image(channel: Feature, matrix: np.ndarray) -> tuple[float, float]:
    """Least and largest value that the map makes of any signal inside the channel's bounds."""
    positive, negative = np.clip(matrix, 0, None).sum(axis=1), np.clip(matrix, None, 0).sum(axis=1)
    lowest = positive * channel.low + negative * channel.high
    highest = positive * channel.high + negative * channel.low
    return float(lowest.min()), float(highest.max())

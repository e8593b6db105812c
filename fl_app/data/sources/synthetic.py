"""Synthetic exercise recordings, for examples and tests where no file is at hand; no person stands behind them.

A subject does bouts of rest (sitting, standing, chores) and of exercise (walking, running, cycling, strength). Heart
rate follows effort with a lag and falls slowly afterwards, so that it is high for a while without exercise; chores move
the arm without exercise, and cycling hardly does. Subjects differ in rest rate, fitness, gait, how the device sits, and
the gain of their sensors.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_app.data.reading.quality import LABEL, SENSORS, TIME

RATE = 1  # Hz
RECORDINGS = 4
_START = 1_700_000_000  # s since 1970
_GRAVITY = 9.81


@dataclass(frozen=True)
class _Activity:
    """Effort (share of the heart rate reserve), step rate (Hz), and acceleration (m/s^2) of an activity."""

    exercise: bool
    effort: tuple[float, float]
    step_rate: tuple[float, float]
    swing: tuple[float, float]
    jitter: tuple[float, float]


_ACTIVITIES = (
    _Activity(False, (0.0, 0.03), (0, 0), (0, 0), (0.05, 0.2)),  # sitting
    _Activity(False, (0.03, 0.1), (0, 0), (0, 0), (0.1, 0.4)),  # standing
    _Activity(False, (0.1, 0.25), (0.3, 0.8), (0.5, 2.0), (1.0, 2.5)),  # chores
    _Activity(True, (0.25, 0.45), (1.6, 2.1), (1.5, 3.5), (0.5, 1.0)),  # walking
    _Activity(True, (0.55, 0.85), (2.4, 3.0), (6.0, 12.0), (1.0, 2.5)),  # running
    _Activity(True, (0.45, 0.75), (1.0, 1.5), (0.3, 1.0), (0.3, 0.8)),  # cycling
    _Activity(True, (0.35, 0.6), (0.3, 0.6), (2.0, 5.0), (0.8, 2.0)),  # strength
)
_RESTS = [a for a in _ACTIVITIES if not a.exercise]
_EXERCISES = [a for a in _ACTIVITIES if a.exercise]


@dataclass(frozen=True)
class Recordings:
    """Made-up samples of one subject in the order of time.

    Parameters
    ----------
    time : ndarray of float64, shape (n,)
        Seconds since 1970.
    X : ndarray of float64, shape (n, 8)
        In the order of `fl_app.data.reading.quality.SENSORS`.
    y : ndarray of int64, shape (n,)
        1 for exercise.
    recording : ndarray of int64, shape (n,)
    """

    time: np.ndarray
    X: np.ndarray
    y: np.ndarray
    recording: np.ndarray


def make_recordings(subject: int, minutes: float, seed: int) -> Recordings:
    """Recordings of one made-up subject; the same for the same numbers.

    Parameters
    ----------
    subject : int
        From 0.
    minutes : float
        Of all recordings together.
    seed : int
    """
    rng = np.random.default_rng([seed, subject])
    person = _Person.random(rng)
    each = max(1, round(minutes * 60 * RATE / RECORDINGS))
    parts = [_recording(person, each, rng) for _ in range(RECORDINGS)]
    begin = _START + subject * 10_000_000 + 90_000 * np.arange(RECORDINGS)  # about a day apart
    return Recordings(
        np.concatenate([start + np.arange(each) / RATE for start in begin]),
        np.concatenate([X for X, _ in parts]),
        np.concatenate([y for _, y in parts]),
        np.repeat(np.arange(RECORDINGS), each),
    )


@dataclass(frozen=True)
class _Person:
    rest_rate: float
    reserve: float  # from rest to the highest heart rate
    rise: float  # s, time constant of the heart rate when effort begins
    fall: float  # s, and when it ends
    pace: float  # factor on step rates
    vigour: float  # factor on how the arm swings
    green: float  # gain of the sensors
    red: float
    ecg: float
    saturation: float

    @classmethod
    def random(cls, rng: np.random.Generator) -> _Person:
        fitness = rng.uniform()
        rest = 78 - 22 * fitness + rng.normal(0, 5)
        highest = 208 - 0.7 * rng.uniform(20, 65)  # Tanaka et al. 2001
        return cls(
            rest_rate=rest,
            reserve=highest - rest,
            rise=rng.uniform(10, 20) + 15 * (1 - fitness),
            fall=rng.uniform(20, 35) + 30 * (1 - fitness),
            pace=rng.normal(1, 0.06),
            vigour=rng.lognormal(0, 0.25),
            green=rng.lognormal(0, 0.2),
            red=rng.lognormal(0, 0.2),
            ecg=rng.lognormal(0, 0.2),
            saturation=rng.normal(97.8, 0.5),
        )


def _recording(person: _Person, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y, effort, step, swing, jitter = _bouts(person, n, rng)
    rate = _heart_rate(person, effort, rng)
    moving = _accelerations(n, step, swing, jitter, rng)
    acceleration = moving + _gravity(n, rng)
    shaken = np.linalg.norm(moving, axis=1)
    beat = np.cumsum(rate / 60 / RATE) + rng.uniform()
    depth = _follow(effort, 40.0, 60.0)
    saturation = person.saturation - 1.8 * depth - 0.05 * np.minimum(shaken, 20) + rng.normal(0, 0.5, n)
    pulse = np.sin(2 * np.pi * beat) + 0.4 * np.sin(4 * np.pi * beat + 0.8)
    green = person.green * (1300 + 60 * pulse * (1 - 0.4 * depth) + 12 * shaken * rng.normal(0, 1, n)) + rng.normal(
        0, 8, n
    )
    red = person.red * (1000 + 25 * pulse + 9 * shaken * rng.normal(0, 1, n)) + rng.normal(0, 8, n)
    wander = 0.1 * np.sin(2 * np.pi * np.arange(n) / RATE * 0.21 + rng.uniform(0, 6))
    ecg = person.ecg * _heart_beat(beat % 1) + wander + (0.04 + 0.012 * shaken) * rng.normal(0, 1, n)
    X = np.column_stack([
        np.round(np.clip(rate, 35, 215)), np.round(np.clip(saturation, 80, 100)), np.round(np.clip(green, 0, 4095)),
        np.round(np.clip(red, 0, 4095)), np.round(ecg, 3), np.round(acceleration, 2),
    ])  # fmt: skip
    return X, y


def _bouts(person: _Person, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Label, effort, step rate, swing and jitter of every sample."""
    rows = np.zeros((n, 5))
    start, exercising = 0, bool(rng.integers(2))
    while start < n:
        activities = _EXERCISES if exercising else _RESTS
        activity = activities[rng.integers(len(activities))]
        seconds = rng.uniform(100, 300) if exercising else rng.uniform(90, 270)
        stop = min(n, start + max(1, round(seconds * RATE)))
        rows[start:stop] = (
            exercising,
            rng.uniform(*activity.effort),
            person.pace * rng.uniform(*activity.step_rate),
            person.vigour * rng.uniform(*activity.swing),
            rng.uniform(*activity.jitter),
        )
        start, exercising = stop, not exercising
    return (rows[:, 0].astype(np.int64), *rows[:, 1:].T)


def _follow(target: np.ndarray, rise: float, fall: float) -> np.ndarray:
    """First-order lag with different time constants up and down."""
    out = np.empty(len(target))
    now = target[0]
    for i, wanted in enumerate(target):
        now += (wanted - now) / RATE / (rise if wanted > now else fall)
        out[i] = now
    return out


def _heart_rate(person: _Person, effort: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    today = person.rest_rate + rng.normal(0, 3)
    smooth = today + person.reserve * _follow(effort, person.rise, person.fall)
    drift = np.empty(len(effort))
    now = 0.0
    for i, step in enumerate(rng.normal(0, 1.2, len(effort))):
        now = 0.9 * now + step
        drift[i] = now
    return smooth + drift


def _accelerations(
    n: int, step: np.ndarray, swing: np.ndarray, jitter: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Gait along a direction of the arm, with its second harmonic across, and random movement."""
    along, across = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    phase = 2 * np.pi * (np.cumsum(step) / RATE + 0.02 * np.cumsum(rng.normal(0, 1, n)))
    gait = swing[:, None] * (np.sin(phase)[:, None] * along + 0.5 * np.sin(2 * phase + 0.7)[:, None] * across)
    return gait + jitter[:, None] * rng.normal(0, 1, (n, 3))


def _gravity(n: int, rng: np.random.Generator) -> np.ndarray:
    """Gravity in the axes of the device, which turns slowly about how it was put on: mostly along z."""
    direction = np.array([0.0, 0.0, 1.0]) + rng.normal(0, 0.3, 3)
    turning = np.cumsum(rng.normal(0, 0.01, (n, 3)), axis=0)
    vectors = direction + turning
    return _GRAVITY * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _heart_beat(phase: np.ndarray) -> np.ndarray:
    """One beat of an ECG in mV: P, Q, R, S and T waves as bells (after McSharry et al. 2003)."""
    waves = ((0.2, 0.12, 0.025), (0.36, -0.1, 0.01), (0.39, 1.1, 0.012), (0.42, -0.25, 0.012), (0.65, 0.3, 0.04))
    out = np.zeros_like(phase)
    for centre, height, width in waves:
        out += height * np.exp(-0.5 * ((phase - centre) / width) ** 2)
    return out


def write_csv(made: Recordings, path: Path) -> None:
    """Write recordings in the form that ``dataset=exercise`` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([TIME, *SENSORS, LABEL])
        for time, row, label in zip(made.time.tolist(), made.X.tolist(), made.y.tolist(), strict=True):
            writer.writerow([f"{time:.10g}" if time % 1 else int(time), *(f"{x:g}" for x in row), label])

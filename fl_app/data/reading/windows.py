"""Raw signals to windows with features: the one place where it happens.

Each feature carries a rule that derives its public bounds from the channels' public bounds, so
that a table of windows has a schema before any signal is seen.

A window never crosses a change of label or the end of a recording. Without overlap a raw sample
is in one window at most, so that protecting a window protects each sample in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Annotated, Literal

import numpy as np

from dpforest.schema import Feature, GridScale
from dpforest.settings import OneOf, Range, Says, Whole
from fl_app.data.source import DataError, SourceSettings

Groups = Mapping[str, tuple[int, ...]]
"""Name of a sensor to the positions of its axes among the channels."""

RAW = "raw"
GRAVITY = "gravity"
"""The sensor that the feature ``angle`` measures against; without it there are no angles."""
AR_ORDER = 4
BANDS = 4


@dataclass(frozen=True)
class WindowFeature:
    """One kind of feature.

    Parameters
    ----------
    describe : callable (channels, groups, length) -> list of Feature
        Names and public bounds of its columns.
    values : callable (windows, groups) -> ndarray of shape (n_windows, n_columns)
        Its columns, from windows of shape (n_windows, length, n_channels).
    """

    describe: Callable[[Sequence[Feature], Groups, int], list[Feature]]
    values: Callable[[np.ndarray, Groups], np.ndarray]


WINDOW_FEATURES: dict[str, WindowFeature] = {}

Limits = list[tuple[str, float, float]]  # suffix of the column's name, low, high


def _per_channel(
    name: str,
    limits: Callable[[Feature, int], Limits],
    scale: GridScale | Literal["channel"] = "signed_sqrt",
    unit: str = "",
) -> Callable[[Callable[[np.ndarray], np.ndarray]], Callable[[np.ndarray], np.ndarray]]:
    """Register a feature that every channel has; ``{}`` in ``unit`` is the channel's unit.

    The decorated function returns shape (n_windows, n_channels), or (n_windows, n_channels, k)
    for k columns a channel.
    """

    def register(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        def describe(channels: Sequence[Feature], groups: Groups, length: int) -> list[Feature]:
            return [
                Feature(
                    f"{channel.name}_{name}{suffix}",
                    low,
                    high,
                    unit.format(channel.unit) if channel.unit else "",
                    channel.scale if scale == "channel" else scale,
                    channel.centre if scale == "channel" else 0.0,
                )
                for channel in channels
                for suffix, low, high in limits(channel, length)
            ]

        def values(windows: np.ndarray, groups: Groups) -> np.ndarray:
            result = function(windows)
            return result.reshape(len(windows), math.prod(result.shape[1:]))

        WINDOW_FEATURES[name] = WindowFeature(describe, values)
        return function

    return register


def _magnitude(channel: Feature) -> float:
    return max(abs(channel.low), abs(channel.high))


def _as_channel(channel: Feature, length: int) -> Limits:
    return [("", channel.low, channel.high)]


def _half_width(channel: Feature, length: int) -> Limits:
    return [("", 0.0, (channel.high - channel.low) / 2)]


def _share(channel: Feature, length: int) -> Limits:
    return [("", 0.0, 1.0)]


def _frequency(channel: Feature, length: int) -> Limits:
    return [("", 0.0, 0.5)]


@_per_channel("mean", _as_channel, "channel", "{}")
def mean(windows: np.ndarray) -> np.ndarray:
    """Mean."""
    return windows.mean(axis=1)


@_per_channel("std", _half_width, unit="{}")
def std(windows: np.ndarray) -> np.ndarray:
    """Standard deviation; at most half the width of the bounds (Popoviciu's inequality)."""
    return windows.std(axis=1)


@_per_channel("min", _as_channel, "channel", "{}")
def smallest(windows: np.ndarray) -> np.ndarray:
    """Smallest value."""
    return windows.min(axis=1)


@_per_channel("max", _as_channel, "channel", "{}")
def largest(windows: np.ndarray) -> np.ndarray:
    """Largest value."""
    return windows.max(axis=1)


@_per_channel("median", _as_channel, "channel", "{}")
def median(windows: np.ndarray) -> np.ndarray:
    """Median."""
    return np.median(windows, axis=1)


@_per_channel("mad", _half_width, unit="{}")
def mad(windows: np.ndarray) -> np.ndarray:
    """Median absolute deviation from the median.

    More than half the samples are no further from the median than the nearer bound is, so it is
    at most half the width of the bounds.
    """
    return np.median(np.abs(windows - np.median(windows, axis=1, keepdims=True)), axis=1)


@_per_channel("iqr", lambda channel, length: [("", 0.0, channel.high - channel.low)], unit="{}")
def iqr(windows: np.ndarray) -> np.ndarray:
    """Interquartile range."""
    low, high = np.quantile(windows, [0.25, 0.75], axis=1)
    return high - low


@_per_channel("rms", lambda channel, length: [("", 0.0, _magnitude(channel))], unit="{}")
def rms(windows: np.ndarray) -> np.ndarray:
    """Root of the mean square."""
    return np.sqrt((windows * windows).mean(axis=1))


@_per_channel("energy", lambda channel, length: [("", 0.0, _magnitude(channel) ** 2)], unit="({})^2")
def energy(windows: np.ndarray) -> np.ndarray:
    """Mean square."""
    return (windows * windows).mean(axis=1)


@_per_channel("crossings", _share)
def crossings(windows: np.ndarray) -> np.ndarray:
    """Share of steps at which the signal crosses its own mean."""
    above = windows > windows.mean(axis=1, keepdims=True)
    return (above[:, 1:] != above[:, :-1]).mean(axis=1)


@_per_channel("entropy", _share, "linear")
def entropy(windows: np.ndarray) -> np.ndarray:
    """How evenly the absolute signal spreads over the window: Shannon entropy by its maximum."""
    return _evenness(np.abs(windows))


@_per_channel(
    "ar",
    # a stable polynomial of order p has |a_k| <= binomial(p, k)
    lambda channel, length: [
        (str(k), -float(math.comb(AR_ORDER, k)), float(math.comb(AR_ORDER, k))) for k in range(1, AR_ORDER + 1)
    ],
    "linear",
)
def ar(windows: np.ndarray) -> np.ndarray:
    """Autoregression coefficients of order 4 by Burg's method; a constant signal has zeros."""
    forward = backward = np.swapaxes(windows - windows.mean(axis=1, keepdims=True), 1, 2)
    coefficients = np.ones((*forward.shape[:2], 1))
    for _ in range(AR_ORDER):
        forward, backward = forward[..., 1:], backward[..., :-1]
        power = (forward * forward + backward * backward).sum(axis=-1, keepdims=True)
        product = -2 * (forward * backward).sum(axis=-1, keepdims=True)
        reflection = np.divide(product, power, out=np.zeros_like(power), where=power > 0)
        longer = np.concatenate([coefficients, np.zeros_like(power)], axis=-1)
        coefficients = longer + reflection * longer[..., ::-1]
        forward, backward = forward + reflection * backward, backward + reflection * forward
    return coefficients[..., 1:]


@_per_channel("frequency", _frequency, "linear", "1/sample")
def frequency(windows: np.ndarray) -> np.ndarray:
    """Mean frequency, weighted by power, without the constant part."""
    power = _power(windows)
    cycles = np.arange(1, power.shape[1] + 1)[:, None] / windows.shape[1]
    return (_shares(power) * cycles).sum(axis=1)


@_per_channel("peak", _frequency, "linear", "1/sample")
def peak(windows: np.ndarray) -> np.ndarray:
    """Frequency of the largest power, without the constant part; 0 for a constant signal."""
    power = _power(windows)
    return np.where(power.any(axis=1), power.argmax(axis=1) + 1, 0) / windows.shape[1]


@_per_channel("spectral_entropy", _share, "linear")
def spectral_entropy(windows: np.ndarray) -> np.ndarray:
    """Shannon entropy of the power spectrum by its maximum."""
    return _evenness(_power(windows))


@_per_channel("band", lambda channel, length: [(str(k), 0.0, 1.0) for k in range(1, BANDS + 1)], "linear")
def band(windows: np.ndarray) -> np.ndarray:
    """Share of the power in each quarter of the frequencies."""
    share = _shares(_power(windows))
    edges = np.linspace(0, share.shape[1], BANDS + 1).round().astype(int)
    return np.stack([share[:, a:b].sum(axis=1) for a, b in pairwise(edges)], axis=-1)


def _power(windows: np.ndarray) -> np.ndarray:
    centred = windows - windows.mean(axis=1, keepdims=True)
    return np.abs(np.fft.rfft(centred, axis=1)[:, 1:]) ** 2


def _shares(positive: np.ndarray) -> np.ndarray:
    total = positive.sum(axis=1, keepdims=True)
    return np.divide(positive, total, out=np.zeros_like(positive), where=total > 0)


def _evenness(positive: np.ndarray) -> np.ndarray:
    share = _shares(positive)
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)
    return -(share * logs).sum(axis=1) / math.log(share.shape[1])


def _describe_sma(channels: Sequence[Feature], groups: Groups, length: int) -> list[Feature]:
    return [
        Feature(f"{group}_sma", 0.0, sum(_magnitude(channels[i]) for i in axes), channels[axes[0]].unit, "signed_sqrt")
        for group, axes in groups.items()
    ]


def _sma(windows: np.ndarray, groups: Groups) -> np.ndarray:
    """Signal magnitude area: the mean, over the window, of the axes' absolute values summed."""
    areas = [np.abs(windows[:, :, axes]).sum(axis=2).mean(axis=1) for axes in groups.values()]
    return np.stack(areas, axis=1) if areas else np.empty((len(windows), 0))


def _describe_correlation(channels: Sequence[Feature], groups: Groups, length: int) -> list[Feature]:
    return [Feature(f"{channels[i].name}_{channels[j].name}_correlation", -1.0, 1.0) for i, j in _pairs(groups)]


def _correlation(windows: np.ndarray, groups: Groups) -> np.ndarray:
    """Pearson correlation of each two axes of a sensor; 0 where one of them is constant."""
    pairs = _pairs(groups)
    first, second = [i for i, _ in pairs], [j for _, j in pairs]
    centred = windows - windows.mean(axis=1, keepdims=True)
    norm = np.sqrt((centred * centred).sum(axis=1))
    product = (centred[:, :, first] * centred[:, :, second]).sum(axis=1)
    scale = norm[:, first] * norm[:, second]
    return np.divide(product, scale, out=np.zeros_like(scale), where=scale > 0)


def _pairs(groups: Groups) -> list[tuple[int, int]]:
    return [pair for axes in groups.values() for pair in combinations(axes, 2)]


WINDOW_FEATURES["sma"] = WindowFeature(_describe_sma, _sma)
WINDOW_FEATURES["correlation"] = WindowFeature(_describe_correlation, _correlation)


def _describe_angle(channels: Sequence[Feature], groups: Groups, length: int) -> list[Feature]:
    if GRAVITY not in groups:
        return []
    turned = [name for name in groups if name != GRAVITY] + [channels[i].name for i in groups[GRAVITY]]
    return [Feature(f"{name}_angle", 0.0, math.pi, "rad") for name in turned]


def _angle(windows: np.ndarray, groups: Groups) -> np.ndarray:
    """Angle between the mean of gravity and each sensor's mean, then each axis; pi/2 where one has no direction."""
    if GRAVITY not in groups:
        return np.empty((len(windows), 0))
    down = windows[:, :, groups[GRAVITY]].mean(axis=1)
    others = [windows[:, :, axes].mean(axis=1) for name, axes in groups.items() if name != GRAVITY]
    axes = np.broadcast_to(np.eye(down.shape[1])[:, None], (down.shape[1], *down.shape))
    vectors = np.stack([*others, *axes])  # (vectors, windows, 3)
    product = (vectors * down).sum(axis=2)
    scale = np.linalg.norm(vectors, axis=2) * np.linalg.norm(down, axis=1)
    cosine = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return np.arccos(np.clip(cosine, -1.0, 1.0)).T


WINDOW_FEATURES["angle"] = WindowFeature(_describe_angle, _angle)

FEATURE_SETS: dict[str, tuple[str, ...]] = {
    "standard": ("mean", "std", "min", "max", "median", "mad", "iqr", "rms", "crossings", "sma", "correlation"),
    # the families of the UCI smartphone sets (Anguita et al. 2013; Reyes-Ortiz et al. 2016)
    "uci": (
        "mean", "std", "mad", "max", "min", "sma", "energy", "iqr", "entropy", "ar", "correlation",
        "frequency", "peak", "spectral_entropy", "band", "angle",
    ),
}  # fmt: skip


Features = Annotated[str, OneOf((RAW, *FEATURE_SETS))] | tuple[Annotated[str, OneOf(WINDOW_FEATURES)], ...]
Length = Annotated[int, Range(2 * AR_ORDER, 10**9), Says(f"be a whole number, at least {2 * AR_ORDER}")]


@dataclass(frozen=True)
class WindowSettings(SourceSettings):
    """How raw signals become records.

    Parameters
    ----------
    features
        ``raw`` (each sample is a record), the name of a feature set, or a list of features.
    length
        Samples a window, where features are not raw.
    step
        Samples from one window's start to the next; null means ``length``.
    overlap
        What to do with ``step < length``, where one raw sample has a part in several records: refuse it, or count it
        in the privacy unit.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    features: Features = RAW
    length: Length = 128
    step: Whole | None = None
    overlap: Literal["refuse", "count"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.features:
            raise DataError(f"dataset.features [] must be raw, {', '.join(FEATURE_SETS)}, or a list of features")
        if self.records_per_sample > 1 and self.overlap == "refuse":
            raise DataError(
                f"dataset.step {self.step} is below dataset.length {self.length}: one raw sample would be in "
                f"{self.records_per_sample} records; set step={self.length}, or overlap=count to account for it"
            )

    @property
    def windowed(self) -> bool:
        """Whether a record is a window and not a raw sample."""
        return self.features != RAW

    @property
    def stride(self) -> int:
        """Samples from one window's start to the next."""
        return self.length if self.step is None else self.step

    @property
    def records_per_sample(self) -> int:
        """Most records that one raw sample has a part in."""
        return -(-self.length // self.stride) if self.windowed else 1

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the window features."""
        return FEATURE_SETS[self.features] if isinstance(self.features, str) else self.features


@dataclass(frozen=True, eq=False)
class Derived:
    """Sensors that are computed from the measured ones, each a linear map of one window.

    A window's derived signals depend on its own samples only. (A recursive filter over the whole
    recording would carry each sample into all later windows, and a window would not be what
    protecting one record protects.)

    Parameters
    ----------
    channels : tuple of Feature
        The derived channels with their public bounds.
    groups : mapping of str to tuple of int
        The axes of each derived sensor, as positions in ``channels``.
    maps : tuple of (tuple of int, ndarray of shape (length, length))
        For each derived sensor the measured axes and the map over time.
    """

    channels: tuple[Feature, ...]
    groups: Groups
    maps: tuple[tuple[tuple[int, ...], np.ndarray], ...]

    def transform(self, windows: np.ndarray) -> np.ndarray:
        """Windows of the measured channels to windows of the derived ones."""
        return np.concatenate([matrix @ windows[:, :, axes] for axes, matrix in self.maps], axis=2)


@dataclass(frozen=True)
class Windower:
    """Cuts signals into windows and computes their features.

    The Euclidean length of each sensor's axes joins the channels as ``<sensor>_magnitude``: it
    does not depend on how the sensor sits.

    Parameters
    ----------
    channels : tuple of Feature
        The channels with their public bounds.
    groups : mapping of str to tuple of int
        The axes of each sensor, as positions in ``channels``.
    settings : WindowSettings
        With ``features`` other than ``"raw"``.
    derived : Derived or None
        Sensors to take the features of instead of the measured ones.
    """

    channels: tuple[Feature, ...]
    groups: Groups
    settings: WindowSettings
    derived: Derived | None = None

    def features(self) -> tuple[Feature, ...]:
        """Names and public bounds of the columns of `transform`."""
        channels, groups = self._sensors
        widened = channels + tuple(_length(name, channels, axes) for name, axes in groups.items())
        return tuple(
            column
            for name in self.settings.feature_names
            for column in WINDOW_FEATURES[name].describe(widened, groups, self.settings.length)
        )

    def transform(self, signal: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The windows of one recording.

        Parameters
        ----------
        signal : ndarray of shape (n_samples, n_channels)
            Inside the channels' bounds, in time order.
        labels : ndarray of int64, shape (n_samples,)
            Class index; negative where a sample has no class to learn.

        Returns
        -------
        X : ndarray of float64, shape (n_windows, n_features)
        y : ndarray of int64, shape (n_windows,)
        """
        windows, y = cut(signal, labels, self.settings.length, self.settings.stride)
        if self.derived is not None:
            windows = self.derived.transform(windows)
        _, groups = self._sensors
        lengths = [np.sqrt((windows[:, :, axes] ** 2).sum(axis=2, keepdims=True)) for axes in groups.values()]
        windows = np.concatenate([windows, *lengths], axis=2)
        columns = [WINDOW_FEATURES[name].values(windows, groups) for name in self.settings.feature_names]
        public = self.features()
        # rounding may leave a feature an ulp outside the bounds that hold for exact arithmetic
        return np.clip(np.hstack(columns), [f.low for f in public], [f.high for f in public]), y

    @property
    def _sensors(self) -> tuple[tuple[Feature, ...], Groups]:
        return (self.channels, self.groups) if self.derived is None else (self.derived.channels, self.derived.groups)


def _length(name: str, channels: tuple[Feature, ...], axes: tuple[int, ...]) -> Feature:
    largest = math.hypot(*(_magnitude(channels[i]) for i in axes))
    return Feature(f"{name}_magnitude", 0.0, largest, channels[axes[0]].unit, "signed_sqrt")


def cut(signal: np.ndarray, labels: np.ndarray, length: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of ``length`` samples, one every ``step`` samples from the start of each run of one label.

    Parameters
    ----------
    signal : ndarray of shape (n_samples, n_channels)
    labels : ndarray of int64, shape (n_samples,)
        Runs of a negative label are left out.
    length, step : int

    Returns
    -------
    windows : ndarray of shape (n_windows, length, n_channels)
        In time order; what a run has left over at its end is in no window.
    labels : ndarray of int64, shape (n_windows,)
    """
    if len(signal) < length:
        return np.empty((0, length, signal.shape[1])), np.empty(0, dtype=np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1])
    sizes = np.diff(np.append(starts, len(labels)))
    counts = np.where(labels[starts] < 0, 0, np.maximum(0, (sizes - length) // step + 1))
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.repeat(starts, counts) + within * step
    view = np.lib.stride_tricks.sliding_window_view(signal, length, axis=0)  # (positions, channels, length)
    return np.swapaxes(view[first], 1, 2), labels[first].astype(np.int64)

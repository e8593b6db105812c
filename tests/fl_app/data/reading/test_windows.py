from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpforest.schema import Feature
from fl_app.data import DataError
from fl_app.data.reading.motion import separate
from fl_app.data.reading.windows import FEATURE_SETS, WINDOW_FEATURES, Derived, Windower, WindowSettings, cut

CHANNELS = (Feature("x", -2.0, 4.0, "g", "signed_sqrt"), Feature("y", 0.0, 9.0, "g"), Feature("z", -1.0, 1.0, "V"))
GROUPS = {"sensor": (0, 1)}


def windower(features: str | tuple[str, ...], length: int = 16, **more: object) -> Windower:
    return Windower(CHANNELS, GROUPS, WindowSettings(features, length=length, **more))


def column(features: tuple[str, ...], name: str, signal: np.ndarray) -> float:
    """The value of one column for a signal of one window."""
    cutter = windower(features, length=len(signal))
    X, _ = cutter.transform(signal, np.zeros(len(signal), dtype=np.int64))
    return float(X[0, [feature.name for feature in cutter.features()].index(name)])


def naive_cut(labels: list[int], length: int, step: int) -> list[tuple[int, int]]:
    """(first sample, label) of each window, one sample at a time."""
    found, start = [], 0
    while start < len(labels):
        end = start
        while end < len(labels) and labels[end] == labels[start]:
            end += 1
        if labels[start] >= 0:
            found += [(first, labels[start]) for first in range(start, end - length + 1, step)]
        start = end
    return found


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(1, 12)), max_size=12), st.integers(1, 6), st.integers(1, 8))
def test_cut_equals_a_walk_over_the_samples(runs: list[tuple[int, int]], length: int, step: int) -> None:
    labels = [label for label, size in runs for _ in range(size)]
    signal = np.arange(2.0 * len(labels)).reshape(-1, 2)
    windows, y = cut(signal, np.array(labels, dtype=np.int64), length, step)
    expected = naive_cut(labels, length, step)
    assert [(int(window[0, 0]) // 2, int(label)) for window, label in zip(windows, y, strict=True)] == expected
    for window, (first, _) in zip(windows, expected, strict=True):
        np.testing.assert_array_equal(window, signal[first : first + length])


def signals() -> st.SearchStrategy[np.ndarray]:
    """Signals that touch the bounds, stand still, alternate, or are noise."""
    low, high = np.array([c.low for c in CHANNELS]), np.array([c.high for c in CHANNELS])
    unit = st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.25, 1e-9]), min_size=48, max_size=48)
    noise = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).random((16, 3)))
    return st.one_of(unit.map(lambda u: np.reshape(u, (16, 3))), noise).map(lambda u: low + u * (high - low))


@settings(max_examples=200)
@given(signals())
def test_every_feature_stays_in_its_public_bounds_before_rounding_is_clipped(signal: np.ndarray) -> None:
    widened = np.column_stack([signal, np.hypot(signal[:, 0], signal[:, 1])])
    magnitude = Feature("sensor_magnitude", 0.0, float(np.hypot(4.0, 9.0)), "g", "signed_sqrt")
    for name, kind in WINDOW_FEATURES.items():
        public = kind.describe((*CHANNELS, magnitude), GROUPS, 16)
        values = kind.values(widened[None], GROUPS)
        assert values.shape == (1, len(public)), name
        slack = 1e-9 * np.array([feature.high - feature.low for feature in public])
        assert np.all(values[0] >= np.array([feature.low for feature in public]) - slack), name
        assert np.all(values[0] <= np.array([feature.high for feature in public]) + slack), name


@pytest.mark.parametrize("features", [*FEATURE_SETS, ("mean",)])
def test_columns_match_the_schema_and_lie_inside_it(features: str | tuple[str, ...]) -> None:
    cutter = windower(features)
    signal = np.random.default_rng(0).uniform([-2, 0, -1], [4, 9, 1], (100, 3))
    X, y = cutter.transform(signal, np.zeros(100, dtype=np.int64))
    public = cutter.features()
    assert X.shape == (6, len(public))
    assert y.tolist() == [0] * 6
    assert len({feature.name for feature in public}) == len(public)
    assert np.all([feature.low for feature in public] <= X)
    assert np.all([feature.high for feature in public] >= X)


def test_values_by_independent_implementations() -> None:
    signal = np.random.default_rng(1).uniform([-2, 0, -1], [4, 9, 1], (32, 3))
    x, y = signal[:, 0], signal[:, 1]
    assert column(("mad",), "x_mad", signal) == pytest.approx(stats.median_abs_deviation(x))
    assert column(("iqr",), "x_iqr", signal) == pytest.approx(stats.iqr(x))
    assert column(("correlation",), "x_y_correlation", signal) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert column(("sma",), "sensor_sma", signal) == pytest.approx(np.mean(np.abs(x) + np.abs(y)))
    assert column(("mean",), "sensor_magnitude_mean", signal) == pytest.approx(np.mean(np.hypot(x, y)))
    share = np.abs(x) / np.abs(x).sum()
    assert column(("entropy",), "x_entropy", signal) == pytest.approx(stats.entropy(share) / np.log(32))


def test_values_by_hand() -> None:
    signal = np.zeros((8, 3))
    signal[:, 0] = [3, -1, 3, -1, 3, -1, 3, -1]  # mean 1, deviation 2, alternates
    names = ("mean", "std", "min", "max", "median", "rms", "energy", "crossings", "peak", "frequency", "band")
    expected = {
        "mean": 1, "std": 2, "min": -1, "max": 3, "median": 1, "rms": 5**0.5, "energy": 5, "crossings": 1,
        "peak": 0.5, "frequency": 0.5, "band1": 0, "band4": 1,
    }  # fmt: skip
    for name, value in expected.items():
        assert column(names, f"x_{name}", signal) == pytest.approx(value), name
        if name not in {"mean", "std", "min", "max", "median", "rms", "energy"}:
            assert column(names, f"z_{name}", signal) == 0, "a constant channel has no spectrum and no crossings"


def test_burg_finds_the_coefficients_of_an_autoregressive_signal() -> None:
    rng, x = np.random.default_rng(0), np.zeros(6000)
    for t in range(2, len(x)):
        x[t] = 0.9 * x[t - 1] - 0.5 * x[t - 2] + 0.1 * rng.standard_normal()
    signal = np.zeros((len(x), 3))
    signal[:, 2] = np.clip(x, -1, 1)
    # x_t + a1 x_{t-1} + a2 x_{t-2} = noise
    for order, value in enumerate([-0.9, 0.5, 0.0, 0.0], start=1):
        assert column(("ar",), f"z_ar{order}", signal) == pytest.approx(value, abs=0.05)


MOTION = (
    *(Feature(f"a{axis}", -2.0, 2.0, "g", "signed_sqrt") for axis in "xyz"),
    *(Feature(f"w{axis}", -30.0, 30.0, "rad/s", "signed_sqrt") for axis in "xyz"),
)


def motion(length: int = 64) -> Derived:
    return separate(MOTION, (0, 1, 2), (3, 4, 5), 50, length)


def by_name(derived: Derived, window: np.ndarray) -> dict[str, np.ndarray]:
    values = derived.transform(window[None])[0]
    return {feature.name: values[:, i] for i, feature in enumerate(derived.channels)}


def test_a_phone_at_rest_has_gravity_and_no_motion() -> None:
    window = np.tile([0.6, 0.0, -0.8, 0.0, 0.0, 0.0], (64, 1))
    found = by_name(motion(), window)
    for name, values in found.items():
        expected = {"gravity_x": 0.6, "gravity_z": -0.8}.get(name, 0.0)
        np.testing.assert_allclose(values, expected, atol=1e-9, err_msg=name)


def test_fast_motion_goes_to_the_body_and_its_slope_is_the_jerk() -> None:
    time = np.arange(128) / 50
    window = np.zeros((128, 6))
    window[:, 2] = 1 + 0.5 * np.sin(2 * np.pi * 3 * time)
    window[:, 4] = 7 * time
    found = by_name(motion(128), window)
    inner = slice(20, -20)
    np.testing.assert_allclose(found["gravity_z"][inner], 1, atol=0.03)
    np.testing.assert_allclose(found["body_z"][inner], window[inner, 2] - 1, atol=0.03)
    np.testing.assert_allclose(found["body_z"] + found["gravity_z"], window[:, 2], atol=1e-9)
    slope = 0.5 * 2 * np.pi * 3 * np.cos(2 * np.pi * 3 * time)
    np.testing.assert_allclose(found["body_jerk_z"][inner], slope[inner], atol=0.6)  # of up to 9.4
    np.testing.assert_allclose(found["gyro_jerk_y"], 7)
    np.testing.assert_allclose(found["gyro_y"], 7 * time)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_derived_signals_and_their_features_stay_in_their_public_bounds(seed: int, extreme: bool) -> None:
    derived, rng = motion(), np.random.default_rng(seed)
    unit = rng.integers(0, 2, (64, 6)) if extreme else rng.random((64, 6))
    low, high = np.array([c.low for c in MOTION]), np.array([c.high for c in MOTION])
    signal = low + unit * (high - low)
    values = derived.transform(signal[None])[0]
    slack = 1e-9 * np.array([c.high - c.low for c in derived.channels])
    assert np.all(values >= np.array([c.low for c in derived.channels]) - slack)
    assert np.all(values <= np.array([c.high for c in derived.channels]) + slack)
    cutter = Windower(MOTION, {}, WindowSettings("uci", length=64), derived)
    X, _ = cutter.transform(signal, np.zeros(64, dtype=np.int64))
    assert X.shape == (1, len(cutter.features()))
    assert np.isfinite(X).all()


def test_the_bounds_are_reached() -> None:
    derived = motion()
    axes, matrix = derived.maps[0]
    assert axes == (0, 1, 2)
    window = np.zeros((64, 6))
    row = int(np.abs(matrix).sum(axis=1).argmax())
    window[:, 0] = 2.0 * np.sign(matrix[row])
    assert derived.transform(window[None])[0, row, 0] == pytest.approx(derived.channels[0].high)


def test_windows_share_nothing_through_the_filter() -> None:
    rng = np.random.default_rng(0)
    signal, labels = rng.uniform(-1, 1, (192, 6)), np.zeros(192, dtype=np.int64)
    cutter = Windower(MOTION, {}, WindowSettings("uci", length=64), motion())
    before, _ = cutter.transform(signal, labels)
    signal[70] += 0.5
    after, _ = cutter.transform(signal, labels)
    changed = (before != after).any(axis=1)
    assert changed.tolist() == [False, True, False], "one sample changes the one window that holds it"


def test_angles_by_hand() -> None:
    window = np.zeros((64, 6))
    window[:, :3], window[:, 3:] = [0.0, 0.0, 1.0], [0.0, 3.0, 3.0]
    cutter = Windower(MOTION, {}, WindowSettings(("angle",), length=64), motion())
    X, _ = cutter.transform(window, np.zeros(64, dtype=np.int64))
    found = dict(zip([feature.name for feature in cutter.features()], X[0], strict=True))
    expected = {"gyro_angle": np.pi / 4, "gravity_x_angle": np.pi / 2, "gravity_z_angle": 0.0}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name
    assert len(found) == 7


def test_overlap_is_refused_or_counted() -> None:
    with pytest.raises(DataError, match=r"step 64 is below dataset.length 128: .* in 2 records; set step=128"):
        WindowSettings("standard", length=128, step=64)
    assert WindowSettings("standard", length=128, step=64, overlap="count").records_per_sample == 2
    assert WindowSettings("standard", length=100, step=30, overlap="count").records_per_sample == 4
    assert WindowSettings("standard", length=128).records_per_sample == 1
    assert WindowSettings("raw", length=128, step=64).records_per_sample == 1


@given(st.integers(8, 40), st.integers(1, 50))
def test_no_sample_is_in_more_windows_than_counted(length: int, step: int) -> None:
    windows, _ = cut(np.arange(200.0)[:, None], np.zeros(200, dtype=np.int64), length, step)
    touched = np.bincount(windows.astype(int).ravel(), minlength=200)
    allowed = WindowSettings("standard", length=length, step=step, overlap="count").records_per_sample
    assert touched.max() <= allowed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": "standart"}, "'standart' is unknown: did you mean 'standard'"),
        ({"features": ["mean", "meen"]}, "'meen' is unknown: did you mean 'mean'"),
        ({"features": []}, "must be raw"),
        ({"features": 7}, "dataset.features 7 must be raw"),
        ({"length": 4}, "dataset.length 4 must be a whole number, at least 8"),
        ({"length": 50.0}, "dataset.length 50.0 must be a whole number"),
        ({"step": 0}, "dataset.step 0"),
        ({"overlap": "allow"}, "dataset.overlap 'allow' is unknown"),
        ({"out_of_bounds": "clib"}, "did you mean 'clip'"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        WindowSettings(**wrong)

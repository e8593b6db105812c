"""Numbers, conditions and leaf values as text, with the units of the schema."""

from __future__ import annotations

import numpy as np

from dpforest.errors import InvalidForest, printable
from dpforest.forest import Forest
from dpforest.schema import Feature

_PARTS = "leaves of {!r} are parts of a sum; only averaging trees can be read alone"


def number(x: float) -> str:
    """Four digits, and no exponent for numbers that people write without."""
    return f"{x:.0f}" if 1e4 <= abs(x) < 1e9 else f"{x:.4g}"


def with_unit(x: float, unit: str) -> str:
    """A number and its unit."""
    return f"{number(x)} {printable(unit)}" if unit else number(x)


def cell(feature: Feature, value: float) -> str:
    """A row's own value with its unit, or that there is none."""
    missing = feature.has_branch and value <= feature.missing_cut
    return "missing" if missing else with_unit(value, feature.unit)


def at_most(feature: Feature, high: float) -> str:
    """Words for ``x <= high``."""
    return f"{printable(feature.name)} <= {with_unit(high, feature.unit)}"


def condition(feature: Feature, low: float, high: float) -> str:
    """Words for ``low < x <= high`` of a number, where an infinite side says nothing."""
    name = printable(feature.name)
    if feature.has_branch:
        if high < feature.low:
            return f"{name} is missing"
        if low < feature.low:
            or_missing = " or missing" if low < feature.missing_value else ""
            return f"{at_most(feature, high)}{or_missing}" if np.isfinite(high) else f"{name} is not missing"
    if np.isinf(low):
        return at_most(feature, high)
    if np.isinf(high):
        return f"{name} > {with_unit(low, feature.unit)}"
    return f"{number(low)} < {name} <= {with_unit(high, feature.unit)}"


def question(forest: Forest, asked: int, low: float, high: float) -> str:
    """Words for ``low < x <= high`` of what a node asks: a feature of the schema, or one of the forest's sets."""
    number = asked - forest.schema.n_features
    if number >= 0:
        column, values = forest.categories_of(number)
    else:
        feature = forest.schema.features[asked]
        if feature.name not in forest.schema.indicators:
            return condition(feature, low, high)
        column, value = forest.schema.indicators[feature.name]
        values = (value,)
    column, values = printable(column), tuple(map(printable, values))
    listed = f"{', '.join(values[:-1])} or {values[-1]}" if len(values) > 1 else values[0]
    return f"{column} is {listed}" if low >= 0 else f"{column} is not {listed}"


def outcome(forest: Forest, value: np.ndarray) -> str:
    """Words for a node's value, shape (n_outputs,): "68 Wh", or "walking (72 %)".

    Raises
    ------
    InvalidForest
        The forest's leaves hold parts of a sum, which say nothing by themselves.
    """
    if forest.schema.is_classification:
        if forest.output not in ("probability", "score"):
            raise InvalidForest(_PARTS.format(forest.output))
        best = int(np.argmax(value))
        if forest.output == "score":
            return f"{printable(forest.schema.classes[best])} (score {value[best]:.2f})"
        return f"{printable(forest.schema.classes[best])} ({100 * value[best]:.0f} %)"
    if forest.output != "target":
        raise InvalidForest(_PARTS.format(forest.output))
    return with_unit(float(value[0]), forest.schema.target_unit)


def addition(forest: Forest, value: np.ndarray) -> str:
    """Words for a leaf whose value, shape (n_outputs,), is a part of a sum.

    For instance "add 2.5 Wh", or "add 0.3 to the logit of walking".
    """
    if not forest.schema.is_classification:
        return f"add {with_unit(float(value[0]), forest.schema.target_unit)}"
    most = int(np.argmax(np.abs(value)))
    return f"add {number(value[most])} to the logit of {printable(forest.schema.classes[most])}"


def records(weight: float) -> str:
    """Estimated number of records in words."""
    rounded = round(weight)
    return "about 1 record" if rounded == 1 else f"about {rounded} records"

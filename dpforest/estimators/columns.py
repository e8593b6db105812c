"""What a data frame's columns are, from parameters where they say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpforest.cells import NA_VALUES, Column, NaValues, column_of
from dpforest.errors import SchemaError
from dpforest.schema import apart, few

Leak = Callable[[str, str, list[str]], None]


def is_frame(X: Any) -> bool:
    """Whether rows come with columns that all have names, as in a data frame of pandas or polars."""
    columns = getattr(X, "columns", None)
    return columns is not None and hasattr(X, "__getitem__") and all(isinstance(name, str) for name in columns)


def frame_features(X: Any, bounds: Any, categories: Any, leak: Leak) -> list[dict[str, Any]]:
    """The columns of a data frame as the features of a schema file.

    Parameters
    ----------
    X : data frame
    bounds : mapping of column name to (low, high), sequence of (low, high), or None
        Of the numeric columns.
    categories : mapping of column name to sequence, or None
        Values of the others.
    leak : callable
        Called with the kind of fact, the parameter that would have said it, and the columns, where the data are asked
        instead.
    """
    names = [str(name) for name in X.columns]
    if categories is not None and not isinstance(categories, Mapping):
        raise SchemaError(f"categories must be a mapping of column name to values, got {type(categories).__name__}")
    listed = {name: column_of(list(values)).text() for name, values in (categories or {}).items()}
    if unknown := [name for name in listed if name not in names]:
        raise SchemaError(f"categories name {unknown[0]!r}, which is no column; the columns are {few(names)}")
    columns = {name: column_of(X[name]) for name in names if name not in listed}
    if unread := [name for name, column in columns.items() if not column.holds_numbers and not _is_category(X[name])]:
        raise SchemaError(
            f"column {unread[0]!r} holds dates, times or lists, which are neither numbers nor categories: leave it "
            "out, or make numbers of it first"
        )
    bounded = set(bounds) if isinstance(bounds, Mapping) else set()
    words = [name for name in columns if name not in bounded and not _is_numeric(X[name], columns[name])]
    if words and categories is not None:
        raise SchemaError(
            f"column {words[0]!r} holds text: name its values (categories={{{words[0]!r}: [...]}}), or give it bounds"
        )
    if words:
        leak(f"categories of the columns {few(words)}", "categories", words)
        listed |= {name: _values(columns[name], X[name]) for name in words}
    numeric = [name for name in names if name not in listed]
    truth = [name for name in numeric if str(X[name].dtype).lower().startswith("bool")]
    if isinstance(bounds, Mapping):
        bounds = {**dict.fromkeys(truth, (0, 1)), **bounds}
    if bounds is None and set(numeric) <= set(truth):
        bounds = dict.fromkeys(truth, (0, 1))
    if bounds is None:
        leak("bounds of the features", "bounds", numeric)
        pairs = [data_bounds(name, columns[name].numbers()) for name in numeric]
    else:
        pairs = bounds_of(bounds, numeric)
    items = [{"name": name, "low": low, "high": high} for name, (low, high) in zip(numeric, pairs, strict=True)]
    return items + [{"name": name, "categories": values} for name, values in listed.items()]


def _is_category(cells: Any) -> bool:
    return str(getattr(cells, "dtype", "")) == "category"


def _is_numeric(cells: Any, column: Column) -> bool:
    if _is_category(cells):
        return False
    numbers = column.numbers() if column.holds_numbers else np.empty(0)
    return column.holds_numbers and not np.isnan(numbers[~NaValues(NA_VALUES).among_numbers(column, numbers)]).any()


def _values(column: Column, cells: Any) -> list[str]:
    declared = getattr(getattr(cells, "dtype", None), "categories", None)
    if declared is not None and hasattr(declared, "tolist"):
        return column_of(declared.tolist()).text()
    text = column.text()
    missing = NaValues(NA_VALUES).among_text(text)
    return sorted({cell for cell, gap in zip(text, missing, strict=True) if not gap})


def data_bounds(name: str, values: np.ndarray) -> tuple[float, float]:
    """Bounds of a column by its own finite numbers."""
    values = values[np.isfinite(values)]
    if not len(values):
        raise SchemaError(
            f"column {name!r} holds no number at all: give its bounds (or its categories), or leave it out"
        )
    return apart(float(values.min()), float(values.max()))


def bounds_of(bounds: Any, names: list[str]) -> list[tuple[float, float]]:
    """One (low, high) a column, in the order of ``names``."""
    if isinstance(bounds, Mapping):
        if unknown := [name for name in bounds if name not in names]:
            raise SchemaError(f"bounds name {unknown[0]!r}, which is no numeric column; those are {few(names)}")
        if missing := [name for name in names if name not in bounds]:
            raise SchemaError(f"bounds lack column {missing[0]!r}: give (low, high) for every column")
        bounds = [bounds[name] for name in names]
    try:
        array = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"bounds must be one (low, high) a column: {error}") from error
    if array.shape != (len(names), 2):
        if not names and not array.size:
            return []
        raise SchemaError(f"bounds have shape {array.shape}, expected one (low, high) for each of {len(names)} columns")
    return [(low, high) for low, high in array.tolist()]

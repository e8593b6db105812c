"""The schema: everything that is public about a table before its data is seen.

Growers and mechanisms take their limits from here and never from the data, so that names,
units, bounds, classes and the order of magnitude of the row count release nothing.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dpforest.cells import MISSING, NA_VALUES, OTHER, Missing, NaValues, Table, column_of
from dpforest.errors import SchemaError
from dpforest.texts import BadText, check_plain, parse_yaml

GridScale = Literal["linear", "signed_sqrt"]
# Rows and thresholds are in single precision, 24 bits: a range of at least this share of its larger end holds 512
# numbers or more, twice as many as the finest grid has cells. The absolute limits keep products, quotients and squares
# of such numbers away from infinity and from numbers of fewer digits.
_LEAST_SHARE = 2.0**-14
_LARGEST, _NARROWEST = 2.0**126, 2.0**-100
MOST_ROWS = 10**12
# Of a column, where codes travel and are counted as one byte; the last is for a record that has no value of it.
MOST_CATEGORIES = 254
FROM_DATA = "the schema says so (from_data)"
"""Why a ledger has a line with a schema's `leak`."""
MOST_CLASSES = MOST_FEATURES = 1 << 16


def least_width(largest: Any) -> Any:
    """How far apart the ends of a range must be whose larger end has this size."""
    return np.maximum(_NARROWEST, _LEAST_SHARE * largest)


def apart(low: float, high: float) -> tuple[float, float]:
    """The ends of some data as a range that a schema can have, wider where they are all but equal."""
    size = max(abs(low), abs(high))
    margin = 0.0 if high - low >= least_width(size) else 0.5 * max(size, 1.0)
    return low - margin, high + margin


def check_range(name: str, low: float, high: float) -> None:
    """Refuse a public range that single precision cannot divide finely.

    Whatever is computed from numbers inside an accepted range is finite: somebody else may have chosen it, and no
    proof about rounded sums holds for NaN.

    Raises
    ------
    SchemaError
        The ends are not finite, not in order, too large, or too close together.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SchemaError(f"{name} [{low}, {high}] must be finite with low < high")
    largest = max(abs(low), abs(high))
    if largest > _LARGEST:
        raise SchemaError(
            f"{name} [{low:g}, {high:g}] must fit single precision (at most {_LARGEST:.3g}): rescale the column"
        )
    if high - low < least_width(largest):
        raise SchemaError(
            f"{name} [{low!r}, {high!r}] must be at least {_LEAST_SHARE:.2g} times its larger end apart (and "
            f"{_NARROWEST:.2g}), or single precision cannot divide it: shift or rescale the column"
        )


@dataclass(frozen=True)
class Feature:
    """One numeric column with public bounds.

    Parameters
    ----------
    name : str
        Column name.
    low, high : float
        Public bounds in the unit of the column, ``low < high``.
    unit : str
        Physical unit, for people (rules, reports).
    scale : {"linear", "signed_sqrt"}
        How the public threshold grid is spaced: evenly in ``x``, or evenly in
        ``sign(x - centre) * sqrt(|x - centre|)``, which is denser near ``centre``.
    centre : float
        Where a ``signed_sqrt`` grid is densest.
    missing : {"refuse", "drop", "branch"}
        What is done about a row whose cell has no value: it is refused, left out, or the cell is a number of its own,
        `missing_value`, below all others. Then it goes left wherever a tree asks about the column, and one question
        more is asked, whether it is missing.
    """

    name: str
    low: float
    high: float
    unit: str = ""
    scale: GridScale = "linear"
    centre: float = 0.0
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        check_range(f"feature {self.name!r}: bounds", self.low, self.high)
        _check_missing(self.missing, f"feature {self.name!r}: missing")
        if self.has_branch:
            check_range(f"feature {self.name!r}: the number for missing cells and the upper bound", self.missing_value,
                        self.high)  # fmt: skip
        if self.scale not in ("linear", "signed_sqrt"):
            raise SchemaError(f"feature {self.name!r}: scale {self.scale!r} must be 'linear' or 'signed_sqrt'")
        if not math.isfinite(self.centre):
            raise SchemaError(f"feature {self.name!r}: centre {self.centre} must be finite")
        if abs(self.centre) > _LARGEST:
            raise SchemaError(f"feature {self.name!r}: centre {self.centre:g} must be at most {_LARGEST:.3g} in size")
        if self.scale == "signed_sqrt":
            name = f"feature {self.name!r}: bounds on the signed_sqrt scale around centre {self.centre:g}"
            check_range(name, self._stretch(self.low), self._stretch(self.high))

    @property
    def has_branch(self) -> bool:
        """Whether a missing cell is a number of its own."""
        return self.missing == "branch"

    @property
    def missing_value(self) -> float:
        """What stands for a missing cell under ``missing="branch"``: as far below ``low`` as ``high`` is above.

        A float32 number, and public: it follows from the bounds alone.
        """
        return float(np.float32(self.low - (self.high - self.low)))

    @property
    def missing_cut(self) -> float:
        """The threshold that tells a missing cell from all others: a float32 number halfway to ``low``."""
        return float(np.float32(self.low - (self.high - self.low) / 2))

    def at(self, position: np.ndarray) -> np.ndarray:
        """Values that lie so far between the bounds, 0 to 1, along the scale: float32 numbers, as float64."""
        low, high = self._stretch(self.low), self._stretch(self.high)
        values = np.clip(self._shrink(low + np.asarray(position) * (high - low)), self.low, self.high)
        return values.astype(np.float32).astype(np.float64)

    def grid(self, bins: int) -> np.ndarray:
        """Thresholds that cut ``[low, high]`` into ``bins`` public bins, or into one less behind `missing_cut`.

        Returns
        -------
        ndarray of float64, shape (bins - 1,)
            In the unit of the column, increasing but where two cuts are one number in single precision, which
            happens near the centre of a ``signed_sqrt`` grid. Nothing lies between two equal cuts: they are one
            candidate under two names, which costs no privacy. Each value is a float32 number, as rows are
            (`Schema.check_matrix`), so that whoever compares them finds the same side.
        """
        low, high = self._stretch(self.low), self._stretch(self.high)
        cuts = self._shrink(np.linspace(low, high, bins + 1 - self.has_branch)[1:-1])
        first = [self.missing_cut] if self.has_branch else []
        return np.concatenate([first, cuts]).astype(np.float32).astype(np.float64)

    def grid_with_tails(self, bins: int) -> np.ndarray:
        """`grid` with more thresholds where columns of people's tables crowd: at both bounds, and around zero.

        The added ones halve their distance to a bound (or to zero, where it lies inside) again and again, so that a
        column whose cells are nearly all small, with few that are large, is cut where its records are.

        Returns
        -------
        ndarray of float64, shape (n_thresholds,)
            Strictly increasing float32 numbers, at most ``bins + 31``; public, as it follows from the bounds alone.
        """
        low, high = self._stretch(self.low), self._stretch(self.high)
        width = high - low
        if self.scale == "linear" and low < 0 < high:
            near = width * 0.5 ** np.arange(6, 14)
            tails = np.concatenate([near, -near, low + near, high - near])
        else:
            near = width * 0.5 ** (np.arange(11, 27) / 2)
            tails = np.concatenate([low + near, high - near])
        inside = tails[(tails > low) & (tails < high)]
        cuts = np.concatenate([self.grid(bins), self._shrink(inside)]).astype(np.float32).astype(np.float64)
        return np.unique(cuts)

    def _stretch(self, x: float) -> float:
        if self.scale == "linear":
            return x
        return math.copysign(math.sqrt(abs(x - self.centre)), x - self.centre)

    def _shrink(self, t: np.ndarray) -> np.ndarray:
        return t if self.scale == "linear" else np.sign(t) * t * t + self.centre


@dataclass(frozen=True)
class Schema:
    """The public description of a table.

    Parameters
    ----------
    features : tuple of Feature
        The numeric columns, in the order of the matrix.
    target : str
        Name of the target column.
    classes : tuple of str
        The public class list of a classification; empty for a regression.
    target_range : (float, float) or None
        Public bounds of a regression target; None for a classification.
    target_unit : str
        Unit of a regression target.
    rows : int or None
        Public order of magnitude of the rows of one client. Settings that depend on the amount
        of data use it, never the true number.
    categories : mapping of str to tuple of str
        Categorical source columns and their public values. Each value is one 0/1 feature named
        ``column=value``; see `from_dict`.
    missing_categories : mapping of str to {"refuse", "drop", "branch"}
        What is done about missing cells of categorical columns; refused where it says nothing. With a branch they have
        the value ``missing``.
    other : tuple of str
        Categorical columns with a value ``other``, which stands for all that they do not list.
    missing_target : {"refuse", "drop"}
        What is done about rows without a target.
    na_values : tuple of str
        What counts as missing in a table, in any case of letters, unless it is a category; an empty cell always does.
    from_data : tuple of str
        Columns, and the target, of which bounds, categories, classes or range were read off data. Then they are not
        public, and whatever is trained under the schema has no guarantee: see `leak`.
    """

    features: tuple[Feature, ...]
    target: str = "target"
    classes: tuple[str, ...] = ()
    target_range: tuple[float, float] | None = None
    target_unit: str = ""
    rows: int | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing_categories: Mapping[str, Missing] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    missing_target: Missing = "refuse"
    na_values: tuple[str, ...] = NA_VALUES
    from_data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if not names:
            raise SchemaError("the schema has no features; name at least one")
        if len(names) > MOST_FEATURES or len(self.classes) > MOST_CLASSES:
            raise SchemaError(
                f"{len(names)} features and {len(self.classes)} classes: at most {MOST_FEATURES} and {MOST_CLASSES}, "
                "where each category is a feature"
            )
        if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
            raise SchemaError(f"the schema names {', '.join(repeated)} more than once")
        if self.target in names:
            raise SchemaError(f"the target {self.target!r} is also a feature")
        if bool(self.classes) == (self.target_range is not None):
            raise SchemaError("give either classes (classification) or target_range (regression)")
        if self.classes and len(self.classes) < 2:
            raise SchemaError(f"classes {list(self.classes)}: a classification needs at least two")
        if len(set(self.classes)) != len(self.classes):
            raise SchemaError(f"classes {list(self.classes)} must differ from each other")
        if self.target_range is not None:
            check_range("target_range", *self.target_range)
        if self.rows is not None and not 1 <= self.rows <= MOST_ROWS:
            raise SchemaError(f"rows {self.rows}: the public order of magnitude must lie from 1 to {MOST_ROWS:g}")
        self._check_categories()
        _check_from_data(self.from_data, [*self.columns, self.target])

    def _check_categories(self) -> None:
        if self.missing_target not in ("refuse", "drop"):
            raise SchemaError(
                f"missing_target {self.missing_target!r} must be 'refuse' or 'drop': nothing can be learned from it"
            )
        for column, rule in self.missing_categories.items():
            _check_missing(rule, f"feature {column!r}: missing")
        needed = [(column, OTHER) for column in self.other]
        needed += [(column, MISSING) for column, rule in self.missing_categories.items() if rule == "branch"]
        for column, value in needed:
            if value not in self.categories.get(column, ()):
                raise SchemaError(f"feature {column!r} has no category {value!r}, which its rules need")
        if self.na_values == NA_VALUES:
            return
        words = NaValues(self.na_values)
        for column, values in [*self.categories.items(), (self.target, self.classes)]:
            for value in np.array(values, dtype=object)[words.among_text(values)]:
                if value not in (MISSING, OTHER):
                    raise SchemaError(
                        f"{value!r} is a value of {column!r} and among na_values too: take it out of one of them"
                    )

    @property
    def leak(self) -> str:
        """What is not public about the schema, and what to do about it, for ledgers and errors; empty if all is."""
        if not self.from_data:
            return ""
        return (
            f"bounds, categories or classes of {few(self.from_data)} were read off data: write public ones into the "
            "schema and take these names out of its from_data"
        )

    @property
    def is_classification(self) -> bool:
        """Whether the target is a class."""
        return bool(self.classes)

    @property
    def n_features(self) -> int:
        """Number of columns of the matrix."""
        return len(self.features)

    @property
    def n_outputs(self) -> int:
        """Width of a leaf value: the number of classes, or 1 for a regression."""
        return len(self.classes) or 1

    @property
    def feature_names(self) -> list[str]:
        """Column names in matrix order."""
        return [feature.name for feature in self.features]

    @property
    def low(self) -> np.ndarray:
        """Lower bounds, shape (n_features,)."""
        return np.array([feature.low for feature in self.features])

    @property
    def high(self) -> np.ndarray:
        """Upper bounds, shape (n_features,)."""
        return np.array([feature.high for feature in self.features])

    def grid(self, bins: int) -> list[np.ndarray]:
        """Public thresholds of each feature, shape (bins - 1,) each; see `Feature.grid`."""
        return [feature.grid(bins) for feature in self.features]

    def grid_position(self, X: np.ndarray) -> np.ndarray:
        """Where each cell lies between its bounds, 0 to 1, on the scale that spaces the feature's grid.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Inside the bounds, or missing cells, which lie at 0.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_features)
            Finite, since `Feature` refuses bounds that are one number on that scale.
        """
        centre = np.array([feature.centre for feature in self.features])
        bent = np.array([feature.scale == "signed_sqrt" for feature in self.features])

        def stretched(x: np.ndarray) -> np.ndarray:
            return np.where(bent, np.sign(x - centre) * np.sqrt(np.abs(x - centre)), x)

        low, high = stretched(self.low), stretched(self.high)
        return np.clip((stretched(np.asarray(X, dtype=np.float64)) - low) / (high - low), 0, 1)

    def with_rows(self, rows: int | None) -> Schema:
        """The same schema with another public order of magnitude of rows."""
        return replace(self, rows=rows)

    def check_matrix(self, X: Any, out_of_bounds: Literal["clip", "refuse"] = "clip") -> tuple[np.ndarray, int]:
        """Hold a matrix against the schema, and round it to single precision.

        Here and nowhere else: training, prediction, explanations and exported models then compare the same numbers
        with the same thresholds.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Finite numbers. Of a feature with ``missing="branch"`` NaN, or its ``missing_value``, is a missing cell.
        out_of_bounds : {"clip", "refuse"}
            What to do with a cell outside its feature's bounds.

        Returns
        -------
        X : ndarray of float32, shape (n_rows, n_features)
            A copy inside the bounds, but for missing cells, which are their feature's ``missing_value``.
        clipped : int
            Number of cells that were clipped. It depends on the data: keep it local.

        Raises
        ------
        SchemaError
            Wrong shape, infinite cells, NaN in a feature without a branch, or cells out of bounds under ``"refuse"``.
        """
        inside, clipped = self.clip(X, out_of_bounds)
        return self.to_single(inside), clipped

    def check_target(self, y: np.ndarray) -> np.ndarray:
        """Targets of somebody else: class indices, or numbers inside the target's range up to single precision.

        Raises
        ------
        SchemaError
            One is outside the schema.
        """
        if self.target_range is None:
            sound = y.dtype.kind in "iu" and bool(((y >= 0) & (y < len(self.classes))).all())
        else:
            # A bound may have been rounded, or not, on the other side.
            low = min(self.target_range[0], float(np.float32(self.target_range[0])))
            high = max(self.target_range[1], float(np.float32(self.target_range[1])))
            sound = y.dtype.kind in "iuf" and bool(((y >= low) & (y <= high)).all())
        if not sound:
            raise SchemaError("a target is outside the schema")
        return y

    @property
    def missing_values(self) -> np.ndarray:
        """What stands for a missing cell of each feature, shape (n_features,); NaN where nothing does."""
        return np.array([f.missing_value if f.has_branch else np.nan for f in self.features])

    def to_single(self, X: np.ndarray) -> np.ndarray:
        """Cells inside the bounds, or missing ones, as float32 cells of the same kind.

        Rounding to the nearest float32 may step over a bound, so the bounds are rounded inwards.
        """
        low, high = self.low.astype(np.float32), self.high.astype(np.float32)
        low = np.where(low < self.low, np.nextafter(low, np.float32(np.inf)), low)
        high = np.where(high > self.high, np.nextafter(high, np.float32(-np.inf)), high)
        single = np.ascontiguousarray(X, dtype=np.float32)
        return self._held(single, low, high)

    def _held(self, X: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """A copy with cells between ``low`` and ``high``, but for missing ones."""
        inside = np.clip(X, low, high)
        for feature in self.gaps:
            missing = X[:, feature] == self.features[feature].missing_value
            inside[missing, feature] = self.features[feature].missing_value
        return inside

    def clip(self, X: Any, out_of_bounds: Literal["clip", "refuse"] = "clip") -> tuple[np.ndarray, int]:
        """`check_matrix` without the rounding, for raw signals from which rows are still to be made: float64."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise SchemaError(f"expected a matrix of {self.n_features} columns, got shape {X.shape}")
        gaps = np.isnan(X) & [f.has_branch for f in self.features]
        if gaps.any():
            X = np.where(gaps, self.missing_values, X)
        if not np.isfinite(X).all():
            row, column = np.argwhere(~np.isfinite(X))[0]
            raise SchemaError(
                f"column {self.feature_names[column]!r} row {row} is {X[row, column]}: drop or fill such rows first, "
                "or say in the schema what to do about missing cells (missing: branch)"
            )
        inside = self._held(X, self.low, self.high)
        outside = inside != X
        clipped = int(outside.sum())
        if clipped and out_of_bounds == "refuse":
            row, column = np.argwhere(outside)[0]
            feature = self.features[column]
            raise SchemaError(
                f"column {feature.name!r} row {row} is {X[row, column]:g}, outside "
                f"[{feature.low:g}, {feature.high:g}]: widen the bounds or set out_of_bounds=clip"
            )
        return inside, clipped

    @property
    def numeric_features(self) -> np.ndarray:
        """Positions of the features that are no category's 0/1 column."""
        return np.array([i for i, name in enumerate(self.feature_names) if name not in self.indicators], dtype=np.int64)

    @property
    def numeric_columns(self) -> list[str]:
        """Names of the `numeric_features`."""
        return [self.features[f].name for f in self.numeric_features]

    @property
    def category_features(self) -> list[np.ndarray]:
        """Features that are the values of each categorical column, in the order of `categories`."""
        position = {name: index for index, name in enumerate(self.feature_names)}
        return [
            np.array([position[f"{column}={value}"] for value in values]) for column, values in self.categories.items()
        ]

    def category_positions(self, X: np.ndarray) -> list[np.ndarray]:
        """Which value each row has of each categorical column, in the order of `categories`.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)

        Returns
        -------
        list of ndarray of int64, shape (n_rows,)
            Its place among the column's values, and one more than the last where a row has none of them.
        """
        found = []
        for features in self.category_features:
            has = X[:, features] > 0.5
            found.append(np.where(has.any(axis=1), has.argmax(axis=1), len(features)))
        return found

    @cached_property
    def gaps(self) -> np.ndarray:
        """Positions of the features that have a branch for missing cells, ascending."""
        return np.flatnonzero([feature.has_branch for feature in self.features])

    @cached_property
    def indicators(self) -> dict[str, tuple[str, str]]:
        """Of each feature that is a category's 0/1 column, by name: the column and its value that it stands for."""
        return {f"{c}={value}": (c, value) for c, values in self.categories.items() for value in values}

    @property
    def missing_rules(self) -> dict[str, Missing]:
        """What is done about missing cells of each of the `columns`."""
        numeric = {self.features[f].name: self.features[f].missing for f in self.numeric_features}
        return numeric | {column: self.missing_categories.get(column, "refuse") for column in self.categories}

    @property
    def columns(self) -> list[str]:
        """Columns of a table in the form that people keep: a categorical one is one column."""
        return self.numeric_columns + list(self.categories)

    def matrix(self, table: Mapping[str, Any], by_schema: bool = True) -> np.ndarray:
        """The matrix of a table, found by the names of its columns and never by their positions.

        Parameters
        ----------
        table : mapping of str to array-like of shape (n_rows,)
            For instance a pandas DataFrame; columns that the schema does not know are not looked at.
        by_schema : bool
            See `Reading.problem`.

        Returns
        -------
        ndarray of float32, shape (n_rows, n_features)
            By `check_matrix`, clipped to the bounds.

        Raises
        ------
        SchemaError
            A column is missing, a cell is no finite number, or a category is unknown; also where a row is to be left
            out (``missing: drop``), since the others would change their positions: see `read`.
        """
        read = self.read(table)
        everything = np.ones(len(read.readings[0].values), dtype=bool)
        if found := read.problem(everything):
            row, reading = found
            cell = column_of(table[reading.name]).take(np.array([row])).text()[0]
            raise SchemaError(f"row {row}: {reading.problem(row, cell, by_schema)}")
        return self.check_matrix(read.matrix(everything))[0]

    def read(self, table: Mapping[str, Any]) -> Table:
        """The cells of a table by the schema's rules: which rows fit, which are left out, which cells are missing.

        Parameters
        ----------
        table : mapping of str to array-like of shape (n_rows,)
            As for `matrix`.

        Raises
        ------
        SchemaError
            A column is missing, or columns differ in length.
        """
        for name in self.columns:
            if name not in table:
                others = {str(key).casefold(): key for key in table}
                near = difflib.get_close_matches(name.casefold(), others, n=1)
                hint = f" (is it {others[near[0]]!r}?)" if near else ""
                needed = ", ".join(self.columns)
                raise SchemaError(f"column {name!r} is missing{hint}: columns are matched by name, needed are {needed}")
        read = Table(self, {name: column_of(table[name]) for name in self.columns})
        lengths = {reading.name: len(reading.values) for reading in read.readings}
        if len(set(lengths.values())) > 1:
            raise SchemaError(f"the columns differ in their numbers of rows: {lengths}")
        return read

    def encode_classes(self, y: Any) -> np.ndarray:
        """Class names to indices into `classes`.

        Returns
        -------
        ndarray of int64, shape (n_rows,)

        Raises
        ------
        SchemaError
            A label is not in the class list.
        """
        lookup = {name: index for index, name in enumerate(self.classes)}
        labels = [str(label) for label in np.asarray(y).tolist()]
        if unknown := sorted({label for label in labels if label not in lookup}):
            raise SchemaError(
                f"target {self.target!r} holds {unknown[0]!r}, which is not among the classes "
                f"{list(self.classes)}: add it to the schema or drop these rows"
            )
        return np.array([lookup[label] for label in labels], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the form of a schema file; `from_dict` reads it back."""
        plain: dict[str, Any] = {"target": self.target}
        if self.classes:
            plain["classes"] = list(self.classes)
        if self.target_range is not None:
            plain["target_range"] = list(self.target_range)
            plain["target_unit"] = self.target_unit
        if self.rows is not None:
            plain["rows"] = self.rows
        if self.missing_target != "refuse":
            plain["missing_target"] = self.missing_target
        if self.na_values != NA_VALUES:
            plain["na_values"] = list(self.na_values)
        if self.from_data:
            plain["from_data"] = list(self.from_data)
        plain["features"] = [_with_rules(asdict(self.features[f]), self.features[f].missing)
                             for f in self.numeric_features]  # fmt: skip
        plain["features"] += [
            _with_rules({"name": c, "categories": list(v)}, self.missing_categories.get(c, "refuse"), c in self.other)
            for c, v in self.categories.items()
        ]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """Build a schema from plain data (a parsed YAML or JSON file).

        Raises
        ------
        SchemaError
            A key is unknown, missing or of the wrong kind.
        """
        if not isinstance(plain, Mapping):
            raise SchemaError(f"schema: expected a mapping with features and a target, got {type(plain).__name__}")
        try:
            check_plain(plain)
        except BadText as error:
            raise SchemaError(f"schema: {error}") from error
        allowed = {"features", "target", "classes", "target_range", "target_unit", "rows"}
        _refuse_unknown(plain, allowed | {"missing", "missing_target", "na_values", "from_data"}, "schema")
        everywhere = plain.get("missing", "refuse")
        _check_missing(everywhere, "missing")
        features: list[Feature] = []
        categories: dict[str, tuple[str, ...]] = {}
        missing: dict[str, Missing] = {}
        other: list[str] = []
        for item in _sequence(plain.get("features"), "features"):
            if not isinstance(item, Mapping) or "name" not in item:
                raise SchemaError(f"feature {item!r}: expected a mapping with a name")
            name = str(item["name"])
            rule = item.get("missing", everywhere)
            if "categories" in item:
                _refuse_unknown(item, {"name", "categories", "missing", "other"}, f"feature {name!r}")
                has_other = item.get("other", False)
                if not isinstance(has_other, bool):
                    raise SchemaError(f"feature {name!r}: other {has_other!r} must be true or false")
                categories[name] = _categories(item, name, rule, has_other)
                if rule != "refuse":
                    missing[name] = rule
                other += [name] if has_other else []
                continue
            _refuse_unknown(item, set(Feature.__dataclass_fields__), f"feature {item['name']!r}")
            if "low" not in item or "high" not in item:
                raise SchemaError(
                    f"feature {item['name']!r}: give public bounds low and high (or categories); "
                    "they must not come from the data"
                )
            features.append(
                Feature(
                    name=str(item["name"]),
                    low=_number(item["low"], f"feature {item['name']!r}: low"),
                    high=_number(item["high"], f"feature {item['name']!r}: high"),
                    unit=str(item.get("unit", "")),
                    scale=item.get("scale", "linear"),
                    centre=_number(item.get("centre", 0.0), f"feature {item['name']!r}: centre"),
                    missing=rule,
                )
            )
        features += [Feature(f"{c}={value}", 0.0, 1.0) for c, values in categories.items() for value in values]
        target_range = plain.get("target_range")
        if target_range is not None:
            low_high = [_number(v, "target_range") for v in _sequence(target_range, "target_range")]
            if len(low_high) != 2:
                raise SchemaError(f"target_range {target_range!r}: expected [low, high]")
            target_range = (low_high[0], low_high[1])
        rows = plain.get("rows")
        target = str(plain.get("target", "target"))
        names = [*(str(item["name"]) for item in plain["features"]), target]
        return cls(
            features=tuple(features),
            target=target,
            classes=tuple(_name(name, "classes") for name in _sequence(plain.get("classes", []), "classes")),
            target_range=target_range,
            target_unit=str(plain.get("target_unit", "")),
            rows=None if rows is None else _whole(rows, "rows"),
            categories=categories,
            missing_categories=missing,
            other=tuple(other),
            missing_target=plain.get("missing_target", "drop" if everywhere == "drop" else "refuse"),
            na_values=_na_values(plain.get("na_values")),
            from_data=_from_data(plain.get("from_data", False), names),
        )

    @classmethod
    def from_yaml(cls, path: str | Path) -> Schema:
        """Read a schema file.

        Raises
        ------
        SchemaError
            The file is missing, is no YAML, or is no valid schema.
        """
        try:
            plain = parse_yaml(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SchemaError(f"no schema file at {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"{path} cannot be read as a text file: {error}") from error
        except BadText as error:
            raise SchemaError(f"{path} is {error}") from error
        except ValueError as error:
            raise SchemaError(f"{str(path)!r} is no path: {error}") from error
        if not isinstance(plain, Mapping):
            raise SchemaError(f"{path}: expected a mapping with features and a target")
        try:
            return cls.from_dict(plain)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from error


def _check_missing(rule: Any, where: str) -> None:
    if not isinstance(rule, str) or rule not in get_args(Missing):
        raise SchemaError(f"{where} {rule!r} must be one of {', '.join(get_args(Missing))}")


def few(names: Sequence[str]) -> str:
    """The first of many names."""
    return ", ".join(names[:5]) + (f", ... ({len(names)})" if len(names) > 5 else "")


def _from_data(given: Any, names: list[str]) -> tuple[str, ...]:
    if isinstance(given, bool):
        return tuple(names) if given else ()
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise SchemaError(f"from_data {given!r} must be true, false or a list of columns")
    return tuple(_name(name, "from_data") for name in given)


def _check_from_data(read: Sequence[str], names: list[str]) -> None:
    known = set(names)
    if unknown := [name for name in read if name not in known]:
        near = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f" (is it {near[0]!r}?)" if near else ""
        raise SchemaError(f"from_data names {unknown[0]!r}, which is neither a column nor the target{hint}")
    if len(set(read)) != len(read):
        raise SchemaError("from_data names a column more than once")


def _with_rules(item: dict[str, Any], missing: Missing, other: bool = False) -> dict[str, Any]:
    """A feature's item of a schema file with its rules, where they are not the usual ones."""
    item.pop("missing", None)
    return item | ({} if missing == "refuse" else {"missing": missing}) | ({"other": True} if other else {})


def _categories(item: Mapping[str, Any], name: str, rule: Any, has_other: bool) -> tuple[str, ...]:
    """Values of a categorical column, those for other and for missing cells behind the ones that are listed."""
    _check_missing(rule, f"feature {name!r}: missing")
    listed = [_name(value, "categories") for value in _sequence(item["categories"], f"feature {name!r}: categories")]
    added = [OTHER] * has_other + [MISSING] * (rule == "branch")
    values = (*listed, *(value for value in added if value not in listed))
    if len(set(values)) != len(values):
        repeated = next(value for value, times in Counter(values).items() if times > 1)
        raise SchemaError(
            f"feature {name!r}: categories must be two or more different values; {repeated!r} is repeated"
        )
    if len(values) < 2:
        raise SchemaError(
            f"feature {name!r}: categories must be two or more different values, got {listed}: list the others, set "
            "other: true, or leave the column out, as it tells nothing"
        )
    return values


def _na_values(plain: Any) -> tuple[str, ...]:
    if plain is None:
        return NA_VALUES
    return tuple("" if value is None else _name(value, "na_values") for value in _sequence(plain, "na_values"))


def _refuse_unknown(plain: Mapping[str, Any], allowed: set[str], where: str) -> None:
    if unknown := sorted(str(key) for key in plain if key not in allowed):
        near = difflib.get_close_matches(unknown[0], allowed, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SchemaError(f"{where}: unknown key {unknown[0]!r}; {hint}allowed: {', '.join(sorted(allowed))}")


def _name(value: Any, where: str) -> str:
    if isinstance(value, bool):
        raise SchemaError(f"{where}: {value} is a truth value in YAML (yes, no, on, off are too): put it in quotes")
    return str(value)


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise SchemaError(f"{where}: expected a list, got {value!r}")
    return value


def _whole(value: Any, where: str) -> int:
    number = _number(value, where)
    if not number.is_integer():
        raise SchemaError(f"{where}: expected a whole number, got {value!r}")
    return int(number)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{where}: expected a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise SchemaError(f"{where}: a number of {len(str(value))} digits is too large") from None

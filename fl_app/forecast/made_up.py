"""Made-up rows of any schema, with columns that move together and with the target; nobody's data stands behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from dpforest.cells import MISSING
from dpforest.schema import Schema

_FACTORS = 3  # that all columns and the target follow
_APART = 1.5  # deviation of the classes' centres among these
_OWN_NOISE = 0.7  # of a column, of which its neighbours know nothing
_CLIENT_SHIFT = 0.3
_MISSING_SHARE = 0.02  # of the cells of a column with a branch for them


class MadeUpRows:
    """Rows that follow a few factors, which depend on class and client.

    Parameters
    ----------
    schema : Schema
    seed : int
        Of the relations between columns and of all rows.
    """

    def __init__(self, schema: Schema, seed: int) -> None:
        self._schema = schema
        self._seed = seed
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        numeric = len(schema.numeric_features)
        self._loadings = rng.normal(size=(_FACTORS, numeric))
        self._of_categories = {name: rng.normal(size=(_FACTORS, len(self._values(name)))) for name in schema.categories}
        self._centres = rng.normal(scale=_APART, size=(max(1, len(schema.classes)), _FACTORS))
        self._of_target = rng.normal(size=_FACTORS)

    def table(self, client: int, rows: int) -> pd.DataFrame:
        """The rows of one client, as its file would hold them."""
        schema = self._schema
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(client,)))
        y = rng.integers(len(self._centres), size=rows)
        factors = self._centres[y] if schema.is_classification else rng.normal(scale=_APART, size=(rows, _FACTORS))
        factors = factors + rng.normal(size=factors.shape) + rng.normal(scale=_CLIENT_SHIFT, size=_FACTORS)
        place = expit(factors @ self._loadings + rng.normal(scale=_OWN_NOISE, size=(rows, self._loadings.shape[1])))
        columns: dict[str, object] = {}
        for position, index in enumerate(schema.numeric_features):
            feature = schema.features[index]
            values = feature.low + (feature.high - feature.low) * place[:, position]
            hidden = feature.has_branch & (rng.random(rows) < _MISSING_SHARE)
            columns[feature.name] = np.where(hidden, np.nan, values)
        for name, loadings in self._of_categories.items():
            chosen = np.argmax(factors @ loadings + rng.gumbel(size=(rows, loadings.shape[1])), axis=1)
            cells = np.array(self._values(name), dtype=object)[chosen]
            if schema.missing_categories.get(name) == "branch":
                cells[rng.random(rows) < _MISSING_SHARE] = None
            columns[name] = cells
        if schema.target_range is None:
            columns[schema.target] = np.array(schema.classes, dtype=object)[y]
        else:
            low, high = schema.target_range
            share = expit(factors @ self._of_target + rng.normal(scale=_OWN_NOISE, size=rows))
            columns[schema.target] = low + (high - low) * share
        return pd.DataFrame(columns)

    def write(self, folder: Path, clients: int, rows: int) -> None:
        """One Parquet file a client."""
        width = len(str(clients - 1))
        for client in range(clients):
            self.table(client, rows).to_parquet(folder / f"client_{client:0{width}}.parquet", index=False)

    def _values(self, column: str) -> list[str]:
        schema = self._schema
        has_branch = schema.missing_categories.get(column) == "branch"
        return [value for value in schema.categories[column] if not (has_branch and value == MISSING)]

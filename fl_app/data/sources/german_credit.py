"""``german_credit``: 1,000 applicants for a loan, good or bad risks.

Hofmann H. (1994) Statlog (German Credit Data). UCI Machine Learning Repository. Read is the
original form with 13 categorical and 7 numeric attributes, whose codes ``german.doc`` explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema import Feature, Schema
from fl_app.data.cache import Clipped
from fl_app.data.reading.files import data_folder
from fl_app.data.source import DataError, DataSource, Rows, SourceSettings, Text, bounded, inside_bounds

FILE = "german.data"

# in the order of the file; a categorical attribute by the meaning of its codes
ATTRIBUTES: Mapping[str, Feature | Mapping[str, str]] = {
    "checking_account": {
        "A11": "below 0 DM", "A12": "0 to 200 DM", "A13": "200 DM or more", "A14": "none",
    },
    "duration": Feature("duration", 0.0, 120.0, "months", "signed_sqrt"),
    "credit_history": {
        "A30": "no credits", "A31": "all paid at this bank", "A32": "existing paid duly", "A33": "delays",
        "A34": "critical",
    },
    "purpose": {
        "A40": "new car", "A41": "used car", "A42": "furniture", "A43": "radio or television",
        "A44": "domestic appliances", "A45": "repairs", "A46": "education", "A47": "vacation", "A48": "retraining",
        "A49": "business", "A410": "others",
    },
    "amount": Feature("amount", 0.0, 20_000.0, "DM", "signed_sqrt"),
    "savings": {
        "A61": "below 100 DM", "A62": "100 to 500 DM", "A63": "500 to 1000 DM", "A64": "1000 DM or more",
        "A65": "unknown or none",
    },
    "employment": {
        "A71": "unemployed", "A72": "below 1 year", "A73": "1 to 4 years", "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "installment_rate": Feature("installment_rate", 1.0, 4.0, "class"),
    "status_and_sex": {
        "A91": "man divorced", "A92": "woman not single", "A93": "man single", "A94": "man married",
        "A95": "woman single",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "residence_since": Feature("residence_since", 1.0, 4.0, "class"),
    "property": {
        "A121": "real estate", "A122": "savings agreement or life insurance", "A123": "car or other",
        "A124": "unknown or none",
    },
    "age": Feature("age", 18.0, 100.0, "years"),
    "other_installments": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "for free"},
    "credits": Feature("credits", 1.0, 4.0, "class"),
    "job": {
        "A171": "unskilled non-resident", "A172": "unskilled resident", "A173": "skilled", "A174": "highly qualified",
    },
    "dependants": Feature("dependants", 1.0, 2.0, "class"),
    "telephone": {"A191": "none", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
}  # fmt: skip
RISKS = {"1": "good", "2": "bad"}


@dataclass(frozen=True)
class GermanCreditSettings(SourceSettings):
    """Where the table is.

    Parameters
    ----------
    path
        Folder of ``german.data``, which may lie in a folder of it; null means
        ``$DPFOREST_DATA/german_credit``.

    Raises
    ------
    DataError
        A value is not allowed.
    """

    path: Text = None


class GermanCreditSource(DataSource):
    """One bank's applicants: the only subject is ``bank``, and a partition makes clients of it."""

    name = "german_credit"
    Settings = GermanCreditSettings
    settings: GermanCreditSettings

    def schema(self) -> Schema:
        """The numbers, then one 0/1 column for each category of ``german.doc``.

        The document gives no ranges. Installment rate, residence, credits and dependants are
        classes from 1 (Groemping U. 2019, South German Credit Data: Correcting a Widely Used Data
        Set). Applicants are of age. For durations (ten years) and amounts (20,000 DM) no public
        limit is known: these are round figures for consumer loans of the 1970s.
        """
        return self._schema

    @property
    def record(self) -> str:
        """One row of the table."""
        return "one applicant"

    @property
    def has_recordings(self) -> bool:
        """No."""
        return False

    def subjects(self) -> tuple[str, ...]:
        """The one bank."""
        return ("bank",)

    def files(self, subject: str) -> tuple[Path, ...]:
        """The table."""
        folder = data_folder(self.name, self.settings.path)
        found = sorted(folder.rglob(FILE))
        if not found:
            raise DataError(f"data set german_credit: {folder.absolute()} holds no {FILE}")
        return (found[0],)

    def read(self, subject: str) -> tuple[Rows, Clipped]:
        """All applicants, in the order of the file."""
        (path,) = self.files(subject)
        lines = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
        lines = [cells for cells in lines if cells]
        for number, cells in enumerate(lines, start=1):
            if len(cells) != len(ATTRIBUTES) + 1:
                raise DataError(
                    f"data set german_credit: line {number} of {FILE} has {len(cells)} cells, expected "
                    f"{len(ATTRIBUTES) + 1}; german.data-numeric is another form"
                )
        if not lines:
            raise DataError(f"data set german_credit: {path.absolute()} is empty; copy it again")
        *attributes, risks = zip(*lines, strict=True)
        columns: dict[str, np.ndarray] = {}
        for column, (name, kind) in zip(attributes, ATTRIBUTES.items(), strict=True):
            columns |= _numbers(name, column) if isinstance(kind, Feature) else _one_hot(name, column, kind)
        X = np.column_stack([columns[name] for name in self._schema.feature_names])
        X, clipped = bounded(X, self._schema, self.settings.out_of_bounds)
        y = self._schema.encode_classes([_meaning("risk", RISKS, cell) for cell in risks])
        return Rows(inside_bounds(X, self._schema), y, np.zeros(len(y), dtype=np.int64)), clipped

    @cached_property
    def _schema(self) -> Schema:
        numeric = tuple(kind for kind in ATTRIBUTES.values() if isinstance(kind, Feature))
        categories = {name: tuple(kind.values()) for name, kind in ATTRIBUTES.items() if not isinstance(kind, Feature)}
        encoded = tuple(Feature(f"{name}={value}", 0.0, 1.0) for name, values in categories.items() for value in values)
        return Schema(numeric + encoded, "risk", tuple(RISKS.values()), rows=1000, categories=categories)


def _numbers(name: str, cells: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        return {name: np.array(cells, dtype=np.float64)}
    except ValueError as error:
        raise SchemaError(f"column {name!r} holds a cell that is no number ({error})") from error


def _one_hot(name: str, cells: tuple[str, ...], codes: Mapping[str, str]) -> dict[str, np.ndarray]:
    values = np.array([_meaning(name, codes, cell) for cell in cells])
    return {f"{name}={value}": (values == value).astype(np.float64) for value in codes.values()}


def _meaning(name: str, codes: Mapping[str, str], cell: str) -> str:
    if cell not in codes:
        raise SchemaError(f"column {name!r} holds {cell!r}, which is not among its codes {', '.join(codes)}")
    return codes[cell]

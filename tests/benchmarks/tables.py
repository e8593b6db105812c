"""``python -m tests.benchmarks.tables``: private learners on single tables, as one Markdown table.

Boosting of this package, DP-EBM (of the optional package ``interpret-core``) at the same epsilon and delta, the forest
or the linear regression of diffprivlib at the same epsilon, and scikit-learn's gradient boosting without privacy, on
Adult and Abalone (``DPFOREST_DATA/tables``) and scikit-learn's breast cancer. diffprivlib needs an older scikit-learn,
so the first run makes an environment of its own for it. Means over seeds, each with a test part of its own; the noise
is seeded, so no model may be published as private.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from dpforest import PrivateBoostClassifier, PrivateBoostRegressor
from dpforest.schema import Schema

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
OURS, WITHOUT, EBM = "dpforest boosting", "gradient boosting without privacy", "DP-EBM"
DIFFPRIVLIB = "diffprivlib"
_NEEDED = ("diffprivlib", "scikit-learn<1.6", "numpy<2")
Fit = Callable[[pd.DataFrame, np.ndarray, Schema, float, int], Any]


@dataclass(frozen=True)
class Table:
    """Rows with what is public about them."""

    name: str
    frame: pd.DataFrame
    y: np.ndarray
    schema: Schema


def tables() -> Iterator[Table]:
    """Those whose files are there."""
    facts = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    folder = Path(os.environ.get("DPFOREST_DATA", "")) / "tables"
    for name, plain in facts.items():
        if not (folder / f"{name}.data").is_file():
            print(f"{name} is left out: no tables/{name}.data under DPFOREST_DATA")
            continue
        frame = pd.read_csv(folder / f"{name}.data", skipinitialspace=True, keep_default_na=False, na_values=["?"])
        frame = frame.drop_duplicates() if name == "abalone" else frame
        yield Table(name, frame, frame[plain["target"]].to_numpy(), Schema.from_dict(plain))
    bunch = load_breast_cancer(as_frame=True)
    # No bounds are documented; twice the largest value to two digits stands for what a physician would say.
    high = {name: float(f"{2 * values.max():.1g}") for name, values in bunch.data.items()}
    features = [{"name": name, "low": 0, "high": most} for name, most in high.items()]
    schema = Schema.from_dict({"features": features, "target": "kind", "classes": ["malignant", "benign"]})
    yield Table("breast cancer", bunch.data, np.array(schema.classes)[bunch.target], schema)


def ours(frame: pd.DataFrame, y: np.ndarray, schema: Schema, epsilon: float, seed: int) -> Any:
    """Boosting of this package, with its defaults."""
    estimator = PrivateBoostClassifier if schema.is_classification else PrivateBoostRegressor
    return estimator(epsilon=epsilon, delta=DELTA, schema=schema, random_state=seed).fit(frame, y)


def without_privacy(frame: pd.DataFrame, y: np.ndarray, schema: Schema, epsilon: float, seed: int) -> Any:
    """Scikit-learn's, with its defaults."""
    estimator = HistGradientBoostingClassifier if schema.is_classification else HistGradientBoostingRegressor
    return estimator(random_state=seed, categorical_features="from_dtype").fit(frame, y)


def dp_ebm(frame: pd.DataFrame, y: np.ndarray, schema: Schema, epsilon: float, seed: int) -> Any:
    """Explainable boosting machine with differential privacy, with its defaults and our public bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    bounds = {schema.features[f].name: (schema.features[f].low, schema.features[f].high)
              for f in schema.numeric_features}  # fmt: skip
    frame = _without_gaps(frame, schema)
    types = ["nominal" if name in schema.categories else "continuous" for name in frame.columns]
    more: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "privacy_bounds": bounds, "feature_types": types}
    if schema.target_range is None:
        return _Filled(DPExplainableBoostingClassifier(random_state=seed, **more).fit(frame, y), schema)
    low, high = schema.target_range
    more |= {"privacy_target_min": low, "privacy_target_max": high}
    return _Filled(DPExplainableBoostingRegressor(random_state=seed, **more).fit(frame, y.astype(float)), schema)


@dataclass(frozen=True)
class _Filled:
    """A model that cannot take missing cells."""

    model: Any
    schema: Schema

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict(_without_gaps(frame, self.schema))

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(_without_gaps(frame, self.schema))


def _without_gaps(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Missing cells as a category; the tables have none in numeric columns."""
    filled = {name: frame[name].astype(object).where(frame[name].notna(), "missing") for name in schema.categories}
    return frame.assign(**filled)


@cache
def interpreter_with_diffprivlib() -> Path | None:
    """This one, or that of an environment of its own under ``DPFOREST_CACHE``, made if it is not there."""
    if importlib.util.find_spec("diffprivlib"):
        return Path(sys.executable)
    folder = Path(os.environ.get("DPFOREST_CACHE", tempfile.gettempdir())).absolute() / "diffprivlib"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    have = subprocess.run([python, "-c", "import diffprivlib"], capture_output=True).returncode == 0
    if not have and subprocess.run([python, "-m", "pip", "install", "--quiet", *_NEEDED]).returncode:
        return None
    return python


@dataclass
class _Elsewhere:
    """A model of diffprivlib: trained, and asked at once, in another process."""

    X: np.ndarray
    y: np.ndarray
    schema: Schema
    epsilon: float
    seed: int
    seconds: float = field(default=0.0, init=False)

    @property
    def classes_(self) -> np.ndarray:
        return np.unique(self.schema.classes)

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        schema = self.schema
        # A linear model cannot tell a categorical column's last value from what the others leave.
        last = [] if schema.is_classification else [features[-1] for features in schema.category_features]
        used = np.setdiff1d(np.arange(schema.n_features), last)
        given = {
            "X": self.X[:, used], "y": self.y, "X_new": schema.matrix(frame)[:, used],
            "low": schema.low[used], "high": schema.high[used],
            "epsilon": self.epsilon, "seed": self.seed, "classes": self.classes_,
            "target_range": np.array(schema.target_range or ()),
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "given.npz"
            np.savez(path, **given)
            script = Path(__file__).with_name("diffprivlib_side.py")
            subprocess.run([interpreter_with_diffprivlib(), "-W", "ignore", script, path], check=True)
            with np.load(path.with_suffix(".out.npz")) as found:
                self.seconds = float(found["seconds"])
                return found["predicted"]

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        found = self.predict_proba(frame)
        return self.classes_[found.argmax(axis=1)] if self.schema.is_classification else found


def diffprivlib(frame: pd.DataFrame, y: np.ndarray, schema: Schema, epsilon: float, seed: int) -> Any:
    """Forest of classes or linear regression, with their defaults and our public bounds, at delta 0."""
    return _Elsewhere(schema.matrix(frame), y.astype(str if schema.is_classification else float), schema, epsilon, seed)


def known(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The schema's columns, categories with their public lists."""
    kinds = {name: pd.CategoricalDtype(list(values)) for name, values in schema.categories.items()}
    return frame[schema.columns].astype(kinds)


def measure(table: Table, fit: Fit, epsilon: float, seed: int) -> dict[str, float]:
    """Metrics on a test part that the seed draws, and seconds of the fit."""
    frame = known(table.frame, table.schema)
    kinds = table.y if table.schema.is_classification else None
    X, X_test, y, y_test = train_test_split(frame, table.y, test_size=0.2, random_state=seed, stratify=kinds)
    start = time.perf_counter()
    model = fit(X, y, table.schema, epsilon, seed)
    seconds = time.perf_counter() - start
    if not table.schema.is_classification:
        r2 = r2_score(y_test, model.predict(X_test))
        return {"R^2": r2, "seconds": getattr(model, "seconds", seconds)}
    positive = list(model.classes_).index(table.schema.classes[1])
    score = model.predict_proba(X_test)[:, positive]
    auc = roc_auc_score(y_test == table.schema.classes[1], score)
    accuracy = accuracy_score(y_test, model.predict(X_test))
    return {"AUC": auc, "accuracy": accuracy, "seconds": getattr(model, "seconds", seconds)}


def lines(table: Table, seeds: int, epsilons: tuple[float, ...]) -> Iterator[str]:
    """Rows of the Markdown table."""
    learners: list[tuple[str, Fit, tuple[float, ...]]] = [(OURS, ours, epsilons), (WITHOUT, without_privacy, (np.inf,))]
    if importlib.util.find_spec("interpret"):
        learners.insert(1, (EBM, dp_ebm, epsilons))
    if interpreter_with_diffprivlib():
        learners.insert(-1, (DIFFPRIVLIB, diffprivlib, epsilons))
    for learner, fit, asked in learners:
        for epsilon in asked:
            found = pd.DataFrame([measure(table, fit, epsilon, seed) for seed in range(seeds)])
            cells = [f"{found[name].mean():.3f}" if name in found else "" for name in ("AUC", "accuracy", "R^2")]
            yield " | ".join(
                ["", table.name, learner, f"{epsilon:g}", *cells, f"{found['seconds'].mean():.2f}", ""]
            ).strip()


def main(arguments: list[str] | None = None) -> None:
    """Print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many splits and draws of noise (default: 5)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS, help="budgets (default: 0.1 to 10)")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", module="interpret")
    if not importlib.util.find_spec("interpret"):
        print(f"{EBM} is left out: pip install interpret-core")
    if not interpreter_with_diffprivlib():
        print(f"{DIFFPRIVLIB} is left out: it could not be installed")
    found = list(tables())
    print("\n| table | learner | epsilon | AUC | accuracy | R^2 | seconds |\n" + "| --- " * 7 + "|")
    for table in found:
        for line in lines(table, options.seeds, tuple(options.epsilons)):
            print(line, flush=True)


if __name__ == "__main__":
    main()

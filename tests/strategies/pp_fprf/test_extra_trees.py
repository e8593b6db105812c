"""The protocol against scikit-learn's ExtraTrees, grown centrally on the same rows within the same limits.

What growing apart costs is the local choice of the split (Liu et al. 2022, algorithm 2): in deep nodes a user has few
rows, often of one class, and its vote is a matter of chance. With one user nothing is left to differ.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hand_made import make, run
from sklearn.ensemble import ExtraTreesClassifier

from fl_app.data import client_data
from fl_app.engine.experiment import Experiment
from strategies.pp_fprf import GlobalSettings

REAL = Path(os.environ.get("DPFOREST_DATA", "")) / "hapt"
SETTINGS = {"accounting": "published", "trees": 12, "depth": 10, "voting": "soft", "validation_share": 0.0}
FEATURES, CLASSES = 9, 4


def together(dataset: dict[str, Any], **options: Any) -> Experiment:
    return make(dataset, "inf", strategy=SETTINGS | {"name": "pp_fgrf"}, **options)


def accuracy_of_extra_trees(experiment: Experiment, clients: int, seed: int = 0) -> float:
    parts = [
        client_data(experiment.source, experiment.partition, experiment.evaluation, client, clients)
        for client in range(clients)
    ]
    train, test = (
        (
            np.concatenate([getattr(part, side).X for part in parts]),
            np.concatenate([getattr(part, side).y for part in parts]),
        )
        for side in ("train", "test")
    )
    settings: GlobalSettings = experiment.settings
    trees = ExtraTreesClassifier(
        settings.trees,
        criterion="entropy",
        max_depth=settings.depth,
        max_features=settings.candidates(train[0].shape[1]),
        min_samples_split=settings.min_rows,
        random_state=seed,
    )
    return float(trees.fit(*train).score(*test))


def overlapping_classes(folder: Path, clients: int) -> dict[str, Any]:
    """A table of 2,400 rows whose classes overlap, divided among the clients."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=2400)
    centres = rng.uniform(0.25, 0.75, (CLASSES, FEATURES))
    X = np.clip(centres[y] + rng.normal(0, 0.2, (len(y), FEATURES)), 0, 1)
    names = [f"x{feature}" for feature in range(FEATURES)]
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", *names, "kind"])
        writer.writerows([f"c{i % clients}", *X[i].round(6), f"k{y[i]}"] for i in range(len(y)))
    schema = {
        "target": "kind",
        "classes": [f"k{kind}" for kind in range(CLASSES)],
        "rows": 2400 // clients,
        "features": [{"name": name, "low": 0, "high": 1} for name in names],
    }
    (folder / "schema.yaml").write_text(yaml.safe_dump(schema))
    where = {"path": str(folder / "table.csv"), "schema": str(folder / "schema.yaml")}
    return {"name": "table", "client_column": "client", **where}


@pytest.mark.parametrize("clients", [1, 4])
def test_trees_grown_together_are_as_good_as_trees_grown_centrally(tmp_path: Path, clients: int) -> None:
    experiment = together(overlapping_classes(tmp_path, clients))
    central = accuracy_of_extra_trees(experiment, clients)
    assert 0.6 < central < 0.98, "neither chance nor a task that anything solves"
    assert run(experiment, clients).metrics["accuracy"] == pytest.approx(central, abs=0.03)


@pytest.mark.skipif(not REAL.is_dir(), reason="DPFOREST_DATA does not hold hapt")
def test_trees_of_thirty_people_are_as_good_as_trees_grown_centrally() -> None:
    experiment = together({"name": "hapt", "classes": 6}, partition={"kind": "subject"})
    central = accuracy_of_extra_trees(experiment, 30)
    assert run(experiment, 30).metrics["accuracy"] == pytest.approx(central, abs=0.03)

"""Flat rows of many runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpforest.errors import DPForestError
from fl_app.metrics import Kind, metrics_of
from fl_app.run_folder import find_runs, read_run, write_table

RESULTS = "results.csv"
_FACTS = (
    "test_rows", "clients", "rounds", "bytes_down", "bytes_up", "bytes_of_rows", "public_rows", "seconds", "failures",
)  # fmt: skip
# Beside the settings of the method and the data set, what tells runs apart; never the seed, a fold or the budget.
_SETUP = ("partition", "asked_clients", "part", "asked_rounds")
log = logging.getLogger(__name__)


def result_row(run: dict[str, Any]) -> dict[str, Any]:
    """One run as one flat row: what was run, what it guarantees, what it reached."""
    config, metrics, privacy = run["config"], run["metrics"], run["privacy"]
    strategy = {f"strategy.{key}": value for key, value in config["strategy"].items() if key != "name"}
    # Every ledger of a run has the same budget; it is infinite where the method has no use for epsilon.
    budget = next(iter(privacy["clients"].values()))["budget"]
    dataset = {f"dataset.{key}": value for key, value in config["dataset"].items() if key not in ("name", "path")}
    row = {
        "run": run["folder"].name,
        "strategy": config["strategy"]["name"],
        "dataset": config["dataset"]["name"],
        "partition": config["partition"]["kind"],
        "asked_clients": config["partition"].get("clients"),
        "split": config["evaluation"]["split"],
        "part": config["evaluation"]["part"],
        "fold": config["evaluation"]["fold"],
        "asked_rounds": config["rounds"],
        "epsilon": float(budget["epsilon"]),
        "delta": float(budget["delta"]),
        "guarantee": privacy["guarantee"],
        "unit": privacy["unit"],
        "trust": privacy["trust"],
        "record": privacy["record"],
        "seed": config["seed"],
    }
    of_classes, of_targets = metrics_of(Kind.CLASSES, Kind.TWO_CLASSES), metrics_of(Kind.TARGET)
    names = [*(m.name for m in of_classes), "worst_client", *(m.name for m in of_targets), *_FACTS]
    row |= {name: metrics[name] for name in names if name in metrics}
    row |= {f"memorization_{n}": rate for n, rate in metrics.get("memorization_rate", {}).items()}
    return row | dataset | strategy


def draw_of(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a run drew at random: seed, fold, seeds of the split and the partition. Only equal draws are paired."""
    evaluation, partition = config["evaluation"], config["partition"]
    return config["seed"], evaluation["fold"], evaluation.get("seed"), partition.get("seed")


def telling_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The fewest columns of settings, taken in order, that tell apart all settings of the rows.

    Those of the whole set-up come first, then ``dataset.*`` and ``strategy.*``.
    """
    named = dict.fromkeys(key for row in rows for key in row if key.startswith(("dataset.", "strategy.")))
    chosen: list[str] = []

    def groups(names: Sequence[str]) -> int:
        return len({(row["dataset"], row["strategy"], *(str(row.get(name)) for name in names)) for row in rows})

    # Whether a method is as published says more than the settings that come with it.
    order = sorted(named, key=lambda key: (key.startswith("strategy."), key != "strategy.accounting"))
    for column in (*_SETUP, *order):
        if groups([*chosen, column]) > groups(chosen):
            chosen.append(column)
    return chosen


def telling_of_methods(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Of `telling_columns`, those in which runs of a method differ, for each method."""
    telling = telling_columns(rows)
    values: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        own = values.setdefault(row["strategy"], {})
        for name in telling:
            own.setdefault(name, set()).add(str(row.get(name)))
    return {method: [name for name in telling if len(own[name]) > 1] for method, own in values.items()}


@lru_cache(maxsize=10_000)
def _read_once(folder: Path, written: int) -> dict[str, Any]:
    """A finished run, read from disk once: a sweep asks for all its runs after each of them."""
    return read_run(folder)


def read_runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """All finished runs at or below the folders; damaged ones are named and left out."""
    runs = []
    for folder in find_runs(folders):
        try:
            run = _read_once(folder, (folder / "metrics.json").stat().st_mtime_ns)
            result_row(run)
            runs.append(run)
        except (DPForestError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            log.warning("left out: %s: %s", folder, error)
    return runs


def write_results(sweep: Path) -> None:
    """Write ``results.csv`` of a sweep folder anew."""
    if rows := [result_row(run) for run in read_runs([sweep])]:
        write_table(sweep / RESULTS, rows)

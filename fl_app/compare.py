"""``python -m fl_app.compare FOLDER...``: one table of many runs."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpforest.errors import DPForestError
from fl_app.run_folder import find_runs, read_run, write_table
from fl_app.tables import columns, human_bytes

RESULTS = "results.csv"
_METRICS = (
    "accuracy", "balanced_accuracy", "macro_f1", "log_loss", "worst_client", "mse", "mae", "r2", "pearson",
    "test_rows", "clients", "rounds", "bytes_down", "bytes_up", "seconds", "failures",
)  # fmt: skip
log = logging.getLogger(__name__)


def result_row(run: dict[str, Any]) -> dict[str, Any]:
    """One run as one flat row: what was run, what it guarantees, what it reached."""
    config, metrics, privacy = run["config"], run["metrics"], run["privacy"]
    strategy = {f"strategy.{key}": value for key, value in config["strategy"].items() if key != "name"}
    row = {
        "run": run["folder"].name,
        "strategy": config["strategy"]["name"],
        "dataset": config["dataset"]["name"],
        "partition": config["partition"]["kind"],
        "split": config["evaluation"]["split"],
        "part": config["evaluation"]["part"],
        "fold": config["evaluation"]["fold"],
        "epsilon": float(config["privacy"]["epsilon"]),
        "delta": config["privacy"]["delta"],
        "guarantee": privacy["guarantee"],
        "unit": privacy["unit"],
        "trust": privacy["trust"],
        "record": privacy["record"],
        "seed": config["seed"],
    }
    row |= {name: metrics[name] for name in _METRICS if name in metrics}
    row |= {f"memorization_{n}": rate for n, rate in metrics.get("memorization_rate", {}).items()}
    return row | strategy


def read_results(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Flat rows of all finished runs at or below the folders; damaged ones are named and left out."""
    rows = []
    for folder in find_runs(folders):
        try:
            rows.append(result_row(read_run(folder)))
        except (DPForestError, KeyError) as error:
            log.warning("left out: %s", error)
    return rows


def write_results(sweep: Path) -> None:
    """Write ``results.csv`` of a sweep folder anew."""
    if rows := read_results([sweep]):
        write_table(sweep / RESULTS, rows)


def comparison_table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean and range over seeds and folds, one line for each setting that differs."""
    frame = pd.DataFrame(rows)
    varying = [c for c in frame.columns if c.startswith("strategy.") and frame[c].astype(str).nunique() > 1]
    keys = ["dataset", "split", "strategy", *varying, "epsilon", "unit"]
    primary = "accuracy" if "accuracy" in frame else "r2"
    lines = []
    frame[keys] = frame[keys].astype({k: str for k in keys if k != "epsilon"})
    for key, group in frame.groupby(keys, sort=True, dropna=False):
        scores = group[primary].dropna()
        cells = [str(cell) for cell in key[:-2]] + [f"{key[-2]:g}", _short_unit(key[-1])]
        cells += [str(len(group)), f"{scores.mean():.3f} [{scores.min():.3f} to {scores.max():.3f}]"]
        if "balanced_accuracy" in group:
            cells.append(f"{group['balanced_accuracy'].mean():.3f}")
        cells += [human_bytes(group["bytes_up"].mean()), f"{group['seconds'].mean():.1f}"]
        lines.append(cells)
    header = [k.removeprefix("strategy.") for k in keys] + ["runs", primary]
    header += ["balanced"] if "balanced_accuracy" in frame else []
    return columns([*header, "bytes up", "seconds"], lines)


def _short_unit(unit: str) -> str:
    return unit.split(" added")[0].removeprefix("one ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 if there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m fl_app.compare", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, sweep folders, or folders of them")
    folders = parser.parse_args(arguments).folders
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        print(f"error: no folder {missing[0]}", file=sys.stderr)
        return 1
    rows = read_results(folders)
    if not rows:
        print(f"error: no finished run in {', '.join(map(str, folders))}", file=sys.stderr)
        return 1
    print(comparison_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

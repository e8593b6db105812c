"""``python -m fl_app.compare FOLDER...``: one table and the figures of many runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fl_app.figures import write_figures
from fl_app.results import read_runs, result_row, telling_columns
from fl_app.tables import columns, human_bytes


def comparison_table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean and range over seeds and folds, one line for each setting that differs."""
    frame = pd.DataFrame(rows)
    keys = ["dataset", "split", "strategy", *telling_columns(rows), "epsilon", "unit"]
    primary = "accuracy" if "accuracy" in frame else "r2"
    lines = []
    frame[keys] = frame[keys].astype({k: str for k in keys if k != "epsilon"})
    for key, group in frame.groupby(keys, sort=True, dropna=False):
        scores = group[primary].dropna()
        cells = [str(cell) for cell in key[:-2]] + [f"{key[-2]:g}", _short_unit(str(key[-1]))]
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
    parser.add_argument("--figures", type=Path, help="where to write figures (default: figures in the first folder)")
    options = parser.parse_args(arguments)
    folders: list[Path] = options.folders
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        print(f"error: no folder {missing[0]}", file=sys.stderr)
        return 1
    runs = read_runs(folders)
    if not runs:
        print(f"error: no finished run in {', '.join(map(str, folders))}", file=sys.stderr)
        return 1
    rows = [result_row(run) for run in runs]
    print(comparison_table(rows))
    written = write_figures(runs, rows, options.figures or folders[0] / "figures")
    print("\nfigures: " + ", ".join(str(path) for path in written if path.suffix == ".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

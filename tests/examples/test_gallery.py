"""Every script of the gallery runs, smaller than a reader runs it, and shows what its text says."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What makes it smaller, and what is said: by every script here, so that a new one needs a line.
SCRIPTS = {
    "audit_a_function": ("2000", ["numbers in it (largest)", "VIOLATED", "not refuted"]),
    "categories_and_missing_cells": ("1500", ["epsilon = 1, delta = 1e-06 for one record", "AUC"]),
    "fext_dp_appliances": ("2", ["appliances is not in DPFOREST_DATA", "epsilon 100: RMSE", "epsilon = 100 (pure)"]),
    "first_federation": ("3", ["epsilon = 1 (pure) for one record", "3 trees of 3 clients", "each alone"]),
    "har_comparison": ("1", ["hapt is not in DPFOREST_DATA", "boost, secure sums", "epsilon = 1 (pure)"]),
    "personal_forests": ("4", ["wisdm is not in DPFOREST_DATA", "epsilon 20: epsilon = 18.86 (pure)", "type C: lrf"]),
    "pipeline_grid_search": ("800", ["one fit: epsilon 0.5; a search: 13 x 0.5 = epsilon 6.5", "epsilon = 0.5 (pure)"]),
}


def test_each_script_is_run() -> None:
    assert set(SCRIPTS) == {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_draws(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    argument, words = SCRIPTS[name]
    mpl.use("Agg")
    plt.close("all")
    monkeypatch.delenv("DPFOREST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr("sys.argv", [name, argument])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert [each for each in words if each not in said] == []
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    assert all(axes.has_data() for figure in figures for axes in figure.axes)
    plt.close("all")
    assert list(tmp_path.iterdir()) == []

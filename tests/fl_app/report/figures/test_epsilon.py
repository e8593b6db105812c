"""Figures against epsilon have a panel a privacy unit, and fill only marks with a guarantee."""

from __future__ import annotations

import math
from pathlib import Path

from made_up_runs import CLIENT_UNIT, RECORD_UNIT, a_run
from matplotlib.axes import Axes

from fl_app.report.figures.catalogue import write_all
from fl_app.report.figures.epsilon import against_epsilon
from fl_app.report.sections import sections
from fl_app.results.finished import FinishedRun


def panels(*runs: FinishedRun) -> list[Axes]:
    (section,) = sections(runs)
    ((_, figure),) = against_epsilon(section)
    return list(figure.axes)


def test_what_has_no_budget_is_a_level_in_the_panels_of_all_units(tmp_path: Path) -> None:
    found = panels(
        a_run(tmp_path, "dp_sgd", dataset="other"),
        a_run(tmp_path, "dp_fedavg", CLIENT_UNIT, dataset="other"),
        a_run(tmp_path, "centralized", epsilon=math.inf, dataset="other"),
    )
    # Two units, and accuracy above balanced accuracy.
    assert [axes.get_ylabel() for axes in found] == 2 * ["accuracy"] + 2 * ["balanced accuracy"]
    assert all(axes.get_xscale() == "log" for axes in found)
    of_client, of_record = (f"{name}; server trusted; delta 1e-05" for name in ("client's whole data", "record"))
    shown = [set(axes.get_legend_handles_labels()[1]) for axes in found]
    assert shown == 2 * [
        {f"dp_fedavg ({of_client})", "centralized, no privacy"},
        {f"dp_sgd ({of_record})", "centralized, no privacy"},
    ]


def test_epsilons_of_published_values_have_ticks_too(tmp_path: Path) -> None:
    for axes in panels(a_run(tmp_path, "one_shot", dataset="hugadb", epsilon=3.0)):
        # Favero et al. show epsilon 1 to 1000.
        assert {text.get_text() for text in axes.get_xticklabels()} == {"3", "1", "10", "100", "1000"}


def test_only_marks_with_a_guarantee_are_filled(tmp_path: Path) -> None:
    first = panels(a_run(tmp_path, "kept", dataset="other"), a_run(tmp_path, "none", dataset="other", unproven=True))[0]
    handles, labels = first.get_legend_handles_labels()
    faces = [handle.lines[0].get_markerfacecolor() for handle in handles]
    white = {label.split()[0]: face == "white" for label, face in zip(labels, faces, strict=True)}
    assert white == {"kept": False, "none": True}


def test_figures_are_drawn_with_a_panel_for_each_unit(tmp_path: Path) -> None:
    units = (("dp_sgd", RECORD_UNIT), ("dp_fedavg", CLIENT_UNIT), ("fedavg", RECORD_UNIT))
    (section,) = sections([a_run(tmp_path, name, unit, eps) for name, unit in units for eps in (1.0, 8.0, math.inf)])
    written = write_all(section, tmp_path)
    assert {path.name for path in written} >= {"epsilon-hapt-row-split.png", "convergence-hapt-row-split.svg"}
    text = (tmp_path / "epsilon-hapt-row-split.svg").read_text()
    assert "unit: one record" in text
    assert "unit: one client's whole data" in text
    assert "dp_sgd (record; server trusted; delta 1e-05)" in text
    assert "dp_fedavg (client's whole data; server trusted; delta 1e-05)" in text
    assert "fedavg, no privacy" in text
    # The chapter claims a guarantee for records, so it stands in that panel.
    assert "HAR chapter, table 1 (epsilon a round, no valid guarantee; held-out rows not stated), DP-FedAvg" in text

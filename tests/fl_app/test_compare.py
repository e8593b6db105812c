"""Many runs side by side: tables and figures never mix privacy units, settings or data sets."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fl_app.compare import comparison_table
from fl_app.config import compose_config, to_experiment
from fl_app.figures.base import setting_label
from fl_app.figures.epsilon import against_epsilon, write_figures
from fl_app.figures.federation import convergence, label_shares, write_federation_figures
from fl_app.figures.published import published
from fl_app.report.gather import row_of, sections
from fl_app.results import telling_columns, telling_of_methods

RECORD = "one record added to or removed from one client's training rows"
CLIENT = "one client's whole data added or removed (its place among the clients stays)"


def a_run(folder: Path, strategy: str, unit: str, epsilon: float = 1.0, **more: Any) -> dict[str, Any]:
    """A finished run of three rounds, as `gather` reads it."""
    dataset = {"name": "hapt", "path": None, "classes": more.pop("classes", 6)}
    budget = math.inf if strategy == "fedavg" else epsilon
    seed, accuracy = more.pop("seed", 0), more.pop("accuracy", 0.8)
    path = folder / f"{strategy}-{epsilon}-{seed}-{dataset['classes']}"
    path.mkdir(parents=True)
    rounds = {"round": [1, 2, 3, 4], "bytes_down": 100, "bytes_up": 50, "accuracy": [None, 0.4, 0.6, accuracy]}
    return {
        "folder": path,
        "rounds": pd.DataFrame(rounds),
        "config": {
            "strategy": {"name": strategy, **more},
            "dataset": dataset,
            "partition": {"kind": "subject"},
            "evaluation": {"split": "row", "part": "test", "fold": 0},
            "privacy": {"epsilon": epsilon, "delta": 1e-5},
            "seed": seed,
            "rounds": None,
        },
        "metrics": {"accuracy": accuracy, "balanced_accuracy": 0.5, "bytes_down": 400, "bytes_up": 200, "seconds": 1.0,
                    "bytes_of_rows": 5000},
        "privacy": {"guarantee": "epsilon = 1", "unit": unit, "trust": "server trusted: it sees", "record": "window",
                    "clients": {"0": {"budget": {"epsilon": budget, "delta": 1e-5}}}},
    }  # fmt: skip


def rows_of(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Flat rows with their section and setting."""
    for run in runs:
        run["row"] = row_of(run)
    sections(runs)
    return [run["row"] for run in runs]


def test_a_line_says_unit_trust_and_delta_and_units_never_share_one(tmp_path: Path) -> None:
    # The same method under two units does not exist; here it does, to show that the unit alone keeps lines apart.
    runs = [a_run(tmp_path / str(unit), "x", unit, accuracy=a) for unit, a in ((RECORD, 0.2), (CLIENT, 0.6))]
    table = comparison_table([row_of(run) for run in runs])
    header, _, *lines = table.splitlines()
    assert all(word in header for word in ("epsilon", "delta", "guarantee", "unit", "trust", "raw rows instead"))
    assert len(lines) == 2
    assert any("client's whole data" in line and "0.600" in line for line in lines)
    assert any("record" in line and "0.200" in line for line in lines)
    assert all("server trusted" in line and "1e-05" in line and "5.0 kB" in line for line in lines)


def test_draws_that_reach_the_same_are_all_counted(tmp_path: Path) -> None:
    runs = []
    for draw, accuracy in enumerate((0.8, 0.8, 0.5)):
        runs.append(a_run(tmp_path / str(draw), "x", RECORD, accuracy=accuracy))
        runs[-1]["config"]["evaluation"]["seed"] = draw
    (line,) = comparison_table(rows_of(runs)).splitlines()[2:]
    assert "3     0.700 [0.500 to 0.800]" in line


def test_an_option_that_a_method_does_not_have_is_left_blank(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / f"x{trees}", "x", RECORD, n_trees=trees) for trees in (5, 20)]
    runs.append(a_run(tmp_path / "y", "y", RECORD))
    header, _, *lines = comparison_table(rows_of(runs)).splitlines()
    option = slice(header.index("n_trees"), header.index("epsilon"))
    assert [line[option].strip() for line in lines] == ["20", "5", ""]


def test_a_table_wider_than_the_terminal_stands_in_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [row_of(a_run(tmp_path, name, RECORD, accuracy=a)) for name, a in (("x", 0.2), ("y", 0.6))]
    whole = comparison_table(rows).splitlines()
    assert len(whole) == 4
    monkeypatch.setattr("fl_app.compare.screen_width", lambda: 60)
    blocks = [block.splitlines() for block in comparison_table(rows).split("\n\n")]
    assert max(len(line) for block in blocks for line in block) <= 60
    assert all(block[0].startswith("#  ") and block[2].startswith("1  ") for block in blocks)
    for number, line in ((2, whole[2]), (3, whole[3]), (0, whole[0])):
        assert "".join(line.split()) == "".join("".join(block[number].split()[1:]) for block in blocks)


def test_settings_of_the_data_set_and_numbers_of_rounds_keep_runs_apart(tmp_path: Path) -> None:
    rows = [row_of(a_run(tmp_path, "x", RECORD, classes=classes, seed=classes)) for classes in (6, 12)]
    assert telling_columns(rows) == ["dataset.classes"]
    assert len(comparison_table(rows).splitlines()) == 4
    rows[0]["dataset.classes"], rows[0]["asked_rounds"] = 12, 20
    assert telling_columns(rows) == ["asked_rounds"]


def test_a_label_names_only_what_its_own_method_varies(tmp_path: Path) -> None:
    varied = [a_run(tmp_path / str(trees), "x", RECORD, trees=trees) for trees in (1, 2)]
    rows = [row_of(run) for run in [*varied, a_run(tmp_path, "y", RECORD, trees=9)]]
    telling = telling_of_methods(rows)
    assert [setting_label(row, telling) for row in rows] == ["x trees=1", "x trees=2", "y"]


def test_seeds_share_a_line_and_what_guarantees_nothing_says_so(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "x", RECORD, seed=seed, accuracy=0.1 * seed) for seed in (1, 2, 3)]
    for run in runs:
        run["privacy"]["guarantee"] = "guarantee: none (weights)"
    (line,) = comparison_table([row_of(run) for run in runs]).splitlines()[2:]
    assert "0.200 [0.100 to 0.300]" in line
    assert "none" in line


def test_what_pays_no_heed_to_epsilon_is_one_line_of_a_sweep_over_it(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "fedavg", RECORD, epsilon, seed=seed) for epsilon in (0.1, 1.0) for seed in (0, 1)]
    for run in runs:
        run["privacy"]["guarantee"] = "guarantee: none (weights)"
    rows = rows_of(runs)
    (line,) = comparison_table(rows).splitlines()[2:]
    # epsilon, delta, guarantee, unit, trust, runs
    assert re.search(r"inf +- +none +record +server trusted +2 ", line)
    write_figures(runs, rows, tmp_path / "f")
    text = (tmp_path / "f" / "epsilon-hapt-row-split.svg").read_text()
    assert "fedavg, no privacy" in text


def test_convergence_is_over_rounds_and_all_bytes_and_by_unit(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "dp_sgd", RECORD), a_run(tmp_path, "dp_fedavg", CLIENT)]
    curves = convergence(list(zip(runs, rows_of(runs), strict=True)))
    assert [(curve.unit, curve.setting) for curve in curves] == [("record", "dp_sgd"),
                                                                  ("client's whole data", "dp_fedavg")]  # fmt: skip
    for curve in curves:
        (table,) = curve.tables
        # The first exchange was not judged, but its bytes count.
        assert list(table["round"]) == [1, 2, 3]
        assert list(table["bytes"]) == [300, 450, 600]
        assert list(table["score"]) == [0.4, 0.6, 0.8]


def test_a_method_that_is_judged_at_its_end_only_learns_on_public_rows(tmp_path: Path) -> None:
    run = a_run(tmp_path, "boost", RECORD)
    run["rounds"]["public_accuracy"] = [None, 0.3, 0.5, 0.75]
    run["rounds"]["accuracy"] = [None, None, None, 0.8]
    (curve,) = convergence(list(zip([run], rows_of([run]), strict=True)))
    assert curve.label == "boost, epsilon 1, on public rows (record; server trusted; delta 1e-05)"
    assert list(curve.tables[0]["score"]) == [0.3, 0.5, 0.75]


def test_label_shares_are_of_training_rows_and_only_where_the_rows_are() -> None:
    config = to_experiment(compose_config(["partition.clients=5"])).to_dict()
    shares = label_shares(config | {"overrides": []})
    assert shares is not None
    assert shares.shape == (5, 7)
    assert shares.sum(axis=1).to_numpy() == pytest.approx(1)
    missing = config | {"dataset": {"name": "hapt", "path": "/nowhere"}}
    assert label_shares(missing) is None


def test_figures_are_drawn_with_a_panel_for_each_unit(tmp_path: Path) -> None:
    runs = [
        a_run(tmp_path, strategy, unit, epsilon)
        for strategy, unit in (("dp_sgd", RECORD), ("dp_fedavg", CLIENT), ("fedavg", RECORD))
        for epsilon in (1.0, 8.0, math.inf)
    ]
    rows = rows_of(runs)
    written = write_figures(runs, rows, tmp_path / "f") + write_federation_figures(runs, rows, tmp_path / "f")
    assert {path.name for path in written} >= {"epsilon-hapt-row-split.png", "convergence-hapt-row-split.svg"}
    text = (tmp_path / "f" / "epsilon-hapt-row-split.svg").read_text()
    assert "unit: one record" in text
    assert "unit: one client's whole data" in text
    assert "dp_sgd (record; server trusted; delta 1e-05)" in text
    assert "dp_fedavg (client's whole data; server trusted; delta 1e-05)" in text
    # The chapter claims a guarantee for records, so it stands in that panel.
    assert "HAR chapter, table 1 (epsilon a round, no valid guarantee; held-out rows not told), DP-FedAvg" in text


def labelled(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """Their rows, each curve labelled with its method, on a data set about which no source says anything."""
    frame = pd.DataFrame(rows_of(runs)).assign(dataset="other")
    return frame.assign(label=frame["strategy"])


def test_what_has_no_budget_is_a_level_in_the_panels_of_all_units(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, "dp_sgd", RECORD), a_run(tmp_path, "dp_fedavg", CLIENT)]
    runs.append(a_run(tmp_path, "centralized", RECORD, math.inf))
    panels = against_epsilon(labelled(runs)).axes
    # Two units, and accuracy above balanced accuracy.
    assert [panel.get_ylabel() for panel in panels] == [
        "accuracy",
        "accuracy",
        "balanced accuracy",
        "balanced accuracy",
    ]
    assert all(panel.get_xscale() == "log" for panel in panels)
    shown = [set(panel.get_legend_handles_labels()[1]) for panel in panels]
    assert shown == 2 * [{"dp_fedavg", "centralized, no privacy"}, {"dp_sgd", "centralized, no privacy"}]


def test_epsilons_of_published_values_have_ticks_too(tmp_path: Path) -> None:
    frame = labelled([a_run(tmp_path, "one_shot", RECORD)]).assign(dataset="hugadb")
    ran = {f"{epsilon:g}" for epsilon in frame["epsilon"]}
    for panel in against_epsilon(frame).axes:
        # Favero et al. show epsilon 1 to 1000.
        assert {text.get_text() for text in panel.get_xticklabels()} == ran | {"1", "10", "100", "1000"}


def test_only_marks_with_a_guarantee_are_filled(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, name, RECORD) for name in ("kept", "none")]
    runs[1]["privacy"]["guarantee"] = "guarantee: none (weights)"
    handles, labels = against_epsilon(labelled(runs)).axes[0].get_legend_handles_labels()
    faces = [handle.lines[0].get_markerfacecolor() for handle in handles]
    assert {label: face == "white" for label, face in zip(labels, faces, strict=True)} == {"kept": False, "none": True}


def test_the_chapters_numbers_are_those_of_its_tables() -> None:
    har, credit = published("har_chapter"), published("har_chapter_credit")
    assert har["accuracy"]["DP-FedAvg"] == {0.1: 0.8407, 0.5: 0.8812, 1: 0.9273, 10: 0.9584}
    assert har["without_privacy"] == {"centralized": 0.9773, "FedAvg": 0.9622}
    assert credit["accuracy"]["DP-FedAvg"] == {1: 0.6643}
